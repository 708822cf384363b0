"""What several tests start: latlab as its users do, work as another user, a module by its file."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from latlab.cli import main


def latlab(
    *arguments: str | Path, timeout: float | None = 60, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "latlab", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout, **more)


def called(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Run the command line in this process: its exit code, its stdout and its stderr."""
    with pytest.raises(SystemExit) as left:
        main([*map(str, arguments)])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


def as_user(user: int, work: Callable[[], object]) -> int:
    """Do something as another user, in a process of its own; its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def took_emitted(actions: Path, folder: Path) -> float:
    """What the Python program that is emitted from action files says that it took, in ms."""
    from latlab import stubs

    source = folder / "emitted.py"
    source.write_text(stubs.emit(stubs.load_actions(actions), "python"))
    command = [sys.executable, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return float(done.stdout.split()[0])


def module_of(path: Path) -> ModuleType:
    """A module that is in no package, such as a tool."""
    spec = importlib.util.spec_from_file_location(f"latlab_tested_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module
