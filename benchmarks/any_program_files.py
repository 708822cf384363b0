"""Programs as they lie in a folder, one file each, whose first line says what limits them.

    // limit: lock,thread | regular expression for the name | quota=0.4 pinned

`limit: silent |` says that nothing may be named. What isn't installed to build or run one leaves it out.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.any_program_cases import Case

FOLDER = Path(__file__).parent / "any_program_files"
HEAD = re.compile(r"\W+limit: (?P<kinds>[\w,]+) \|(?P<name>[^\n]*?)(?:\| (?P<options>[\w=. ]+))?$")
BUILD = {
    ".c": ("gcc", "-O2", "-g", "-pthread", "{file}", "-o", "{made}", "-lm"),
    ".cpp": ("g++", "-std=c++20", "-O2", "-g", "-pthread", "{file}", "-o", "{made}"),
    ".rs": ("rustc", "-O", "-g", "-C", "symbol-mangling-version=v0", "{file}", "-o", "{made}"),
    ".java": ("javac", "-d", "{folder}", "{file}"),
    ".go": ("go", "build", "-o", "{made}", "{file}"),
}
RUN = {
    ".py": (sys.executable, "{file}"),
    ".sh": ("bash", "{file}"),
    ".js": ("node", "{file}"),
    ".pl": ("perl", "{file}"),
    ".rb": ("ruby", "{file}"),
    ".java": ("java", "-cp", "{folder}", "{stem}"),
}


def programs(folder: Path, made_in: Path) -> Iterator[Case]:
    for file in sorted(folder.iterdir()):
        head = head_of(file) if file.is_file() else None
        if head is not None:
            yield case_of(file, head, made_in)


def head_of(file: Path) -> re.Match[str] | None:
    with file.open(encoding="utf-8") as lines:
        first = lines.readline()
        return HEAD.match(lines.readline() if first.startswith("#!") else first)


def fresh(made: Path, file: Path) -> bool:
    return made.exists() and made.stat().st_mtime >= file.stat().st_mtime


def case_of(file: Path, head: re.Match[str], made_in: Path) -> Case:
    places = {"file": str(file), "stem": file.stem, "folder": str(made_in), "made": str(made_in / file.stem)}
    build = [word.format(**places) for word in BUILD.get(file.suffix, ())]
    run = [word.format(**places) for word in RUN.get(file.suffix, ("{made}",))]
    needs = tuple(tool for tool in (*build[:1], *run[:1]) if "/" not in tool)
    if file.suffix == ".go":  # what several share is compiled with each: files that say nothing of a limit
        build += [str(other) for other in sorted(file.parent.glob("*.go")) if head_of(other) is None]
    if build and all(shutil.which(tool) for tool in needs) and not fresh(made_in / file.stem, file):
        subprocess.run(build, check=True)
        (made_in / file.stem).touch()
    options = dict(word.partition("=")[::2] for word in (head["options"] or "").split())
    kinds = tuple(head["kinds"].split(","))
    return Case(
        file.name, (*run, "{seconds}"), tuple(kind for kind in kinds if kind != "silent"),
        head["name"].strip(),
        silent="silent" in kinds, quota=float(options["quota"]) if "quota" in options else None,
        pinned="pinned" in options, needs=needs,
    )  # fmt: skip
