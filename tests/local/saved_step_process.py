"""One MaxText training process on the CPU with a saved training step: `python saved_step_process.py REQUEST.json RANK`.

REQUEST.json: {"arguments": {MaxText argument: value}, "processes": 2, "port": 12345, "save": file or null,
"load": a file for each process, or null}. What is saved is the step that MaxText itself compiles for these processes,
as its train_compile would save it. The last line is the list of losses.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "trainer"))


def main(request_file: str, rank: str) -> None:
    request = json.loads(Path(request_file).read_text())
    import jax

    jax.distributed.initialize(f"127.0.0.1:{request['port']}", request["processes"], int(rank))
    import saved_trainstep
    from maxtext.common.metric_logger import MetricLogger
    from maxtext.trainers.pre_train import train
    from maxtext.utils import train_utils
    from maxtext.utils.globals import MAXTEXT_CONFIGS_DIR

    losses: list[float] = []
    log = MetricLogger.log_metrics

    def record(self: Any, metrics: Any, *rest: Any, **named: Any) -> None:
        losses.append(float(metrics["scalar"]["learning/loss"]))
        log(self, metrics, *rest, **named)

    MetricLogger.log_metrics = record
    arguments = [f"{key}={value}" for key, value in request["arguments"].items()]
    if request["save"] and rank == "0":
        make = train_utils.jit_train_step
        train_utils.jit_train_step = lambda *a, **k: _Saving(make(*a, **k), request["save"])
    if request["load"]:
        saved_trainstep.install()
        arguments.append(f"compiled_trainstep_file={request['load'][int(rank)]}")
    train.main(["train", f"{MAXTEXT_CONFIGS_DIR}/base.yml", *arguments])
    print(json.dumps(losses), flush=True)


class _Saving:
    """A jitted step, or what becomes of it, whose executable is saved when it is compiled."""

    def __init__(self, stage: Any, file: str) -> None:
        self._stage, self._file = stage, file

    def lower(self, *arguments: Any) -> "_Saving":
        return _Saving(self._stage.lower(*arguments), self._file)

    def compile(self, **options: Any) -> Any:
        from maxtext.trainers.pre_train.train_compile import save_compiled

        compiled = self._stage.compile(**options)
        save_compiled(compiled, self._file)
        return compiled

    def __call__(self, *arguments: Any) -> Any:
        return self._stage(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
