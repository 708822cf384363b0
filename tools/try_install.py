"""Tries an installed latlab as its user would, without a compiler: demo, record, bench, report.

Usage: python try_install.py, with the python of the environment that latlab is installed in. It needs nothing
else, and cibuildwheel runs it on each wheel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

_APP = """
import threading, time
from latlab.queues import Queue
box = Queue(maxsize=64)
def drain():
    while box.get() is not None:
        time.sleep(0.0005)
reader = threading.Thread(target=drain)
reader.start()
for number in range(4000):
    box.put(number)
box.put(None)
reader.join()
"""
_BENCH = """
class Total:
    def run(self):
        sum(range(1000))
"""


def run(*arguments: str, allowed: tuple[int, ...] = (0, 3)) -> str:
    """A command's output; 3 is: measured, and the output says why not to trust it."""
    program = Path(sysconfig.get_path("scripts")) / "latlab"
    # A path without a compiler: what is installed must do.
    environment = {**os.environ, "PATH": str(program.parent), "NO_COLOR": "1"}
    done = subprocess.run(
        [str(program), *arguments], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode not in allowed:
        raise SystemExit(
            f"latlab {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
    print(f"ok: latlab {' '.join(arguments)}")
    return done.stdout


def main() -> None:
    """Each tool once, in a folder of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        Path("app.py").write_text(_APP)
        Path("bench_total.py").write_text(_BENCH)
        print(run("--version").strip())
        run("demo", "--seconds", "2")
        with subprocess.Popen([sys.executable, "app.py"]) as app:
            run("queues", "record", str(app.pid), "-o", "recording")
        run("queues", "report", "recording", "-o", "queues.html")
        run("bench", "run", "bench_total.py", "--iterations", "100", "-o", "bench")
        run("jitter", "-r", "1")
        command = (sys.executable, "app.py")
        found = run("diagnose", "--json", "--no-forecast", "--budget", "30", "-o", "found", "--", *command)
        print(json.loads(found)["sentence"])
        for page in (Path("queues.html"), Path("found/report.html")):
            if "<html" not in page.read_text(encoding="utf-8"):
                raise SystemExit(f"{page} is no page")


if __name__ == "__main__":
    main()
