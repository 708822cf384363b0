"""Does `latlab requests compare` say what was changed? Recordings in pairs of one redis, before and after.

    python -m benchmarks.requests_compare [--pairs 10] [--seconds 3] [--only PART]

Every 40th request is a script; the change makes it 20 % longer, or nothing is changed. So p99 is 20 % longer,
or equivalent, and p50 is equivalent in both. In each pair chance decides which side is recorded first.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.requests_planted import built, redis_with, resp
from latlab.words import share, table

_TURNS, _LONGER = 60_000, 1.2
_EVERY = 40
_CHANGES = {"identical": (1.0, 1.0), "slower": (1.0, _LONGER), "faster": (_LONGER, 1.0)}
_EXPECTED = {"identical": "equivalent", "slower": "slower", "faster": "faster"}


def _recorded(folder: Path, pid: int, port: int, turns: float, seconds: int) -> None:
    script = f"local n = 0 for i = 1, {int(turns)} do n = n + i end return n"
    files = folder.with_suffix(".asked"), folder.with_suffix(".other")
    files[0].write_bytes(resp("get", "key"))
    files[1].write_bytes(resp("eval", script, "0"))
    client = [str(built("client")), str(port), "3", "4000", str(seconds + 4), str(files[0]), str(_EVERY)]
    with subprocess.Popen([*client, str(files[1])], stdout=subprocess.DEVNULL) as asking:
        latlab = [sys.executable, "-m", "latlab", "requests", "record", "--pid", str(pid)]
        subprocess.run(
            [*latlab, "--seconds", str(seconds), "-o", str(folder)], capture_output=True, check=False
        )
        asking.kill()


def measure(change: str, pairs: int, seconds: int) -> dict[str, str]:
    """The verdict on each quantile, and on the whole."""
    chance, (before, after) = random.Random(change), _CHANGES[change]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="requests-compare-")))
        pid, port = redis_with()(stack, folder)
        runs = []
        for number in range(pairs):
            sides = {f"{number}-before": before, f"{number}-after": after}
            for name in chance.sample(sorted(sides), 2):
                _recorded(folder / name, pid, port, _TURNS * sides[name], seconds)
            runs += [str(folder / name) for name in sides]
        done = subprocess.run(
            [sys.executable, "-m", "latlab", "requests", "compare", *runs, "--json"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    found = json.loads(done.stdout)
    said = {one["name"]: f"{one['verdict']} {share(one['effect'], signed=True)}" for one in found["changes"]}
    return {"whole": found["verdict"], **said}


def main(arguments: Sequence[str]) -> None:
    """A row a change."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--only", default="")
    asked = parser.parse_args(arguments)
    rows = []
    for change in _CHANGES:
        if asked.only in change:
            said = measure(change, asked.pairs, asked.seconds)
            p99 = said["p99"].partition(" ")[0]
            rows.append((change, _EXPECTED[change], "right" if p99 == _EXPECTED[change] else "wrong",
                         *said.values()))  # fmt: skip
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    print(table(("change", "expected of p99", "outcome", "whole", "p50", "p99", "p99.9"), rows))


if __name__ == "__main__":
    main(sys.argv[1:])
