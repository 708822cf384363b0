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
EDITS = {
    "comment": ("NAMES", "# a comment\nNAMES"),
    "constant": ("NAMES", "UNUSED = 3.25\nNAMES"),
    "long constant": ("NAMES", "UNUSED = 'a constant that nobody reads' * 3\nNAMES"),
    "big constant": ("NAMES", "UNUSED = 10 ** 40\nNAMES"),
    "list": ("NAMES", "UNUSED = [1, 2, 3]\nNAMES"),
    "dictionary": ("NAMES", "UNUSED = {'a': 1}\nNAMES"),
    "many objects": ("NAMES", "UNUSED = [object() for _ in range(77)]\nNAMES"),
    "function": ("class Work", "def unused():\n    return 1\nclass Work"),
    "lambda": ("class Work", "unused = lambda x: x\nclass Work"),
    "class": ("class Work", "class Unused:\n    pass\nclass Work"),
    "import": ("NAMES", "import string\nNAMES"),
    "attribute": ("        self.table =", "        self.unused = 1\n        self.table ="),
    "late attribute": ("    def run", "        self.unused = 1\n    def run"),
    "attribute object": ("        self.table =", "        self.unused = object()\n        self.table ="),
    "class attribute": ("    def __init__", "    unused = 7\n    def __init__"),
    "method": ("    def run", "    def unused(self):\n        return 2\n    def run"),
    "docstring": ("class Work:\n", 'class Work:\n    """Works."""\n'),
    "annotation": ("def __init__(self)", "def __init__(self: 'Work')"),
    "name": ("NAMES", "LONGER_NAMES"),
    "order": (
        '        self.words = [f"key{i}" for i in range(0, 200, 3)]\n    def run',
        '        self.words = [f"key{i}" for i in range(0, 200, 3)]\n        self.words = list(self.words)\n'
        "    def run",
    ),
}


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
