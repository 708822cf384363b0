"""Random SIGKILLs of `latlab requests record` while it observes a server under load: the server is unharmed.

One server answers one client all the time; latlab observes it again and again, and is killed at any moment of
an observation. Held to: each request is answered, the server goes on, the client's median latency afterwards
is as it was before the first observation, and nothing of latlab stays behind: no process, no scratch folder
after the next start, no BPF program.

    python -m benchmarks.requests_kills [--kills 50] [--seed 1]
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks._bars import Bar, report
from benchmarks.any_program_kills import left_of
from benchmarks.requests_planted import built, own
from latlab.system.scratch import leftovers

_AT_MOST_S = 4.0  # from the start of latlab to the kill: it starts, observes, analyses and reports meanwhile
_ALONE_S = 3.0
_NEXT_PROGRAM = 11  # bpf(2): BPF_PROG_GET_NEXT_ID
_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]


def bpf_programs() -> int:
    """How many the kernel holds."""
    call, count = ctypes.CDLL(None).syscall, 0
    attributes = (ctypes.c_uint32 * 32)()
    while call(_BPF, _NEXT_PROGRAM, ctypes.byref(attributes), ctypes.sizeof(attributes)) == 0:
        attributes[0] = attributes[1]  # the next id becomes the one to go on from
        count += 1
    return count


def main() -> int:
    """Kill, and say what was left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw, left, started = random.Random(given.seed), [], set()
    programs = bpf_programs()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="requests-kills-")))
        server, port = own(stack, folder, str(built("server")), "none")
        (folder / "asked").write_bytes(b"get something\n")
        seconds = int(given.kills * (_AT_MOST_S + 1.5) + 2 * _ALONE_S + 5)
        client = subprocess.Popen(
            [str(built("client")), str(port), "4", "4000", str(seconds), str(folder / "asked")],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        stack.callback(client.kill)
        time.sleep(_ALONE_S)
        first = time.monotonic_ns()
        for _ in range(given.kills):
            latlab = subprocess.Popen(
                [sys.executable, "-m", "latlab", "requests", "record", "--pid", str(server), "--seconds", "2",
                 "--json"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            started.add(latlab.pid)
            time.sleep(draw.uniform(0.1, _AT_MOST_S))
            latlab.kill()
            latlab.wait()
            left += [why for why in [left_of(latlab.pid)] if why]
        last = time.monotonic_ns()
        kept = bpf_programs() - programs
        rows = [tuple(map(int, line.split())) for line in client.communicate()[0].splitlines()]
        alive = Path(f"/proc/{server}").exists()
    subprocess.run([sys.executable, "-m", "latlab", "requests", "record", "--seconds", "1", "--", "true"],
                   capture_output=True, check=False)  # fmt: skip
    scratch = [str(one.path) for one in leftovers() if one.pid in started]
    before = statistics.median(taken for at, taken, _ in rows if at < first)
    after = statistics.median(taken for at, taken, _ in rows if at > last)
    print(f"{given.kills} kills, seed {given.seed}; {len(rows)} requests; left: {[*left[:3], *scratch[:3]]}")
    return report([
        Bar("server that was ended", not alive, 0),
        Bar("requests answered, of those asked", len(rows) / (seconds * 1000), 0.9, at_least=True),
        Bar("median latency afterwards, of that before", after / before, 1.2),
        Bar("processes left", len(left), 0),
        Bar("scratch folders left", len(scratch), 0),
        Bar("BPF programs left", kept, 0),
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
