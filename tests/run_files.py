"""A run file for tests, as the chart would write it, with changes."""

from typing import Any

import yaml
from run import Run

CONTENT = yaml.safe_load("""
schemaVersion: 1
name: demo
attempt: 1
steps: 100
outputDirectory: /data
compileCacheDirectory: /data/.compile-cache
compiledTrainstepsDirectory: ""
versions: {chart: 0.1.0, ray: 2.60.0, maxtext: 0.2.5}
tpu: {type: v6e, topology: 4x4, rayAcceleratorType: TPU-V6E, acceleratorType: v6e-16, hostsPerSlice: 4,
      chipsPerHost: 4, devicesPerChip: 1, hbmGiBPerChip: 31.25, peakTflopsPerChip: 918, emulated: false}
slices: {min: 2, max: 2}
elastic: {enabled: false, resizeIntervalSeconds: 60, globalBatch: keep}
failures: {maxFailures: 3, maxPreemptions: -1}
timeouts: {workerGroupStartSeconds: 120, stallSeconds: 1800, previousJobSeconds: 600}
megascale: {port: 9915, interfacePrefixes: "eth1,eth2,lo"}
maxtext: {model_name: llama3-8b, per_device_batch_size: 4, scan_layers: true}
libtpuFlags: {xla_tpu_scoped_vmem_limit_kib: 122880, xla_tpu_overlap_compute_collective_tc: true}
env: {}
data: {kind: synthetic, trainFiles: "", evalFiles: "", fileType: arrayrecord, tokenizer: {type: "", path: ""},
       packing: false, tokenized: false, epochs: 0, evalEverySteps: 0, evalSteps: 0, shuffleSeed: 0,
       hf: {path: "", name: "", trainFiles: "", evalFiles: "", evalSplit: ""}}
runtimeInstall: {packages: [], options: []}
guardsAllowed: []
""")


def content(**changes: Any) -> dict[str, Any]:
    """The content with top-level keys replaced; a mapping is merged into the section of that name."""
    result = dict(CONTENT)
    for key, value in changes.items():
        result[key] = {**result[key], **value} if isinstance(value, dict) else value
    return result


def run(**changes: Any) -> Run:
    return Run.model_validate(content(**changes))


ELASTIC: dict[str, Any] = {"slices": {"min": 1, "max": 2}, "elastic": {"enabled": True}}
