"""1,000 random SIGKILLs of observed processes: the observer lives on, mixes nothing up, notices all.

Bars: no crash of the observer, no misattribution, marked dead within 1 s. Eight victims run at once under one
name; each registers and gives up queues all the time. `python -m benchmarks.queues_kills [KILLS]`, 1 to 3 min
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks._bars import Bar, report
from benchmarks._scratch import own_counters

ROOT = Path(__file__).parents[1]
AT_ONCE = 8


def built(folder: str) -> str:
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    program = f"{folder}/victim"
    options = ["-std=c++20", "-O2", "-DNDEBUG", "-pthread", f"-I{ROOT / 'include'}"]
    source = ROOT / "benchmarks" / "queues_kills.cpp"
    subprocess.run([compiler, *options, str(source), "-o", program], check=True)
    return program


class Killer(threading.Thread):
    """Starts victims one after another, and kills each at a random moment."""

    def __init__(self, program: str, numbers: list[int], seed: int) -> None:
        super().__init__()
        self._program, self._numbers = program, numbers
        self._chance = random.Random(seed)
        self.killed_ns: dict[int, int] = {}  # by process id

    def run(self) -> None:
        for number in self._numbers:
            victim = subprocess.Popen(
                [self._program, str(number)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            assert victim.stdout is not None
            if self._chance.random() < 0.9:  # the others die while they begin
                victim.stdout.readline()
                time.sleep(self._chance.uniform(0.0, 0.6))
            else:
                time.sleep(self._chance.uniform(0.0, 0.02))
            self.killed_ns[victim.pid] = time.monotonic_ns()
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            victim.stdout.close()


def main() -> int:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    own_counters()
    from latlab.queues import Recorder
    from latlab.queues.sample.follow import Event

    appeared: set[int] = set()
    died_ns: dict[int, int] = {}

    def note(event: Event) -> None:
        if event.event == "appeared":
            appeared.add(event.description["pid"])
        if event.event == "died":
            died_ns[event.description["pid"]] = event.t_ns

    with tempfile.TemporaryDirectory() as folder:
        program = built(folder)
        # One lives through it all, so that there is something to follow from the first moment.
        witness = subprocess.Popen([program, "999983"], stdout=subprocess.PIPE)
        assert witness.stdout is not None
        witness.stdout.readline()
        numbers = [1009 + 2 * i for i in range(kills)]
        killers = [Killer(program, numbers[i::AT_ONCE], i) for i in range(AT_ONCE)]
        recorder = Recorder("victim", period_ns=500_000)
        recorder.on_event = note
        with recorder:
            for killer in killers:
                killer.start()
            for killer in killers:
                killer.join()
            time.sleep(1.5)
            missing = sum(not process.died for process in recorder.observation().processes) - 1
        witness.kill()
        witness.wait()
        witness.stdout.close()
    seen = recorder.observation()
    owner = {queue.number: int(queue.name[1:]) for queue in seen.queues if queue.name}
    rows = seen.samples
    wrong = sum(
        queue in owner and (came % owner[queue] != 0 or gone % owner[queue] != 0)
        for queue, came, gone in zip(
            rows["queue"].tolist(), rows["in"].tolist(), rows["out_high"].tolist(), strict=True
        )
    )
    killed_ns = {pid: at for killer in killers for pid, at in killer.killed_ns.items()}
    late_s = [(died_ns[pid] - killed_ns[pid]) / 1e9 for pid in appeared & died_ns.keys() & killed_ns.keys()]
    print(
        f"{len(killed_ns)} killed, {len(appeared) - 1} of them seen alive before, "
        f"{len(rows['queue'])} samples of {len(seen.queues)} queues"
    )
    return report(
        [
            Bar("samples with another's counts", wrong, 0),
            Bar("processes that were seen and not marked dead", missing, 0),
            Bar("longest from the kill to the mark", max(late_s, default=9.9), 1.0, "s"),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
