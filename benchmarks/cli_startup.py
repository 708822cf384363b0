"""How long `latlab --help` takes, beside an interpreter that does nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks._bars import Bar, report

LATLAB = str(Path(sys.executable).parent / "latlab")


def elapsed_ms(command: list[str]) -> float:
    begin = time.perf_counter_ns()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter_ns() - begin) / 1e6


def main() -> int:
    commands = {"help": [LATLAB, "--help"], "interpreter": [sys.executable, "-c", "pass"]}
    spent: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(15):
        # In turn, so that whatever disturbs the machine disturbs both.
        for name, command in commands.items():
            spent[name].append(elapsed_ms(command))
    middle = {name: sorted(values)[(len(values) - 1) // 2] for name, values in spent.items()}
    print(f"an interpreter that does nothing: {middle['interpreter']:.1f} ms (median of 15)")
    return report([Bar("latlab --help, median of 15", middle["help"], 150, "ms")])


if __name__ == "__main__":
    sys.exit(main())
