"""A saved training step in MaxText's own training loop, on two processes. Its program is for CPUs: there is no TPU."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from driver.local.machine import DIES_WITH_PARENT, environment, free_ports
from tests.local.plain_runs import CPU, MODEL

pytestmark = [pytest.mark.local, pytest.mark.full]

PROGRAM = Path(__file__).with_name("saved_step_process.py")


class Group:
    """Starts of one run, from its last checkpoint on."""

    def __init__(self, python: Path, folder: Path) -> None:
        self._python, self._folder = python, folder

    def train(
        self, name: str, steps: int, *, save: Path | None = None, load: Sequence[Path] = ()
    ) -> tuple[list[float], list[str]]:
        """Losses, and the output of each process."""
        arguments = {**MODEL, "run_name": name, "base_output_directory": str(self._folder), "steps": steps,
                     "dataset_type": "synthetic", "max_target_length": 64, "learning_rate_schedule_steps": 20,
                     "checkpoint_period": 2}  # fmt: skip
        request = self._folder / "request.json"
        request.write_text(
            json.dumps({"arguments": arguments, "processes": 2, "port": free_ports(1)[0],
                        "save": save and str(save), "load": [str(file) for file in load] or None})
        )  # fmt: skip
        variables = environment(self._python, CPU | {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"})
        running = [
            subprocess.Popen(
                [*DIES_WITH_PARENT, str(self._python), str(PROGRAM), str(request), str(rank)],
                env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            for rank in range(2)
        ]  # fmt: skip
        try:
            said = [process.communicate(timeout=300)[0] for process in running]
        finally:
            for process in running:
                process.kill()
        assert [process.returncode for process in running] == [0, 0], said[0][-4000:]
        return json.loads(said[0].splitlines()[-1]), said


def test_a_loaded_step_trains_as_a_compiled_one_and_what_one_process_cannot_load_is_compiled_by_all(
    trainer_python, tmp_path
):
    group, file = Group(trainer_python, tmp_path), tmp_path / "step"
    compiled, _ = group.train("compiled", 6, save=file)

    begun, _ = group.train("loaded", 3, load=[file, file])
    resumed, said = group.train("loaded", 6, load=[file, file])
    assert begun + resumed == compiled
    assert not any("compiled here" in text for text in said)

    fallen_back, said = group.train("half", 6, load=[file, tmp_path / "missing"])
    assert fallen_back == compiled
    assert f"training step: compiled here after all, because {tmp_path}/missing cannot be loaded" in said[0]
    assert "(on process 1)" in said[0]
    assert "compiled here" not in said[1]
