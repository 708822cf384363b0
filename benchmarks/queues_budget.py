"""What `latlab queues record` costs in all, with and without a budget, and the period that it keeps.

Bars: the whole process, its threads together, within --cpu-share 2% of one CPU once it has settled; the
achieved p50 and p99 period and the timer slack are stated, at 100 µs without a budget.
`python -m benchmarks.queues_budget`, 30 s
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time

import psutil

from benchmarks._bars import Bar, report
from benchmarks._scratch import own_counters

APPLICATION = """
import time
from latlab._core import counting
counting.set_application("budgeted")
slots = [counting.Slot(name=f"q{i}", capacity=100, source_name="a", drain_name="b") for i in range(200)]
print("ready", flush=True)
while True:                      # ten of two hundred are used
    for slot in slots[:10]:
        slot.put(3)
    time.sleep(0.001)
    for slot in slots[:10]:
        slot.get(3)
    time.sleep(0.001)
"""


def recorded(output: str, seconds: float, *options: str) -> tuple[dict[str, float], float]:
    """What the command says of itself, and the share of a CPU that its process used in its last third."""
    command = [sys.executable, "-m", "latlab", "queues", "record", "budgeted", "-o", output, "--json"]
    process = subprocess.Popen([*command, "--seconds", str(seconds), *options], stdout=subprocess.PIPE)
    watched = psutil.Process(process.pid)
    begin = time.monotonic()
    times = []
    while process.poll() is None:
        try:
            used = watched.cpu_times()
        except psutil.NoSuchProcess:
            break
        times.append((time.monotonic() - begin, used.user + used.system))
        time.sleep(0.1)
    assert process.stdout is not None
    said = json.load(process.stdout)
    process.stdout.close()
    # The end writes what is left and closes files: that is not part of the steady state.
    settled = [(at, used) for at, used in times if times[-1][0] - seconds / 3 <= at <= times[-1][0] - 0.5]
    (from_s, before), (to_s, after) = settled[0], settled[-1]
    return said, (after - before) / (to_s - from_s)


def main() -> int:
    own_counters()
    application = subprocess.Popen([sys.executable, "-c", APPLICATION], stdout=subprocess.PIPE)
    assert application.stdout is not None
    application.stdout.readline()
    try:
        with tempfile.TemporaryDirectory() as folder:
            free, free_share = recorded(f"{folder}/free", 6.0, "--period", "100us")
            kept, share = recorded(f"{folder}/kept", 15.0, "--period", "100us", "--cpu-share", "2%")
    finally:
        application.kill()
        application.wait()
        application.stdout.close()
    for name, said, used in (("without a budget", free, free_share), ("with --cpu-share 2%", kept, share)):
        print(
            f"{name}: {used:.2%} of a CPU, period p50 {said['period_p50_ns'] / 1e3:.1f} µs, "
            f"p99 {said['period_p99_ns'] / 1e3:.1f} µs, {said['missed_periods']} periods missed, "
            f"timer slack {said['timer_slack_ns']} ns"
        )
    return report([Bar("the recorder's whole process with --cpu-share 2%", share * 100, 2.0, "%")])


if __name__ == "__main__":
    sys.exit(main())
