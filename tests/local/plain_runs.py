"""MaxText runs of a small model in plain processes, one device each, with the trainer's mended input pipeline."""

import json
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import data_arguments

from driver.local.machine import DIES_WITH_PARENT, environment, free_ports

PROGRAM = Path(__file__).with_name("maxtext_process.py")

MODEL: Mapping[str, Any] = {
    "base_emb_dim": 64,
    "base_num_query_heads": 2,
    "base_num_kv_heads": 2,
    "head_dim": 32,
    "base_mlp_dim": 128,
    "base_num_decoder_layers": 2,
    "vocab_size": 272,
    "per_device_batch_size": 4,
    "dtype": "float32",
    "attention": "dot_product",
    "remat_policy": "minimal",
    "learning_rate": 3e-3,
    "warmup_steps_fraction": 0.1,
    "ici_data_parallelism": -1,
    "ici_fsdp_parallelism": 1,
    "checkpoint_period": 10,
    "skip_jax_distributed_system": "true",
    "enable_goodput_recording": "false",
    "monitor_goodput": "false",
    "enable_tensorboard": "false",
    "enable_checkpoint_cloud_logger": "false",
    "log_config": "false",
}
CPU = {
    "JAX_PLATFORMS": "cpu",
    "JAX_NUM_CPU_DEVICES": "1",
    "DECOUPLE_GCLOUD": "TRUE",
    "HF_HUB_OFFLINE": "1",
    "XLA_FLAGS": "--xla_cpu_experimental_ynn_fusion_type=",
}


@dataclass(frozen=True)
class Runs:
    """A folder in which runs of one model are made on a data set (a folder); full_size: most processes of any start."""

    python: Path
    folder: Path
    text: Path
    schedule_steps: int
    full_size: int = 2

    def on(self, text: Path, full_size: int = 2) -> "Runs":
        """The same on another data set and with another number of processes."""
        return replace(self, text=text, full_size=full_size)

    def train(
        self, name: str, processes: int, steps: int, *, kill_at: int | None = None, mend: bool = True, **more: Any
    ) -> "Losses":
        """Trains run `name` up to `steps`, from its last checkpoint if it has one. Returns what this start logged.

        The global batch is that of `full_size` processes. With `kill_at`, all processes are killed (SIGKILL) once
        that step is logged. Raises AssertionError with the end of the log where it goes otherwise.
        """
        start = self.folder / f"{name}-{len(list(self.folder.glob(f'{name}-*')))}"
        start.mkdir(parents=True)
        request = {
            "arguments": self._arguments(name, processes, steps) | more,
            "processes": processes,
            "port": free_ports(1)[0],
            "losses": str(start / "losses-{rank}.jsonl"),
            "mend": mend,
        }
        (start / "request.json").write_text(json.dumps(request))
        variables = CPU | ({"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"} if processes > 1 else {})
        running = []
        for rank in range(processes):
            command = [*DIES_WITH_PARENT, str(self.python), str(PROGRAM), str(start / "request.json"), str(rank)]
            with (start / f"log-{rank}").open("w") as log:
                running.append(
                    subprocess.Popen(
                        command, stdout=log, stderr=subprocess.STDOUT, env=environment(self.python, variables)
                    )
                )
        try:
            if kill_at is not None:
                self._await_step(start, running, kill_at)
                for process in reversed(running):
                    process.send_signal(signal.SIGKILL)
            codes = [process.wait(timeout=300) for process in running]
        finally:
            for process in running:
                process.kill()
        expected = [0 if kill_at is None else -signal.SIGKILL] * processes
        assert codes == expected, (start / "log-0").read_text()[-4000:]
        return Losses.read(start / "losses-0.jsonl")

    def _arguments(self, name: str, processes: int, steps: int) -> dict[str, Any]:
        return {
            **MODEL,
            **data_arguments.DEFAULTS,
            **data_arguments.arguments(self._data(), slices=processes, max_slices=self.full_size, elastic=True),
            "run_name": name,
            "base_output_directory": str(self.folder),
            "jax_cache_dir": str(self.folder / "compiled"),
            "max_target_length": json.loads((self.text / "dataset.json").read_text())["sequenceLength"],
            "steps": steps,
            "learning_rate_schedule_steps": self.schedule_steps,
            "gradient_accumulation_steps": self.full_size // processes,
        }

    def _data(self) -> dict[str, Any]:
        """The run file's section."""
        return {
            "kind": "grain",
            "trainFiles": f"{self.text}/train-*.array_record",
            "evalFiles": f"{self.text}/eval-*.array_record",
            "fileType": "arrayrecord",
            "tokenizer": {"type": "", "path": f"{self.text}/tokenizer"},
            "packing": False,
            "tokenized": True,
            "epochs": 0,
            "evalEverySteps": 10,
            "evalSteps": 4,
            "shuffleSeed": 0,
        }

    @staticmethod
    def _await_step(start: Path, running: list["subprocess.Popen[bytes]"], step: int) -> None:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and all(process.poll() is None for process in running):
            if max(Losses.read(start / "losses-0.jsonl").train, default=-1) >= step:
                return
            time.sleep(0.02)
        raise AssertionError(f"step {step} was not reached:\n{(start / 'log-0').read_text()[-4000:]}")


@dataclass(frozen=True)
class Losses:
    """Loss by step. evaluation: after that many steps."""

    train: Mapping[int, float]
    evaluation: Mapping[int, float]

    @classmethod
    def read(cls, file: Path) -> "Losses":
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith("\n")]
        of_kind = {kind: {e["step"]: e["loss"] for e in entries if e["kind"] == kind} for kind in ("train", "eval")}
        return cls(of_kind["train"], of_kind["eval"])
