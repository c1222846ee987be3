"""The part of hangs.py that runs in the trainer's environment: one run for each line on standard input.

Answers each with a JSON line: {"run", "outcome": finished | hung | failed, "step": last one, "seconds",
"stepSeconds": median wall time of a step}.
"""

import itertools
import json
import os
import select
import signal
import socket
import statistics
import sys
import time
from typing import Any

REQUEST: dict[str, Any] = json.loads(sys.argv[1])
sys.path.insert(0, REQUEST["trainer"])
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print is not an answer

from absl import logging  # noqa: E402
from maxtext.common.metric_logger import MetricLogger  # noqa: E402
from maxtext.trainers.pre_train import train  # noqa: E402
from maxtext.utils.globals import MAXTEXT_CONFIGS_DIR  # noqa: E402


def main() -> None:
    for line in sys.stdin:
        ANSWERS.write(json.dumps(one_run(line.strip())) + "\n")
        ANSWERS.flush()


def one_run(name: str) -> dict[str, Any]:
    began = time.monotonic()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    reading, writing = os.pipe()
    children = [_fork(name, rank, port, writing) for rank in range(REQUEST["hosts"])]
    os.close(writing)
    step, step_seconds, outcome = _watch(reading)
    for child in children:
        if outcome != "finished":
            os.kill(child, signal.SIGKILL)
    codes = [os.waitpid(child, 0)[1] for child in children]
    os.close(reading)
    if outcome == "finished" and (any(codes) or step < REQUEST["steps"] - 1):
        outcome = "failed"
    seconds = round(time.monotonic() - began, 1)
    return {"run": name, "outcome": outcome, "step": step, "seconds": seconds, "stepSeconds": step_seconds}


def _watch(reading: int) -> tuple[int, float | None, str]:
    """Follows the steps that the processes write into the pipe until all have closed it: the last one, the median
    seconds between the first reports of two steps (after the first ten), and finished or hung."""
    first_seen: dict[int, float] = {}
    pending = b""
    outcome = "hung"
    while select.select([reading], [], [], REQUEST["stallSeconds"])[0]:
        told = os.read(reading, 4096)
        if not told:
            outcome = "finished"
            break
        *lines, pending = (pending + told).split(b"\n")
        for line in lines:
            first_seen.setdefault(int(line), time.monotonic())
    times = [first_seen[step] for step in sorted(first_seen) if step >= 10]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    return max(first_seen, default=-1), statistics.median(gaps) if gaps else None, outcome


def _fork(name: str, rank: int, port: int, writing: int) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        _train(name, rank, port, writing)
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def _train(name: str, rank: int, port: int, writing: int) -> None:
    import emulation
    import jax

    logging.set_verbosity(logging.INFO)
    jax.distributed.initialize(f"127.0.0.1:{port}", REQUEST["hosts"], rank)
    more = [f"{key}={value}" for key, value in emulation.install(REQUEST["slices"]).items()]
    log = MetricLogger.log_metrics

    def tell(self: Any, metrics: Any, step: int, metric_type: str = "train") -> None:
        log(self, metrics, step, metric_type)
        os.write(writing, b"%d\n" % step)

    MetricLogger.log_metrics = tell
    argv = ["train", f"{MAXTEXT_CONFIGS_DIR}/base.yml", *REQUEST["argv"], f"run_name={name}"]
    train.main([*argv, "skip_jax_distributed_system=true", *more])


if __name__ == "__main__":
    main()
