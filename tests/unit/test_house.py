"""What CONTRIBUTING says of files and folders, held."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.files.tables import table_of

ROOT = Path(__file__).parents[2]
CODE = (".py", ".c", ".cpp", ".h", ".hpp", ".sh")
MOST_LINES = 400
MOST_MODULES = 12


def tracked() -> list[Path]:
    """The code that git tracks; without git, as in a source distribution, there is nothing to hold."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.suffix in CODE and path.exists()]


def first_comment(text: str) -> str:
    """A module's docstring, or the comment that a file begins with (behind the header that it implements)."""
    if text.startswith('"""'):
        return text.split('"""')[1]
    lines = text.splitlines()
    while lines and (not lines[0] or lines[0].startswith("#")):
        lines.pop(0)
    comment: list[str] = []
    for line in lines:
        if not line.startswith("//"):
            break
        comment.append(line)
    return "\n".join(comment)


def test_a_file_of_more_than_400_lines_says_why_in_its_first_comment() -> None:
    silent = []
    for path in tracked():
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > MOST_LINES and "Over 400 lines: " not in first_comment(text):
            silent.append(str(path.relative_to(ROOT)))
    assert silent == []


def test_a_package_has_at_most_twelve_modules() -> None:
    package = ROOT / "src" / "latlab"
    modules = Counter(
        path.parent for path in tracked() if package in path.parents and path.stem != "__init__"
    )
    crowded = {str(folder.relative_to(ROOT)): n for folder, n in modules.items() if n > MOST_MODULES}
    assert crowded == {}


test_the_first_comment_is_what_a_file_begins_with = table_of(
    first_comment,
    {
        '"""What it is.\n\nOver 400 lines: why.\n"""\nimport os\n': "What it is.\n\nOver 400 lines: why.\n",
        '#include "a.hpp"\n\n// Over 400 lines: why.\n\n// of a function\n': "// Over 400 lines: why.",
        "int x;\n// Over 400 lines: why.\n": "",
    },
)
