"""Against other programs: sockperf's ping-pong, libzmq by itself, and who used the CPU.

sockperf is the distribution's package. libzmq's own throughput programs are in no package:
libzmq_throughput.c beside this file does what they do. What isn't there is said and left out.

    python -m benchmarks.messaging_peers
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from latlab.messaging import analyse, measure
from latlab.messaging.running.processes import free_port
from latlab.messaging.running.ways.zeromq import addresses, library
from latlab.model.messaging.results import Settings


def on_cpu(cpu: int) -> list[str]:
    """The words before a command that pin it, where that can be."""
    return ["taskset", "-c", str(cpu)] if shutil.which("taskset") else []


def sockperf_p50_ns(port: int, cpus: tuple[int, int]) -> float:
    common = ["--tcp", "-i", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(
        [*on_cpu(cpus[1]), "sockperf", "server", *common],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(0.3)
        command = [*on_cpu(cpus[0]), "sockperf", "ping-pong", *common, "-m", "64", "-t", "1"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    finally:
        server.kill()
        server.wait()
    found = re.search(r"percentile 50\.000 =\s*([\d.]+)", said)
    assert found is not None, said
    return float(found[1]) * 1000


def our_p50_ns(cpus: tuple[int, int]) -> float:
    where = (cpus[0], cpus[1], cpus[0]) if on_cpu(0) else (-1, -1, -1)
    count = 60_000 if cpus[0] == cpus[1] else 15_000  # about a second of either
    settings = Settings("tcp", topology="pingpong", half=True, messages=count, warmup=500, cpus=where)
    result = analyse(measure(settings))
    assert result.latency is not None
    return float(result.latency.median)


def against_sockperf(name: str, cpus: tuple[int, int], rounds: int) -> bool:
    """Both ends on one core never sleep for long (7 us); on two, each wakes the other up (some 35 us).

    Chance would decide which of the two is measured. The second varies by a tenth from second to second.
    """
    if shutil.which("sockperf") is None:
        print("sockperf is not installed: left out")
        return True
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(our_p50_ns(cpus))
        theirs.append(sockperf_p50_ns(free_port(), cpus))
    ratio = statistics.median(ours) / statistics.median(theirs)
    pairs = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    print(
        f"TCP ping-pong p50 on {name}, medians of {rounds}: ours {statistics.median(ours):.0f} ns, sockperf "
        f"{statistics.median(theirs):.0f} ns, ratio (bar 0.97 to 1.03) {ratio:.3f}; of pairs median "
        f"{statistics.median(pairs):.3f}, from {pairs[0]:.3f} to {pairs[-1]:.3f}",
        flush=True,
    )
    return 0.97 <= ratio <= 1.03


def libzmq_program(folder: str) -> str | None:
    """libzmq_throughput.c, built against the libzmq that the native loop opens; None where that can't be."""
    program, path = f"{folder}/libzmq_throughput", library()
    compiler = shutil.which("cc")
    if compiler is None or path is None:
        return None
    source = Path(__file__).with_name("libzmq_throughput.c")
    link = ["-lzmq"] if path == "" else [path, f"-Wl,-rpath,{Path(path).parent}"]
    done = subprocess.run(
        [compiler, "-O2", "-o", program, str(source), *link, "-pthread"], capture_output=True, check=False
    )
    return program if done.returncode == 0 else None


def libzmq_rate(program: str, name: str, size: int, count: int) -> float:
    address, _ = addresses(name)
    words = [address, str(size), str(count)]
    if name == "zeromq-inproc":
        said = subprocess.run([program, "inproc", *words], check=True, capture_output=True, text=True).stdout
        return float(said)
    receiver = subprocess.Popen([program, "receive", *words], stdout=subprocess.PIPE, text=True)
    try:
        subprocess.run([program, "send", *words], check=True, timeout=60)
        return float(receiver.communicate(timeout=60)[0])
    finally:
        receiver.kill()
        receiver.wait()


def our_rate(name: str, size: int, count: int) -> float:
    cpus = (0, -1, 1) if name == "zeromq-inproc" else (-1, -1, -1)  # as the other program does
    settings = Settings(name, topology="direct", messages=count, size=size, cpus=cpus)
    return analyse(measure(settings)).receiving_throughput.messages_per_s or 0.0


def against_libzmq(rounds: int = 9, count: int = 1_000_000) -> bool:
    good = True
    with tempfile.TemporaryDirectory() as folder:
        program = libzmq_program(folder)
        if program is None:
            print("libzmq by itself is left out: it needs a C compiler and zmq.h (apt install libzmq3-dev)")
            return True
        for name in ("zeromq-inproc", "zeromq-ipc", "zeromq-tcp"):
            pairs = [
                (our_rate(name, 64, count), libzmq_rate(program, name, 64, count)) for _ in range(rounds)
            ]
            ratio = statistics.median(ours / theirs for ours, theirs in pairs)
            ours, theirs = (statistics.median(side) / 1e6 for side in zip(*pairs, strict=True))
            print(
                f"{name}: {ours:.2f} M messages/s, libzmq by itself {theirs:.2f} M/s; median ratio (bar 1) "
                f"{ratio:.3f}",
                flush=True,
            )
            good = good and ratio >= 1.0
    return good


def cpu_adds_up() -> bool:
    good = True
    for name in ("tcp", "unix", "shm"):
        cpu = analyse(measure(Settings(name, messages=100_000, load="rate", rate_hz=50_000.0))).cpu
        assert cpu.total is not None
        parts = (cpu.sender or 0) + (cpu.broker or 0) + (cpu.receiver or 0)
        foreign = cpu.foreign if cpu.foreign is not None else float("nan")
        print(
            f"CPU of sender + broker + receiver over {name} (bar within 1 % of the total): "
            f"{parts / cpu.total:.4f}; foreign CPU {foreign / cpu.total:.1%} of it"
        )
        good = good and abs(parts / cpu.total - 1) <= 0.01
    return good


def main() -> int:
    """Exit status 1 when a bar is missed."""
    good = [against_sockperf("one core", (0, 0), 9)]
    if len(os.sched_getaffinity(0)) > 1:
        good.append(against_sockperf("two cores", (0, 1), 25))
    return 0 if all([*good, against_libzmq(), cpu_adds_up()]) else 1


if __name__ == "__main__":
    sys.exit(main())
