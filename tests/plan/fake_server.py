"""Speaks the protocol of trainer/compile_server.py and compiles nothing. What it does with a request stands in the
request's changes: `act` is one of the functions below."""

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

DUMPS = Path(__file__).with_name("dumps") / "plain"
REPORT = "module_0000.jit_train_step.after_optimizations-memory-usage-report.txt"


def main() -> None:
    if "broken" in sys.argv:
        sys.exit("ModuleNotFoundError: No module named 'maxtext'")
    say({"event": "ready", "versions": {"maxtext": "0.2.5"}, "seconds": 0.1})
    for line in sys.stdin:
        request = json.loads(line)
        tell(request, "started")
        ACTS[request["changes"].get("act", "compile")](request)


def tell(request: dict[str, Any], event: str, **more: Any) -> None:
    say({"id": request["id"], "event": event, "seconds": 0.5, **more})


def say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def compile_all(request: dict[str, Any]) -> None:
    dump = Path(request["dump"])
    shutil.copytree(DUMPS, dump)
    facts = {"tflopsPerDevice": 2.5, "program": {"slices": request["slices"]}, "server": os.getpid()}
    tell(request, "memory", reportFile=str(dump / REPORT), **facts)
    if request["until"] == "executable":
        (dump / "module_0000.jit_train_step.after_codegen.txt").write_text("HloModule\n")
        if request["save"]:
            Path(request["save"]).write_bytes(b"program")
        tell(request, "done", **facts)


def compile_slowly(request: dict[str, Any]) -> None:
    time.sleep(1)
    compile_all(request)


def fail(request: dict[str, Any]) -> None:
    kind = request["changes"]["kind"]
    tell(request, "failed", error={"kind": kind, "said": "because"})


def die(_: dict[str, Any]) -> None:
    print("terminate called", file=sys.stderr, flush=True)
    os.abort()


def hang(_: dict[str, Any]) -> None:
    time.sleep(600)


ACTS = {"compile": compile_all, "slowly": compile_slowly, "fail": fail, "die": die, "hang": hang}

if __name__ == "__main__":
    main()
