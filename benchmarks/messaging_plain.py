"""TCP, Unix sockets and pipes beside a plain C loop that stamps as latlab does.

`python -m benchmarks.messaging_plain [--rounds N] [--count N]`

Both send 64 bytes and 64 kB a message from CPU 0 to CPU 1, in turn, as fast as they can; the median of the
rounds' ratios is told (bar: 1.0).
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._bars import Bar, report
from benchmarks._options import parser_of
from latlab.messaging import analyse, measure
from latlab.model.messaging.results import Settings

SIZES = {64: 1, 65_536: 20}  # bytes, and by how much fewer messages


def our_rate(name: str, size: int, count: int) -> float:
    settings = Settings(name, topology="direct", messages=count, size=size, cpus=(0, -1, 1), load="max")
    return analyse(measure(settings)).receiving_throughput.messages_per_s or 0.0


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=400_000)
    chosen = parser.parse_args()
    compiler = shutil.which("cc")
    if compiler is None:
        print("left out: needs a C compiler")
        return 0
    bars = []
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/messaging_plain"
        source = Path(__file__).with_name("messaging_plain.c")
        subprocess.run([compiler, "-O2", "-o", program, str(source)], check=True)
        for name in ("tcp", "unix", "pipe"):
            for size, fewer in SIZES.items():
                count = chosen.count // fewer
                pairs = []
                for _ in range(chosen.rounds):
                    ours = our_rate(name, size, count)
                    words = [program, name, str(size), str(count)]
                    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
                    pairs.append((ours, float(said)))
                mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
                ratios = sorted(ours / plain for ours, plain in pairs)
                print(
                    f"{name}, {size} bytes: {mine / 1e6:.3f} M messages/s, plain C {theirs / 1e6:.3f}; "
                    f"ratios from {ratios[0]:.2f} to {ratios[-1]:.2f}",
                    flush=True,
                )
                bars.append(Bar(f"{name}, {size} bytes, ratio", statistics.median(ratios), 1.0, "", True))
    return report(bars)


if __name__ == "__main__":
    sys.exit(main())
