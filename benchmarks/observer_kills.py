"""Random SIGKILLs of observers and of what they observe: nothing that was finished is lost, nothing is left.

An observer records an application into a folder, chunk by chunk, and holds scratch folders as commands do. It
is killed at a random moment, in every other case with the application at the same time. Before the kill the
recording is read as far as it is finished; after it every row of that must still be there. What is left in
shared memory is removed by the next start, as every start does it.

`python -m benchmarks.observer_kills [KILLS [SEED]]`; some 100 kills take half a minute
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._bars import Bar, report
from benchmarks._scratch import own_counters
from benchmarks.queues_kills import built


def observe(pid: int, output: Path) -> None:
    """In a fork, until it is killed."""
    from latlab.formats.recording import RecordingWriter
    from latlab.model.machine.environment import Environment
    from latlab.queues import Recorder
    from latlab.system.scratch import scratch

    with (
        scratch("observer", shared=True) as shared,
        scratch("observer") as folder,
        RecordingWriter(output, "queues", parameters={}, environment=Environment({})) as writer,
        Recorder(pid, writer, period_ns=200_000),
    ):
        while True:
            (shared / "data").write_bytes(bytes(100_000))
            (folder / "data").write_bytes(bytes(1_000))
            time.sleep(0.002)


def rows(output: Path) -> int:
    """Of the series of samples, as far as it is finished; 0 where nothing can be read yet."""
    from latlab.errors import LatlabError
    from latlab.formats.recording import open_recording

    try:
        return int(open_recording(output).series("samples").num_rows)
    except (LatlabError, KeyError, FileNotFoundError):
        return 0


def main() -> int:
    """Kill, and print against the bars."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 30)
    counters = own_counters()
    import nanoarrow

    from latlab.queues import Recorder
    from latlab.system.scratch import leftovers, remove

    # Loaded before the forks, each of which would else take a second for it.
    print(f"{Recorder.__name__} with nanoarrow {nanoarrow.__version__}")
    chance = random.Random(seed)
    lost = unreadable = hurt = with_rows = 0
    before = {one.path for one in leftovers()}
    with tempfile.TemporaryDirectory() as kept:
        program = built(kept)
        victim: subprocess.Popen[bytes] | None = None
        for number in range(kills):
            if victim is None or victim.poll() is not None:
                victim = subprocess.Popen([program, str(1009 + 2 * number)], stdout=subprocess.PIPE)
                assert victim.stdout is not None
                victim.stdout.readline()
                victim.stdout.close()
            output = Path(kept) / f"run-{number}"
            child = os.fork()
            if child == 0:
                try:
                    observe(victim.pid, output)
                finally:
                    os._exit(9)
            finished, until = 0, time.monotonic() + 5.0
            if chance.random() < 0.8:  # the others die while they begin
                while not (finished := rows(output)) and time.monotonic() < until:
                    time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.3))
            finished = rows(output)
            both = number % 2 == 1
            os.kill(child, signal.SIGKILL)
            if both:
                victim.kill()
                victim.wait()
            os.waitpid(child, 0)
            after = rows(output)
            lost += after < finished
            with_rows += finished > 0
            unreadable += finished > 0 and after == 0
            hurt += not both and victim.poll() is not None
            shutil.rmtree(output, ignore_errors=True)
        if victim is not None:
            victim.kill()
            victim.wait()
    left = [one for one in leftovers() if one.path not in before]
    stays = [one.path for one in left if not remove(one)]
    stays += [one.path for one in leftovers() if one.path not in before]
    files = len(list(counters.iterdir()))
    print(f"seed {seed}: {kills} observers killed, {kills // 2} with what they observed; {with_rows} had "
          f"finished chunks; {len(left)} leftovers removed, counter files of the dead: {files}")  # fmt: skip
    return report(
        [
            Bar("recordings that lost what was finished", lost, 0),
            Bar("recordings that can't be read any more", unreadable, 0),
            Bar("applications that their observer's end hurt", hurt, 0),
            Bar("what stays after the next start", len(stays), 0),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
