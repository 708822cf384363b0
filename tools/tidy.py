"""Run clang-tidy over the core, its tests and its programs: one process a CPU, changed files only.

clang-tidy takes seconds a file, so a file that was clean is not checked again until its own text, a header
that it includes, or the configuration changes. The build (ninja) knows which headers those are.
"""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path


def dependencies(ninja: Path, build: Path) -> dict[str, list[str]]:
    """The headers of ours that each object was compiled from, by the object's path in the build folder."""
    listing = subprocess.run(
        [ninja, "-C", build, "-t", "deps"], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, list[str]] = {}
    target = ""
    for line in listing.splitlines():
        if line.startswith("    "):
            path = line.strip()
            if "/native/" in path or "/include/latlab/" in path:
                found[target].append(path)
        elif ":" in line:
            target = line.partition(":")[0]
            found[target] = []
    return found


@cache
def digest_of(path: str) -> bytes:
    """Of a file's text."""
    return hashlib.sha256(Path(path).read_bytes()).digest()


def main() -> int:
    """Exit status 1 when any file has a finding."""
    tidy, build = Path(sys.argv[1]), Path(sys.argv[2])
    headers = dependencies(tidy.with_name("ninja").absolute(), build)
    entries = [
        e for e in json.loads((build / "compile_commands.json").read_text()) if "/native/" in e["file"]
    ]

    def check(entry: dict[str, str]) -> int:
        stamp_of = hashlib.sha256(digest_of(".clang-tidy"))
        used = headers.get(os.path.relpath(entry["output"], build))
        # An object that was never built has no list: it is checked every time.
        for path in sorted(used or []):
            stamp_of.update(digest_of(str((build / path).resolve())))
        stamp = build / "tidy" / f"{Path(entry['file']).name}-{stamp_of.hexdigest()[:24]}"
        if used and stamp.exists():
            return 0
        # The compiler may be another than clang, with warnings that clang doesn't know.
        known = "--extra-arg=-Wno-unknown-warning-option"
        command = [tidy, "-p", str(build), "--quiet", known, entry["file"]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout, done.stderr, sep="\n", flush=True)
            return 1
        stamp.parent.mkdir(exist_ok=True)
        stamp.touch()
        return 0

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return max(pool.map(check, entries), default=0)


if __name__ == "__main__":
    sys.exit(main())
