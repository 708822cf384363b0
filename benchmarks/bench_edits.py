"""How often irrelevant edits are called different: `python -m benchmarks.bench_edits [--rounds N]`.

Twenty edits that change nothing of what is measured (a constant, a comment, an unused function, another
order of attributes) are compared with the file that they were made to. Whatever is called different is the
luck of a layout. The share has to stay at 5 % or less.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from latlab import bench

BASE = """\
NAMES = ["alpha", "beta", "gamma"]
class Work:
    def __init__(self):
        self.table = {f"key{i}": i for i in range(200)}
        self.words = [f"key{i}" for i in range(0, 200, 3)]
    def run(self):
        total = 0
        for word in self.words:
            total += self.table[word]
        return total
"""
# What is inserted, by what it is inserted before.
INSERTED = {
    "NAMES": {
        "comment": "# a comment\n",
        "constant": "UNUSED = 3.25\n",
        "long constant": "UNUSED = 'a constant that nobody reads' * 3\n",
        "big constant": "UNUSED = 10 ** 40\n",
        "list": "UNUSED = [1, 2, 3]\n",
        "dictionary": "UNUSED = {'a': 1}\n",
        "many objects": "UNUSED = [object() for _ in range(77)]\n",
        "import": "import string\n",
    },
    "class Work": {
        "function": "def unused():\n    return 1\n",
        "lambda": "unused = lambda x: x\n",
        "class": "class Unused:\n    pass\n",
    },
    "        self.table =": {
        "attribute": "        self.unused = 1\n",
        "attribute object": "        self.unused = object()\n",
    },
    "    def __init__": {"class attribute": "    unused = 7\n", "docstring": '    """Works."""\n'},
    "    def run": {
        "late attribute": "        self.unused = 1\n",
        "method": "    def unused(self):\n        return 2\n",
        "order": "        self.words = list(self.words)\n",
    },
}
EDITS = {
    name: (place, text + place) for place, inserted in INSERTED.items() for name, text in inserted.items()
} | {"annotation": ("def __init__(self)", "def __init__(self: 'Work')"), "name": ("NAMES", "LONGER_NAMES")}


def main() -> None:
    """Print a line for each edit and the share at the end."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    asked = parser.parse_args()
    called, count = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "base.py").write_text(BASE)
        base = bench.settle(bench.parse(f"{folder}/base.py:Work"))
        for seed in range(asked.rounds):
            for number, (name, (old, new)) in enumerate(EDITS.items()):
                file = Path(folder) / f"edit{number}.py"
                file.write_text(BASE.replace(old, new, 1))
                result = bench.run_ab(
                    base,
                    bench.settle(bench.parse(f"{file}:Work")),
                    bench.default_settings(),
                    bench.Asked(seconds=asked.seconds, seed=1000 * seed + number),
                    bench.Recorder(),
                    control=False,
                )[0].result
                different = result.verdict.value in ("slower", "faster", "mixed")
                called, count = called + different, count + 1
                found = f"{result.verdict.value} {result.effect or 0:+.2%}"
                print(f"{name}: {found}, {result.pairs} pairs", flush=True)
    print(f"called different: {called} of {count}")


if __name__ == "__main__":
    main()
