"""Captured programs against their replays: python -m benchmarks.stubs_timelines"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from latlab import stubs
from latlab.stubs.timelines import events as _events
from latlab.system.kernel import tracing

QUICKSORT = r"""
#include <stdio.h>
#include <stdlib.h>
static void sort(int *a, int n) {
  if (n < 2) return;
  int p = a[n / 2], i = 0, j = n - 1;
  while (i <= j) {
    while (a[i] < p) i++;
    while (a[j] > p) j--;
    if (i <= j) { int t = a[i]; a[i++] = a[j]; a[j--] = t; }
  }
  sort(a, j + 1);
  sort(a + i, n - i);
}
int main(void) {
  static int a[100000];
  for (int i = 0; i < 100000; i++) a[i] = rand();
  sort(a, 100000);
  printf("%d\n", a[500]);
}
"""
PROGRAMS = {
    "gcc quicksort": ["gcc", "-O2", "quicksort.c", "-o", "quicksort"],
    "make -j2": ["make", "-s", "-j2", "-B"],
    "sort a file": ["sh", "-c", "sort --parallel=2 numbers.txt > sorted.txt"],
    "tar and gzip": ["sh", "-c", "tar cf - /usr/include/c++ 2>/dev/null | gzip -1 > tree.gz"],
    "xz -T2": ["xz", "-T2", "-2", "-k", "-f", "--block-size=500KiB", "numbers.txt"],
    "background jobs": [
        "sh", "-c", "(sleep 0.05; seq 20000 | wc -l) & sort numbers.txt > /dev/null & sleep 0.03; wait",
    ],
    "shell pipeline": ["sh", "-c", "seq 60000 | sort -r | md5sum"],
    "python": [sys.executable, "-S", "-c", "print(sum(i * i for i in range(300000)))"],
    "python threads": [
        sys.executable, "-S", "-c",
        "import threading,time\ndef work(n):\n  for _ in range(5): time.sleep(.005 * n); sum(range(30000))\n"
        "ts=[threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]\n"
        "[t.start() for t in ts]\n[t.join() for t in ts]",
    ],
    "find": ["sh", "-c", "find /usr/include -name '*.h' | wc -l"],
}  # fmt: skip
ROUNDS = 3


def prepare() -> None:
    Path("quicksort.c").write_text(QUICKSORT)
    chosen = random.Random(1)
    Path("numbers.txt").write_text("".join(f"{chosen.randrange(10**9)}\n" for _ in range(150_000)))
    names = [f"part{i}" for i in range(6)]
    for name in names:
        Path(f"{name}.c").write_text(QUICKSORT.replace("int main(void)", f"int {name}(void)"))
    objects = " ".join(f"{name}.o" for name in names)
    Path("Makefile").write_text(f"all: {objects}\n%.o: %.c\n\tgcc -O1 -c $< -o $@\n")


def cpu_s() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def cost_of_a_capture(command: list[str]) -> float:
    """CPU time of a command (and ours while it runs) with its events recorded and without, minus one."""

    def used() -> float:
        before = cpu_s()
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return cpu_s() - before

    plain, traced = [], []
    for _ in range(9):
        plain.append(used())
        with tracing.Tracer(_events.TRACEPOINTS, ring_bytes=4 << 20):
            traced.append(used())
    return sorted(traced)[4] / sorted(plain)[4] - 1


def main() -> int:
    print("bars: total, start and end 0.5 %, run 100 us or 0.3 %, rerun 0.1 %; the median of", ROUNDS)
    print(f"{'program':16} {'ms':>8} {'total':>8} {'run':>9} {'start':>8} {'end':>8} {'rerun':>8}")
    missed = 0
    chosen = sys.argv[1:] or list(PROGRAMS)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        prepare()
        for name in chosen:
            command = PROGRAMS[name]
            rows = []
            stubs.capture(command, "captured", quiet=True)  # the first finds cold files
            for _ in range(ROUNDS):
                captured, _ = stubs.capture(command, "captured", quiet=True)
                program = stubs.load_actions("captured")
                plays = [stubs.play(program) for _ in range(2)]
                found = stubs.compare(captured, plays[0])
                over = max(
                    abs(t.run_ns - t.budget_ns) / max(100_000, 0.003 * t.budget_ns) for t in plays[0].threads
                )
                rows.append(
                    (
                        abs(found.total_error), over,
                        max(abs(t.start_error) for t in found.threads),
                        max(abs(t.end_error) for t in found.threads),
                        abs(plays[1].total_ns / plays[0].total_ns - 1), float(not found.order_same),
                    )
                )  # fmt: skip
            total, run, start, end, rerun, order = (
                sorted(column)[len(rows) // 2] for column in zip(*rows, strict=True)
            )
            bad = total > 0.005 or run > 1 or start > 0.005 or end > 0.005 or rerun > 0.001 or order > 0
            missed += bad
            kept = f"{len(captured.threads)} threads, order {'differs' if order else 'kept'}"
            print(
                f"{name:16} {captured.total_ns / 1e6:8.1f} {total:8.2%} {run:6.2f} of {start:8.2%} "
                f"{end:8.2%} {rerun:8.2%} {kept} {'MISSED' if bad else 'met'}",
                flush=True,
            )
        cost = max(cost_of_a_capture(PROGRAMS[name]) for name in ("gcc quicksort", "make -j2"))
        print(f"a capture costs {cost:.1%} of CPU time (bar 5 %) {'met' if cost <= 0.05 else 'MISSED'}")
    return int(missed > 0 or cost > 0.05)


if __name__ == "__main__":
    sys.exit(main())
