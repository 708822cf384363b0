"""Against other people's programs: sockperf's ping-pong, libzmq's throughput programs, and who used the CPU.

sockperf is the distribution's package; libzmq's `local_thr` and `remote_thr` are built from its perf/
folder and looked for on PATH. What isn't there is said and left out.

    python -m benchmarks.messaging_peers
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import sys
import time

from latlab.messaging import analyse, measure
from latlab.messaging._processes import free_port
from latlab.model.messaging import Settings


def sockperf_p50_ns(port: int) -> float:
    server = subprocess.Popen(
        ["sockperf", "server", "--tcp", "-i", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(0.3)
        command = [
            "sockperf",
            "ping-pong",
            "--tcp",
            "-i",
            "127.0.0.1",
            "-p",
            str(port),
            "-m",
            "64",
            "-t",
            "2",
        ]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    finally:
        server.kill()
        server.wait()
    found = re.search(r"percentile 50\.000 =\s*([\d.]+)", said)
    assert found is not None, said
    return float(found[1]) * 1000


def our_p50_ns() -> float:
    settings = Settings(
        "tcp", topology="pingpong", half=True, messages=80_000, warmup=2000, cpus=(-1, -1, -1)
    )
    result = analyse(measure(settings))
    assert result.latency is not None
    return float(result.latency.median)


def against_sockperf(rounds: int = 5) -> bool:
    if shutil.which("sockperf") is None:
        print("sockperf is not installed: left out")
        return True
    ratios = []
    for _ in range(rounds):
        ours, theirs = our_p50_ns(), sockperf_p50_ns(free_port())
        ratios.append(ours / theirs)
        print(
            f"  TCP ping-pong p50: ours {ours:.0f} ns, sockperf {theirs:.0f} ns, ratio {ratios[-1]:.3f}",
            flush=True,
        )
    middle = statistics.median(ratios)
    print(f"TCP loopback p50 against sockperf (bar 0.97 to 1.03): median ratio {middle:.3f}")
    return 0.97 <= middle <= 1.03


def libzmq_rate(size: int, count: int) -> float:
    address = f"tcp://127.0.0.1:{free_port()}"
    local = subprocess.Popen(["local_thr", address, str(size), str(count)], stdout=subprocess.PIPE, text=True)
    subprocess.run(["remote_thr", address, str(size), str(count)], check=True, capture_output=True)
    said = local.communicate(timeout=60)[0]
    found = re.search(r"mean throughput: ([\d.]+) \[msg/s\]", said)
    assert found is not None, said
    return float(found[1])


def against_libzmq(rounds: int = 5, count: int = 2_000_000) -> bool:
    if shutil.which("local_thr") is None or shutil.which("remote_thr") is None:
        print("libzmq's local_thr and remote_thr are not on PATH: left out")
        return True
    ratios = []
    for _ in range(rounds):
        settings = Settings("zeromq-tcp", topology="direct", messages=count, size=64, cpus=(-1, -1, -1))
        ours = analyse(measure(settings)).receiving_throughput.messages_per_s or 0.0
        theirs = libzmq_rate(64, count)
        ratios.append(ours / theirs)
        print(f"  ZeroMQ over TCP: {ours / 1e6:.2f} M/s, libzmq's {theirs / 1e6:.2f} M/s, {ratios[-1]:.3f}")
    middle = statistics.median(ratios)
    print(f"ZeroMQ throughput against libzmq's own programs (bar 1): median ratio {middle:.3f}")
    return middle >= 1.0


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
    return 0 if all([against_sockperf(), against_libzmq(), cpu_adds_up()]) else 1


if __name__ == "__main__":
    sys.exit(main())
