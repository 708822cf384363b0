"""Run clang-tidy over the core, its tests and its programs, one process a CPU, and over changed files only.

clang-tidy takes seconds a file, so a file whose text, headers and configuration have not changed since it
was last clean is not checked again.
"""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def main() -> int:
    """Exit status 1 when any file has a finding."""
    tidy, build = sys.argv[1], Path(sys.argv[2])
    files = sorted(
        entry["file"]
        for entry in json.loads((build / "compile_commands.json").read_text())
        if "/native/" in entry["file"]
    )
    headers = hashlib.sha256(Path(".clang-tidy").read_bytes())
    for header in sorted([*Path("include").rglob("*.hpp"), *Path("native").rglob("*.hpp")]):
        headers.update(header.read_bytes())

    def check(file: str) -> int:
        digest = headers.copy()
        digest.update(Path(file).read_bytes())
        stamp = build / "tidy" / f"{Path(file).name}-{digest.hexdigest()[:24]}"
        if stamp.exists():
            return 0
        done = subprocess.run(
            [tidy, "-p", str(build), "--quiet", file], capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(done.stdout, done.stderr, sep="\n", flush=True)
            return 1
        stamp.parent.mkdir(exist_ok=True)
        stamp.touch()
        return 0

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return max(pool.map(check, files), default=0)


if __name__ == "__main__":
    sys.exit(main())
