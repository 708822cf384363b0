"""What the live page costs: 165 queues looked at ten times a second, with 1 and with 200 browsers that read.

Bars: 200 are connected within a second; the whole process, its threads together, within a tenth of one CPU.
`python -m benchmarks.dashboard_cost [QUEUES]`, 40 s
"""

from __future__ import annotations

import re
import selectors
import socket
import subprocess
import sys
import threading
import time

import psutil

from benchmarks._bars import Bar, report

APPLICATION = """
import sys, time
from latlab._core import counting
counting.set_application("dashboard-cost")
slots = [counting.Slot(name=f"q{i}", capacity=100, source_name=f"s{i}", drain_name=f"s{i + 1}")
         for i in range(int(sys.argv[1]))]
print("ready", flush=True)
while True:
    for slot in slots:
        slot.put(3)
    time.sleep(0.005)
    for slot in slots:
        slot.get(3)
    time.sleep(0.005)
"""
_SETTLES_S, _SECONDS = 6.0, 10.0
_TOKEN = "cost"


class Browsers:
    """So many connections that read the page's events, and the frames that the last of them was sent."""

    def __init__(self, port: int, count: int) -> None:
        self.frames = 0
        self._ended = False
        self._selector = selectors.DefaultSelector()
        began = time.monotonic()
        request = f"GET /events?token={_TOKEN} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        self._all = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        for one in self._all:
            one.sendall(request)
        for one in self._all:
            head = one.recv(12)
            assert head == b"HTTP/1.1 200", head
        self.connected_s = time.monotonic() - began
        for one in self._all:
            self._selector.register(one, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._ended:
            for key, _ in self._selector.select(0.1):
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(1 << 16)
                if key.fileobj is self._all[-1]:
                    self.frames += data.count(b"event: frame")

    def close(self) -> None:
        self._ended = True
        self._thread.join()
        for one in self._all:
            one.close()


def cost(dashboard: int, port: int, count: int) -> tuple[float, float, float]:
    """With so many browsers: seconds until they are connected, CPUs that the page takes, frames a second."""
    browsers = Browsers(port, count)
    time.sleep(_SETTLES_S)
    process = psutil.Process(dashboard)
    before, counted, began = process.cpu_times(), browsers.frames, time.monotonic()
    time.sleep(_SECONDS)
    after, seconds, frames = process.cpu_times(), time.monotonic() - began, browsers.frames
    browsers.close()
    used = (after.user + after.system - before.user - before.system) / seconds
    return browsers.connected_s, used, (frames - counted) / seconds


def main() -> int:
    """Measure, and print against the bars."""
    queues = sys.argv[1] if len(sys.argv) > 1 else "165"
    with subprocess.Popen(
        [sys.executable, "-c", APPLICATION, queues], stdout=subprocess.PIPE, text=True
    ) as app:
        assert app.stdout is not None
        app.stdout.readline()
        command = [
            sys.executable,
            "-m",
            "latlab",
            "dashboard",
            str(app.pid),
            "--port",
            "0",
            "--token",
            _TOKEN,
        ]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as dashboard:
            assert dashboard.stderr is not None
            found = re.search(r":(\d+)/", dashboard.stderr.readline())
            assert found is not None
            port = int(found[1])
            one = cost(dashboard.pid, port, 1)
            many = cost(dashboard.pid, port, 200)
            dashboard.terminate()
        app.kill()
    # A page that shows less costs less: ten a second, less the one that the ends of the count may cut off.
    least = 10 - 1 / _SECONDS - 0.05
    return report(
        [
            Bar(f"the live page, {queues} queues, 1 browser", 100 * one[1], 10, "% of a CPU"),
            Bar("200 browsers, until they are connected", many[0], 1, "s"),
            Bar(f"the live page, {queues} queues, 200 browsers", 100 * many[1], 10, "% of a CPU"),
            Bar("frames of each of them", many[2], round(least, 2), "a second", at_least=True),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
