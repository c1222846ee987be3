"""One MaxText training process on the CPU, without Ray: `python maxtext_process.py REQUEST.json RANK`.

REQUEST.json: {"arguments": {MaxText argument: value}, "processes": 2, "port": 12345, "losses": "losses-{rank}.jsonl"}
Each line of the losses file: {"kind": "train" or "eval", "step": 7, "loss": 2.34567}. (MaxText's log rounds to three
digits, and its own metrics_file is emptied by each evaluation.)
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "trainer"))


def main(request_file: str, rank: str) -> None:
    request = json.loads(Path(request_file).read_text())
    import jax

    if request["processes"] > 1:
        jax.distributed.initialize(f"127.0.0.1:{request['port']}", request["processes"], int(rank))
    from absl import logging

    logging.set_verbosity(logging.INFO)
    from maxtext.trainers.pre_train import train
    from maxtext.utils.globals import MAXTEXT_CONFIGS_DIR

    _record_losses(Path(request["losses"].format(rank=rank)))
    if request.get("mend", True):
        import data_iterator

        data_iterator.install()
    arguments = [f"{key}={value}" for key, value in request["arguments"].items()]
    train.main(["train", f"{MAXTEXT_CONFIGS_DIR}/base.yml", *arguments])


def _record_losses(file: Path) -> None:
    from maxtext.common.metric_logger import MetricLogger

    log = MetricLogger.log_metrics

    def record(self: Any, metrics: Any, step: int, metric_type: str = "train") -> None:
        name = {"train": "learning/loss", "eval": "eval/avg_loss"}.get(metric_type)
        if name:
            line = {"kind": metric_type, "step": int(step), "loss": float(metrics["scalar"][name])}
            with file.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
        log(self, metrics, step, metric_type)

    MetricLogger.log_metrics = record


if __name__ == "__main__":
    main(*sys.argv[1:])
