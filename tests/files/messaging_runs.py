"""What tests of messaging start: a run with its JSON, and one whose part of a process is sent a signal."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.files import started

latlab = partial(started.latlab, "messaging")


def run(*arguments: str) -> dict[str, Any]:
    """The document of a run that ended well."""
    done = latlab("run", "--json", *arguments)
    assert done.returncode in (0, 3), done.stderr  # 3: others use this machine, too
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def child_of(pid: int, word: str) -> int:
    """The child whose command line has this word, as soon as it is there."""
    for _ in range(400):
        found = subprocess.run(
            ["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False
        ).stdout.split()
        for child in map(int, found):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a child that has ended since
                if word.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                    return child
        time.sleep(0.02)
    raise AssertionError(f"the run started no {word}")


def settled(child: int, after_s: float) -> None:
    """Waits until a process has opened and closed nothing for so long: who connects to it has done so."""
    open_now, since = -1, time.monotonic()
    until = since + 30
    while time.monotonic() < min(since + after_s, until):
        found = len(list(Path(f"/proc/{child}/fd").iterdir()))
        if found != open_now:
            open_now, since = found, time.monotonic()
        time.sleep(0.02)


def signalled(
    word: str, sent: signal.Signals, *arguments: str, after_s: float
) -> tuple[int, subprocess.CompletedProcess[str]]:
    """A run of 100,000 messages, one process of which is signalled: its number, and what came of the run."""
    command = [sys.executable, "-m", "latlab", "messaging", "run", "--messages", "100k", "--json", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        child = child_of(process.pid, word)
        settled(child, after_s)
        os.kill(child, sent)
        out, err = process.communicate(timeout=100)
    finally:
        process.kill()
    return child, subprocess.CompletedProcess(command, process.returncode, out, err)


# How the server that both ends talk to may go: the signal, and what a run then says.
server_goes = pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGKILL, "the broker was killed"), (signal.SIGSTOP, "the broker is stopped")]
)


def partial_without(server: str, transport: str, number: signal.Signals, said: str) -> None:
    """That a run whose server is sent a signal ends as partial, says why, and leaves no server behind."""
    run_of = ("--transport", transport, "--rate", "500", "--timeout", "1")
    child, done = signalled(server, number, *run_of, after_s=4)  # both ends connect first
    assert (done.returncode, json.loads(done.stdout)["partial"]) == (1, True)
    assert said in done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
