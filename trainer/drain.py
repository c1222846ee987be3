"""Tells Ray that this host is about to go: the preStop hook of the chart's TPU workers, run inside the pod.

Ray Train then counts the loss as a preemption, not as a failure. Runs alone (`python -c`), with what Ray's image has.
"""

import os
import subprocess
import sys

from ray.util.state import list_nodes

DEADLINE_SECONDS = 1
"""When Ray is told to expect the end of this host. Ray (2.60) takes the death of a draining host for a preemption only
after this, and Ray Train goes on training until then: with steps that are lost where no checkpoint falls in between."""


def main() -> int:
    address = os.environ["RAY_ADDRESS"]
    # By slice and host, not by address: emulated hosts share one.
    slice_name, worker_id = os.environ["TPU_NAME"], os.environ["TPU_WORKER_ID"]
    for node in list_nodes(address=address, filters=[("state", "=", "ALIVE")], detail=True):
        labels = node.labels or {}
        if labels.get("ray.io/tpu-slice-name") == slice_name and labels.get("ray.io/tpu-worker-id") == worker_id:
            return _drain(address, node.node_id)
    print(f"host {worker_id} of slice {slice_name} is not alive in the Ray cluster at {address}", file=sys.stderr)
    return 1


def _drain(address: str, node_id: str) -> int:
    return subprocess.run(
        [
            *(sys.executable, "-m", "ray.scripts.scripts", "drain-node", "--address", address, "--node-id", node_id),
            *("--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "the host is being taken away"),
            *("--deadline-remaining-seconds", str(DEADLINE_SECONDS)),
        ],
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
