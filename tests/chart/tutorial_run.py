"""What the trainer hands to Ray Train and MaxText for a run file, to compare with what the tutorial's scripts do.

Ray is not installed where the chart's tests run, so its configuration classes are stood in for by records of what they
are given; what gives it is train.py's own code.
"""

import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import arguments
import pytest
import run as run_file
import train


@dataclass
class FailureConfig:
    """As in Ray 2.55, the tutorial's: preemptions have no count of their own."""

    max_failures: int


def handed_over(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """ScalingConfig, RunConfig, MaxText's arguments on all slices, and libtpu's flags."""
    recorded: dict[str, Any] = {}
    jax = _module("ray.train.v2.jax", JaxTrainer=lambda _, **settings: recorded.update(settings))
    ray_train = _module("ray.train", FailureConfig=FailureConfig, RunConfig=dict, ScalingConfig=dict)
    ray = _module("ray", train=ray_train)
    for module in (ray, ray_train, _module("ray.train.v2"), jax):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "ranks", _module("ranks", OrderedJaxConfig=dict))
    monkeypatch.setitem(sys.modules, "worker", _module("worker", train=None))
    path = folder / "run.yaml"
    path.write_text(text)
    run = run_file.load(path)
    train.trainer(run, started=0.0)
    run_config = recorded["run_config"]
    run_config["failure_config"] = vars(run_config["failure_config"])
    return {
        "scalingConfig": recorded["scaling_config"],
        "runConfig": run_config,
        "arguments": arguments.maxtext_arguments(run, run.slices.max),
        "libtpuFlags": flags(arguments.libtpu_arguments(run)),
    }


def flags(command_line: str) -> dict[str, str]:
    """LIBTPU_INIT_ARGS as a map. A flag without a value is true."""
    pairs = (flag.removeprefix("--").partition("=") for flag in command_line.split())
    return {name: value or "true" for name, _, value in pairs}


def _module(name: str, **content: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(content)
    return module
