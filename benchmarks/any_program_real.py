"""Programs of the distribution, as they are: what does `latlab diagnose` say limits them?

    python -m benchmarks.any_program_real [--seconds 4] [--only TEXT] [--verbose]

Each runs in a configuration whose limit is known: by what was planted with its own options (a slow script, a rate
limit, a slow neighbour in a pipe), or by what perf, strace and top show. docs/explanation/any-program.md has the
cases one by one. What isn't installed is left out; $REAL_PYTHON names an interpreter that has gunicorn, uvicorn,
dask and celery, where this one has not.
"""

# ruff: noqa: E501 - long strings

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks._bars import Bar, report
from benchmarks.any_program_real_cases import CASES, Real
from benchmarks.any_program_real_files import prepared
from benchmarks.any_program_real_more import MORE
from benchmarks.any_program_real_more_files import prepared_more

_TRIES = 3  # where another program has the CPUs
_STOPPED = 0.05  # of the time
_PYTHON = os.environ.get("REAL_PYTHON", sys.executable)
_PATH = f"/usr/sbin:/sbin:{Path(_PYTHON).parent}:/usr/lib/postgresql/current/bin:{os.environ['PATH']}"


def _ported(text: str) -> str:
    """With ports of this run's own, that others may run beside it."""
    return re.sub(
        r"\b173(\d\d)\b", lambda found: f"{10_000 + 100 * (os.getpid() % 200) + int(found[1])}", text
    )


def _environment() -> dict[str, str]:
    path = _PATH
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin")):
        path = f"{folder}:{path}"
    return {**os.environ, "PATH": path, "PYTHON": _PYTHON}


def missing(case: Real) -> list[str]:
    """What the case needs and isn't there; `py:NAME` is a module of Python."""
    path = _environment()["PATH"]
    found = [one for one in case.needs if not one.startswith("py:") and shutil.which(one, path=path) is None]
    modules = [one.removeprefix("py:") for one in case.needs if one.startswith("py:")]
    if modules:
        done = subprocess.run(
            [_PYTHON, "-c", f"import {', '.join(modules)}"], capture_output=True, check=False
        )
        found += modules if done.returncode else []
    return found


@contextlib.contextmanager
def running(commands: tuple[str, ...], folder: Path) -> Iterator[list[int]]:
    """Shell commands, each in a session of its own, and the processes that they became."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            process = subprocess.Popen(
                ["sh", "-c", _ported(command)], cwd=folder, start_new_session=True, env=_environment(),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(folder / "stderr").open("ab"),
            )  # fmt: skip
            started.append(process)
            time.sleep(1.2)
        yield [process.pid for process in started]
    finally:
        for process in reversed(started):
            for sent in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, sent)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=5)
                    break
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _set_up(command: str, folder: Path) -> str:
    """What it said where it failed, again and again: the server of the case before may not have ended yet."""
    for _ in range(_TRIES):
        done = subprocess.run(
            ["sh", "-c", _ported(command)], cwd=folder, env=_environment(), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if not done.returncode:
            return ""
        time.sleep(3)
    return f"not set up: {done.stderr[-300:]}"


def diagnosed(case: Real, folder: Path, seconds: float) -> tuple[str, int, dict[str, Any]]:
    """What was said of it: right, wrong or withheld."""
    words = [sys.executable, "-m", "latlab", "diagnose", "--no-forecast", "--json", "--seconds", str(seconds)]
    if case.setup and (said := _set_up(case.setup, folder)):
        return "error", 1, {"limit": {"kind": "error", "name": "", "confidence": 0}, "sentence": said}
    with running(case.beside, folder) as pids:
        if case.pid:
            done = subprocess.run(["sh", "-c", _ported(case.pid)], cwd=folder, env=_environment(), capture_output=True, text=True, check=False)  # fmt: skip
            target = ["--pid", done.stdout.split()[0]]
        elif case.command is None:
            target = ["--pid", str(pids[0])]
        else:
            target = ["--", "sh", "-c", _ported(case.command)]
        done = subprocess.run(
            [*words, *target], cwd=folder, capture_output=True, text=True, timeout=seconds + 200, check=False,
            env=_environment(),
        )  # fmt: skip
    if "{" not in done.stdout:
        return (
            "error",
            done.returncode,
            {"limit": {"kind": "error", "name": "", "confidence": 0}, "sentence": done.stderr[-300:]},
        )
    answer: dict[str, Any] = json.loads(done.stdout[done.stdout.find("{") :])
    limit = answer["limit"]
    if any(role["blocked"].get("stopped", 0.0) > _STOPPED for role in answer.get("roles") or ()):
        return "busy", done.returncode, answer  # somebody stopped it meanwhile
    if limit["kind"] == "unknown" or done.returncode == 3:
        return "withheld", done.returncode, answer
    if limit["name"].startswith("CPUs (neighbour") and "neighbour" not in case.name:
        return "busy", done.returncode, answer  # another program has the CPUs, and that is what was told
    shown = " ".join([limit["name"], answer["sentence"], *(one["function"] for one in limit["code"])])
    right = limit["kind"] in case.kinds and re.search(case.name, shown) is not None
    return ("right" if right else "wrong"), done.returncode, answer


def _show(answer: dict[str, Any]) -> None:
    for role in (answer.get("roles") or [])[:9]:
        blocked = " ".join(f"{kind} {part:.2f}" for kind, part in list(role["blocked"].items())[:3])
        print(
            f"    {role['count']:3} x {role['name'][:44]:44} running {role['running']:.2f} runnable {role['runnable']:.2f} {blocked}"
        )
    for one in answer["limit"].get("code", [])[:3]:
        print(f"      {one['share']:.2f} {one['function'][:90]} {one['file'][-40:]}")
    for line in (*answer.get("evidence", ()), *answer.get("distrust", ())):
        print(f"      - {line}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--only", default="", help="a regular expression of titles")
    parser.add_argument("--verbose", action="store_true", help="roles, evidence and functions")
    parser.add_argument("--list", action="store_true", help="titles, and what is missing for them")
    parser.add_argument("--keep", type=Path, help="a folder for the answers")
    given = parser.parse_args()
    marks = []
    with tempfile.TemporaryDirectory(prefix="any-program-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        folder.chmod(0o777)  # for the users of nginx's workers and of PostgreSQL
        if not given.list:
            prepared(folder, _ported)
            prepared_more(folder, _ported)
        for case in (*CASES, *MORE):
            lacks = missing(case) if re.search(given.only, case.title) else ["not asked for"]
            if given.list:
                print(f"{case.title:44} {', '.join(lacks)}")
            if lacks or given.list:
                continue
            for _ in range(_TRIES):
                found, code, answer = diagnosed(case, folder, given.seconds)
                if found != "busy":
                    break
            marks += [found] if found != "busy" else []
            limit = answer["limit"]
            print(
                f"{found:9} {case.title:40} | {limit['kind']}: {limit['name']} {100 * limit['confidence']:.0f} %, exit {code}: {answer['sentence']}",
                flush=True,
            )
            if given.verbose:
                _show(answer)
            if given.keep:
                (given.keep / f"{re.sub('[^a-z0-9]+', '-', case.title.lower())}.json").write_text(
                    json.dumps(answer)
                )
    if not marks:
        print("none of them is installed")
        return 0
    return report(
        [
            Bar("right", marks.count("right") / len(marks), 0.8, at_least=True),
            Bar("wrong", marks.count("wrong") / len(marks), 0.02),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
