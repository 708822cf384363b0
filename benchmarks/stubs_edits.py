"""Edited captures against programs that really are faster: python -m benchmarks.stubs_edits

    python -m benchmarks.stubs_edits [--seed N] [--rounds N] [--only NAME …]

Each system (of benchmarks/schedule_programs) is captured once, its part is edited to half its work by
`latlab stubs edit`'s engine, and the edited action files are played. The truth is the program that really
does half of that work, in turn with the unchanged one; the least time of the rounds counts. All times are
parts of the unchanged program's. "kept" is the edit without the engine: waits for CPUs as they were captured.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass

from benchmarks._options import systems_parser
from benchmarks.schedule_forecast import build_systems, seconds_of
from latlab import stubs


@dataclass(frozen=True)
class System:
    """A program of `systems.cpp` or `waits.cpp`, and its part that is edited."""

    program: str
    name: str
    part: str


EDITED = {
    "systems": (
        ("line_cpus", "middle"), ("line_cpus", "last"), ("line_middle", "middle"), ("line_last", "last"),
        ("rounds", "slow"), ("crowd", "big"), ("crowd", "small"), ("asking", "server"), ("pipes", "middle"),
    ),
    "waits": (("uneven", "left"), ("semaphores", "eater"), ("gather", "maker")),
}  # fmt: skip
SYSTEMS = tuple(System(program, name, part) for program, parts in EDITED.items() for name, part in parts)


def compare(system: System, command: list[str], rounds: int, folder: str) -> tuple[float, bool] | None:
    """Print a system's line; the error in points and whether the truth is inside; None: it is withheld."""
    captured, _ = stubs.capture(command, f"{folder}/captured", quiet=True)
    before = stubs.load_actions(f"{folder}/captured")
    changed = before
    for thread in captured.threads:
        if thread.name == system.part:
            changed = stubs.scale(changed, thread.id, factor=0.5)
    found = stubs.edited(before, changed, captured)
    played = stubs.play(found.program).total_ns / captured.total_ns
    kept = stubs.play(changed).total_ns / captured.total_ns
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(rounds):
        for faster, taken in times.items():
            taken.append(seconds_of([*command, *((system.part, "0.5") if faster else ())]))
    truth = min(times[True]) / min(times[False])
    result = found.result
    low, high = (each / result.before_ns for each in (result.low_ns, result.high_ns))
    told = f"{result.after_ns / result.before_ns:6.1%} [{low:6.1%}, {high:6.1%}]"
    print(
        f"{system.name:12} {system.part:8} truth {truth:6.1%}  told {told}  played {played:6.1%}  "
        f"kept {kept:6.1%}  null {result.error:+.1%}  {result.withheld}",
        flush=True,
    )
    return None if result.withheld else (100 * abs(played - truth), low <= truth <= high)


def main() -> int:
    """Print a line a system, then the sum."""
    options = systems_parser(__doc__, rounds=3).parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        build_systems(folder)
        for system in SYSTEMS:
            if not options.only or system.name in options.only:
                command = [f"{folder}/{system.program}", system.name, str(options.seed)]
                results.append(compare(system, command, options.rounds, folder))
    told = [one for one in results if one is not None]
    if told:
        print(
            f"mean |error| {sum(error for error, _ in told) / len(told):.1f} points of {len(told)}, most "
            f"{max(error for error, _ in told):.1f}; the truth is inside {sum(inside for _, inside in told)} "
            f"of {len(told)} intervals; {len(results) - len(told)} withheld"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
