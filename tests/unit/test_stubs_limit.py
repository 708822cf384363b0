"""A run is ended for the time that it ran, and not for time in which it, or latlab, was stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from latlab.stubs.studies.runner import ended_after

_WATCH = """
import subprocess, sys
from latlab.stubs.studies.runner import ended_after
child = subprocess.Popen([sys.executable, "-c", "for i in range(10**9): pass"])
with ended_after(child.pid, 3.0) as late:
    print("begun", flush=True)
    sys.stdin.readline()
    print(len(late), flush=True)
    child.kill()
    child.wait()
"""


def test_a_run_that_lasts_longer_is_ended() -> None:
    process = subprocess.Popen(["sleep", "600"])
    with ended_after(process.pid, 0.7) as late:
        assert process.wait() == -signal.SIGKILL
    assert late == [process.pid]


def test_time_in_which_a_run_is_stopped_is_not_counted() -> None:
    process = subprocess.Popen(["sleep", "600"])
    os.kill(process.pid, signal.SIGSTOP)
    with ended_after(process.pid, 0.5) as late:
        time.sleep(1.0)
        assert process.poll() is None
        assert late == []
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait() == -signal.SIGKILL
    assert late == [process.pid]


def test_time_in_which_all_is_stopped_is_not_counted() -> None:
    watcher = subprocess.Popen(
        [sys.executable, "-c", _WATCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert watcher.stdout is not None
    assert watcher.stdout.readline() == "begun\n"
    os.killpg(watcher.pid, signal.SIGSTOP)
    time.sleep(3.5)
    os.killpg(watcher.pid, signal.SIGCONT)
    said, _ = watcher.communicate("\n")
    assert said == "0\n"
