"""Puts the fragments of changelog.d into CHANGELOG.md, as towncrier words them, and removes them.

Usage: changelog.py VERSION

A version that is built again gets what came since.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_FIRST = "<!-- newest first -->\n"


def joined(text: str) -> str:
    """The text with one section a version, areas in order, the newest date in its heading."""
    head, *parts = re.split(r"^(?=## )", text, flags=re.M)
    sections: dict[str, tuple[str, dict[str, str]]] = {}
    for part in parts:
        heading, _, body = part.partition("\n")
        version = heading.split()[1]
        title, areas = sections.setdefault(version, (heading, {}))
        for area in re.split(r"^(?=### )", body, flags=re.M)[1:]:
            name, _, lines = area.partition("\n")
            areas[name] = f"{areas[name]}\n{lines.strip()}" if name in areas else lines.strip()
        sections[version] = (title, areas)
    for heading, areas in sections.values():
        told = "\n\n".join(f"{name}\n\n{areas[name]}" for name in sorted(areas))
        head += f"{heading}\n\n{told}\n\n"
    return head.rstrip() + "\n"


def main(version: str) -> None:
    """Build, write, remove."""
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", version]
    draft = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    section = draft[draft.index("## ") :]
    path = Path("CHANGELOG.md")
    text = path.read_text(encoding="utf-8").replace(_FIRST, f"{_FIRST}\n{section}\n", 1)
    path.write_text(joined(text), encoding="utf-8")
    for fragment in Path("changelog.d").glob("*.md"):
        fragment.unlink()


if __name__ == "__main__":
    main(sys.argv[1])
