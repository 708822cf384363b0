"""Captured programs against their replays: python -m benchmarks.stubs_timelines"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from latlab import stubs

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
    "shell pipeline": ["sh", "-c", "seq 60000 | sort -r | md5sum"],
    "gzip": ["sh", "-c", "head -c 3000000 /dev/zero | gzip -9 > zeros.gz"],
    "python": [sys.executable, "-c", "print(sum(i * i for i in range(300000)))"],
    "python threads": [
        sys.executable, "-c",
        "import threading,time\nts=[threading.Thread(target=time.sleep,args=(.05,)) for _ in range(3)]\n"
        "[t.start() for t in ts]\n[t.join() for t in ts]",
    ],
    "children": ["sh", "-c", "sleep 0.05 & sleep 0.03; wait; true"],
    "tar": ["sh", "-c", "tar cf - /usr/include/c++ 2>/dev/null | wc -c"],
    "find": ["sh", "-c", "find /usr/include -name '*.h' | wc -l"],
}  # fmt: skip


def main() -> None:
    print("bars: total, start and end 0.5 %, run 100 us or 0.3 %, rerun 0.1 %")
    print(f"{'program':16} {'total':>8} {'run':>9} {'start':>8} {'end':>8} {'rerun':>8}")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("quicksort.c").write_text(QUICKSORT)
        for name, command in PROGRAMS.items():
            stubs.capture(command, "captured", quiet=True)
            captured, _ = stubs.capture(command, "captured", quiet=True)
            program = stubs.load_actions("captured")
            plays = [stubs.play(program) for _ in range(3)]
            found = stubs.compare(captured, plays[1])
            budget = max(abs(t.run_ns - t.budget_ns) for t in plays[1].threads) / 1e3
            start = max(abs(t.start_error) for t in found.threads)
            end = max(abs(t.end_error) for t in found.threads)
            rerun = abs(plays[2].total_ns / plays[1].total_ns - 1)
            print(
                f"{name:16} {found.total_error:+8.2%} {budget:6.1f} us {start:8.2%} {end:8.2%} {rerun:8.2%} "
                f"{len(captured.threads)} threads, {'order kept' if found.order_same else 'ORDER DIFFERS'}"
            )


if __name__ == "__main__":
    main()
