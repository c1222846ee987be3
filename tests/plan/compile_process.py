"""trainer/compile_server.py with other work than compiling, which a request's `changes` name: what a compiler does to
files, memory and its process, without one."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import compile_server
from compile_step import Tell

PROGRAM = "module_0001.jit_train_step.after_optimizations"


def work(request: Mapping[str, Any], tell: Tell) -> None:
    tell({"tflopsPerDevice": 1.5, "pid": os.getpid()})
    for beside in compile_server.BESIDE:
        if (request["changes"]["act"], beside) != ("live_ranges_after_the_report", "-live-range.txt"):
            (Path(request["dump"]) / f"{PROGRAM}{beside}").write_text("beside")
    ACTS[request["changes"]["act"]](Path(request["dump"]) / f"{PROGRAM}{compile_server.REPORT}", request)


def report_in_two_parts(report: Path, request: Mapping[str, Any]) -> None:
    with report.open("w") as file:
        file.write("first half, ")
        file.flush()
        time.sleep(0.5)
        file.write("second half")
    for _ in range(4):  # what generates code
        threading.Thread(target=spin).start()
    spin()


def live_ranges_after_the_report(report: Path, _: Mapping[str, Any]) -> None:
    report.write_text("report")
    with report.with_name(f"{PROGRAM}-live-range.txt").open("w") as file:
        file.write("first half, ")
        file.flush()
        time.sleep(0.5)
        file.write("second half")
    spin()


def spin() -> None:
    while True:
        time.sleep(0.01)


def helper_of_its_own(report: Path, _: Mapping[str, Any]) -> None:
    helper = subprocess.Popen(["sleep", "600"])
    report.write_text(str(helper.pid))
    spin()


def whole(report: Path, request: Mapping[str, Any]) -> None:
    report.write_text("report")
    time.sleep(0.3)
    if request["save"]:
        Path(request["save"]).write_bytes(b"program")


def at_once(report: Path, _: Mapping[str, Any]) -> None:
    report.write_text("report")


def does_not_fit(report: Path, _: Mapping[str, Any]) -> None:
    report.write_text("report")
    raise RuntimeError("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 50.01G of 31.25G hbm.")


def does_not_fit_without_report(report: Path, request: Mapping[str, Any]) -> None:
    raise RuntimeError("RESOURCE_EXHAUSTED: Allocation of 50 GiB exceeds the limit")


def no_report(_: Path, request: Mapping[str, Any]) -> None:
    return


def killed_within_its_report(report: Path, _: Mapping[str, Any]) -> None:
    report.write_text("first ha")
    os.kill(os.getpid(), signal.SIGKILL)


def unknown_flag(_: Path, request: Mapping[str, Any]) -> None:
    os.write(2, b"ERROR: Unknown command line flag 'xla_tpu_foo'. Did you mean: xla_tpu_fog ?\n")
    os._exit(1)


def prints(report: Path, _: Mapping[str, Any]) -> None:
    print("Starting train_compile.py...")
    os.write(1, b"from C++\n")
    report.write_text("report")
    spin()


ACTS = {
    function.__name__: function
    for function in (
        report_in_two_parts, live_ranges_after_the_report, helper_of_its_own, whole, at_once, does_not_fit,
        does_not_fit_without_report, no_report, killed_within_its_report, unknown_flag, prints,
    )
}  # fmt: skip


def answer(message: Mapping[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    compile_server.serve(work, compile_server.Requests(sys.stdin.buffer), answer)
