"""The watchdog ends a process that makes no progress, and no other."""

import subprocess
import sys
from pathlib import Path

TRAINER = Path(__file__).parents[2] / "trainer"

HANGS = """
import threading, watchdog
with watchdog.Watchdog({seconds}, lambda waited: print("told", waited, flush=True)) as dog:
    for _ in range(3):
        dog.beat()
    {then}
"""


def run(seconds, then):
    code = HANGS.format(seconds=seconds, then=then)
    return subprocess.run(
        [sys.executable, "-c", code], cwd=TRAINER, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_hang_ends_with_its_stacks_and_its_own_exit_code():
    ended = run(0.5, "threading.Event().wait()")
    assert ended.returncode == 70
    assert ended.stdout == "told 0.5\n"
    assert "no progress for 0.5 s" in ended.stderr
    assert 'File "<string>", line 6' in ended.stderr


def test_work_that_ends_in_time_is_left_alone():
    assert run(30, "pass").returncode == 0


def test_zero_switches_it_off():
    assert run(0, "threading.Event().wait(0.2)").returncode == 0
