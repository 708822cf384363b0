"""A command that is observed ends with all that it started, when its time is over."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from latlab.schedule import capture_command

CHILD = "import subprocess, sys, time; p = subprocess.Popen(['sleep', '99'])"


def gone(pid: int) -> bool:
    """Ended, if not yet reaped by whoever inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_command_ends_with_its_children_when_its_seconds_are_over(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    program = (  # one child of its group, and one that leads a session of its own
        f"{CHILD}; q = subprocess.Popen(['sleep', '99'], start_new_session=True); "
        f"import os; open({str(note)!r}, 'w').write(f'{{os.getpid()}} {{p.pid}} {{q.pid}}'); time.sleep(99)"
    )
    begin = time.monotonic()
    capture_command([sys.executable, "-c", program], 4, method="proc")
    assert time.monotonic() - begin < 60
    pids = [int(word) for word in note.read_text(encoding="utf-8").split()]
    _until(lambda: all(gone(pid) for pid in pids))
    assert [pid for pid in pids if not gone(pid)] == []


def _until(done: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until and not done():
        time.sleep(0.05)


def test_the_observer_itself_is_of_another_group(tmp_path: Path) -> None:
    # Else ending the command's group would end who observes it.
    seen = tmp_path / "group"
    program = f"import os; open({str(seen)!r}, 'w').write(str(os.getpgrp()))"
    capture_command([sys.executable, "-c", program], 20, method="proc")
    assert int(seen.read_text(encoding="utf-8")) != os.getpgrp()
