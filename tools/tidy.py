"""Run clang-tidy over the core, its tests and its programs: one process a CPU, changed files only.

clang-tidy takes seconds a file, so a file that was clean is not checked again until its own text, a header
that it includes, or the configuration changes. The compiler knows which headers those are: nothing need be
built.
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path


def dependencies(entry: dict[str, str]) -> list[str]:
    """The files of ours that an object is compiled from."""
    command = shlex.split(entry["command"])
    at = command.index("-o")
    command = [*command[:at], *command[at + 2 :], "-MM"]
    told = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=True).stdout
    used = shlex.split(told.partition(":")[2].replace("\\\n", " "))
    return sorted(path for path in used if "/native/" in path or "/include/latlab/" in path)


@cache
def digest_of(path: str) -> bytes:
    """Of a file's text."""
    return hashlib.sha256(Path(path).read_bytes()).digest()


def main() -> int:
    """Exit status 1 when any file has a finding."""
    tidy, build = Path(sys.argv[1]), Path(sys.argv[2])
    entries = [
        e for e in json.loads((build / "compile_commands.json").read_text()) if "/native/" in e["file"]
    ]

    configured = sorted(map(str, (Path(".clang-tidy"), *Path("native").rglob(".clang-tidy"))))

    def check(entry: dict[str, str]) -> int:
        stamp_of = hashlib.sha256()
        for path in (*configured, *dependencies(entry)):
            stamp_of.update(digest_of(path))
        stamp = build / "tidy" / f"{Path(entry['file']).name}-{stamp_of.hexdigest()[:24]}"
        if stamp.exists():
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

    # The largest first: what is left for the end is short, and all CPUs work until then.
    entries.sort(key=lambda entry: Path(entry["file"]).stat().st_size, reverse=True)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return max(pool.map(check, entries), default=0)


if __name__ == "__main__":
    sys.exit(main())
