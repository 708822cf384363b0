"""Random SIGKILLs of `latlab requests record`, and of the server that it observes under load.

One server answers one client all the time; latlab observes it again and again, and is killed at any moment of
an observation. Held to: each request is answered, the server goes on, the client's fastest tenth is as fast
afterwards as it was before the first observation, and nothing of latlab stays behind: no process, no scratch
folder after the next start, no BPF program, map or link, no instance of tracefs.

Then other servers are killed while latlab observes each: it ends with a code of its own and no traceback, and
what it recorded can be read.

    python -m benchmarks.requests_kills [--kills 50] [--servers 10] [--seed 1]
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import signal
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
_NEXT = (11, 12, 31)  # bpf(2): BPF_PROG_GET_NEXT_ID, BPF_MAP_GET_NEXT_ID, BPF_LINK_GET_NEXT_ID
_INSTANCES = Path("/sys/kernel/tracing/instances")
_OWN_CODES = (0, 1, 3)
_SETTLE_S = 5.0  # until the kernel has let go of what was a killed process's
_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]


def of_the_kernel() -> int:
    """How many BPF programs, maps and links it holds, and instances of tracefs."""
    call, count = ctypes.CDLL(None).syscall, 0
    for command in _NEXT:
        attributes = (ctypes.c_uint32 * 32)()
        while call(_BPF, command, ctypes.byref(attributes), ctypes.sizeof(attributes)) == 0:
            attributes[0] = attributes[1]  # the next id becomes the one to go on from
            count += 1
    return count + (len(list(_INSTANCES.iterdir())) if _INSTANCES.is_dir() else 0)


def kept_beyond(before: int) -> int:
    """What the kernel holds for longer than it takes to let go of a dead process's."""
    until = time.monotonic() + _SETTLE_S
    while (more := of_the_kernel() - before) > 0 and time.monotonic() < until:
        time.sleep(0.1)
    return max(0, more)


def _recorder(server: int, *more: str) -> subprocess.Popen[str]:
    words = ["requests", "record", "--pid", str(server), "--seconds", "2", "--json", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "latlab", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, text=True,
    )  # fmt: skip


def server_killed(draw: random.Random, folder: Path) -> str:
    """A server is killed while latlab observes it: what went wrong; "" where nothing did."""
    with ExitStack() as stack:
        server, port = own(stack, folder, str(built("server")), "none")
        client = subprocess.Popen(
            [str(built("client")), str(port), "4", "4000", "6", str(folder / "asked")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        stack.callback(client.wait)
        stack.callback(client.kill)
        run = folder / f"run-{server}"
        latlab = _recorder(server, "-o", str(run))
        time.sleep(draw.uniform(0.1, _AT_MOST_S))
        os.kill(server, signal.SIGKILL)
        try:
            told = latlab.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            latlab.kill()
            return "latlab did not end"
        if "Traceback" in told or latlab.returncode not in _OWN_CODES:
            return f"latlab ended with {latlab.returncode}: {told[-300:]}"
        shown = subprocess.run(
            [sys.executable, "-m", "latlab", "requests", "show", str(run)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if run.exists() and shown.returncode not in _OWN_CODES[::2]:
            return f"{run} can't be read: {shown.stderr[-300:]}"
        return left_of(latlab.pid)


def main() -> int:
    """Kill, and say what was left and what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--servers", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw, left, started = random.Random(given.seed), [], set()
    held = of_the_kernel()
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
            latlab = _recorder(server)
            started.add(latlab.pid)
            time.sleep(draw.uniform(0.1, _AT_MOST_S))
            latlab.kill()
            latlab.communicate()
            left += [why for why in [left_of(latlab.pid)] if why]
        last = time.monotonic_ns()
        kept = kept_beyond(held)
        rows = [tuple(map(int, line.split())) for line in client.communicate()[0].splitlines()]
        alive = Path(f"/proc/{server}").exists()
        wrong = [why for _ in range(given.servers) if (why := server_killed(draw, folder))]
        kept += kept_beyond(held)
    subprocess.run([sys.executable, "-m", "latlab", "requests", "record", "--seconds", "1", "--", "true"],
                   capture_output=True, check=False)  # fmt: skip
    scratch = [str(one.path) for one in leftovers() if one.pid in started]
    # Of the fastest tenth, which others on the machine disturb least.
    before = statistics.quantiles((taken for at, taken, _ in rows if at < first), n=10)[0]
    after = statistics.quantiles((taken for at, taken, _ in rows if at > last), n=10)[0]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{given.kills} kills and {given.servers} of servers, seed {given.seed}; {len(rows)} requests")
    print("left:", *left[:3], *scratch[:3])
    return report([
        Bar("server that was ended", not alive, 0),
        Bar("requests answered, of those asked", len(rows) / (seconds * 1000), 0.9, at_least=True),
        Bar("latency of the fastest tenth afterwards, of that before", after / before, 1.2),
        Bar("processes left", len(left), 0),
        Bar("scratch folders left", len(scratch), 0),
        Bar("BPF programs, maps, links and instances of tracefs left", kept, 0),
        Bar("kills of servers that went wrong", len(wrong), 0),
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
