"""`python -m benchmarks` runs every benchmark, `python -m benchmarks --list` lists them, and names choose
some.

A benchmark is a module of this folder with a `main()`, which prints each bar against what it measured. It
gets no arguments here: what takes hours is started by hand.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
# Hours, by design: started by name only.
LONG = {"bench_identical", "proof", "queues_threads"}


def benchmarks() -> dict[str, str]:
    """Every benchmark's name, and the first line of what it says about itself."""
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        if path.name.startswith("_"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").split("\n")[0]
    return found


def main() -> int:
    known = benchmarks()
    if "--list" in sys.argv[1:]:
        for name, what in known.items():
            print(f"{name:28} {what}")
        return 0
    chosen = sys.argv[1:] or [name for name in known if name not in LONG]
    if unknown := [name for name in chosen if name not in known]:
        print(f"benchmarks: there is no {', '.join(unknown)}; see --list", file=sys.stderr)
        return 2
    failed = []
    for name in chosen:
        print(f"== {name}: {known[name]}", flush=True)
        # A process each, so that none runs in the heap and the caches of the one before.
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=FOLDER.parent, check=False)
        if done.returncode:
            failed.append(name)
    if failed:
        print(f"missed a bar, or failed: {', '.join(failed)}", file=sys.stderr)
    return os.EX_OK if not failed else 1


if __name__ == "__main__":
    sys.exit(main())
