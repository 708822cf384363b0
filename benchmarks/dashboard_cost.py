"""What the live page costs: 165 queues looked at ten times a second, with a browser's connection that reads.

Bar: the whole process, its threads together, within a tenth of one CPU.
`python -m benchmarks.dashboard_cost`, 20 s
"""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import threading
import time

import psutil

from benchmarks._bars import Bar, report

APPLICATION = """
import time
from latlab._core import counting
counting.set_application("dashboard-cost")
slots = [counting.Slot(name=f"q{i}", capacity=100, source_name=f"s{i}", drain_name=f"s{i + 1}")
         for i in range(165)]
print("ready", flush=True)
while True:
    for slot in slots:
        slot.put(3)
    time.sleep(0.005)
    for slot in slots:
        slot.get(3)
    time.sleep(0.005)
"""
_SETTLES_S, _SECONDS = 6.0, 12.0


def watch(port: int, frames: list[int]) -> None:
    """Read the page's events as a browser does, and count its frames."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/events")
    answer = connection.getresponse()
    while line := answer.readline():
        if line.startswith(b"event: frame"):
            frames.append(len(line))


def main() -> int:
    """Measure, and print against the bars."""
    with subprocess.Popen([sys.executable, "-c", APPLICATION], stdout=subprocess.PIPE, text=True) as app:
        assert app.stdout is not None
        app.stdout.readline()
        command = [sys.executable, "-m", "latlab", "dashboard", str(app.pid), "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as dashboard:
            assert dashboard.stderr is not None
            found = re.search(r":(\d+)/", dashboard.stderr.readline())
            assert found is not None
            frames: list[int] = []
            threading.Thread(target=watch, args=(int(found[1]), frames), daemon=True).start()
            time.sleep(_SETTLES_S)
            process = psutil.Process(dashboard.pid)
            before, counted, began = process.cpu_times(), len(frames), time.monotonic()
            time.sleep(_SECONDS)
            after, seconds = process.cpu_times(), time.monotonic() - began
            used = (after.user + after.system - before.user - before.system) / seconds
            rate = (len(frames) - counted) / seconds
            dashboard.terminate()
        app.kill()
    # A page that shows less costs less: ten a second, less the one that the ends of the count may cut off.
    least = 10 - 1 / _SECONDS - 0.05
    return report(
        [
            Bar("the live page, 165 queues", 100 * used, 10, "% of a CPU"),
            Bar("its frames", rate, round(least, 2), "a second", at_least=True),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
