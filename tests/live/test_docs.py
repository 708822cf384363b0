"""Every command in the documentation works: fenced ```console blocks are run, page by page, in a folder of
their own.

A block's lines that begin with `$ ` are commands and `> ` continues one; the rest is output, which is
compared only after a comment `<!-- output compared -->`. In tutorials, which are pasted to the letter, whole
```sh blocks are commands. A block after `<!-- not run: reason -->` is not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
# Its commands end with 0 on a machine that others leave alone, or within a time that they ask for.
ALONE = {"docs/how-to/forecast-a-gain.md", "docs/how-to/measure-messaging.md"}
# Nobody judges here how narrow an interval is: as much as it takes to go through every step.
SHORTER = {"diagnose --apply 50 --budget 90": "diagnose --apply 50 --budget 30"}
_FENCE = re.compile(r"^(?P<indent> *)```console\s*$")
_PASTED = re.compile(r"^(?P<indent> *)```sh\s*$")
_NOT_RUN = re.compile(r"<!--\s*not run:\s*(?P<reason>.+?)\s*-->")
_COMPARED = re.compile(r"<!--\s*output compared\s*-->")


@dataclass(frozen=True)
class Block:
    line: int
    commands: tuple[str, ...]
    output: str
    compared: bool
    not_run: str | None


def blocks(text: str, pasted: bool = False) -> Iterator[Block]:
    """The blocks of a page; `pasted`: those of shell, too, which hold commands and nothing else."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        whole = pasted and lines[number].strip() == "```sh"
        fence = fence or (_PASTED.match(lines[number]) if pasted else None)
        number += 1
        if not fence:
            continue
        begin, body = number, []
        while number < len(lines) and lines[number].strip() != "```":
            body.append(lines[number][len(fence["indent"]) :])
            number += 1
        before = next((line for line in reversed(lines[: begin - 1]) if line.strip()), "")
        why = _NOT_RUN.search(before)
        commands: list[str] = ["\n".join(body)] if whole else []
        for line in body:
            if whole:
                break
            if line.startswith("$ "):
                commands.append(line[2:])
            elif line.startswith("> ") and commands:
                commands[-1] += "\n" + line[2:]
        output = "" if whole else "\n".join(line for line in body if not line.startswith(("$ ", "> ")))
        yield Block(
            begin, tuple(commands), output, bool(_COMPARED.search(before)), why["reason"] if why else None
        )


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands(page: Path) -> list[Block]:
    """The blocks of a page that are run."""
    found = blocks(page.read_text(encoding="utf-8"), pasted=page.parent.name == "tutorials")
    return [block for block in found if block.not_run is None and block.commands]


def shorter(command: str) -> str:
    for long, short in SHORTER.items():
        command = command.replace(long, short)
    return command


def test_what_is_run_for_less_time_stands_in_a_page() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [long for long in SHORTER if long not in text] == []


def test_blocks_are_told_apart_from_text_and_from_output() -> None:
    text = (
        "# Page\n```console\n$ echo a\na\n$ printf '%s' \\\n> b\n```\n\n"
        "<!-- not run: needs root -->\n```console\n$ reboot\n```\n"
        "<!-- output compared -->\n\n```console\n$ echo c\nc\n```\n```python\n$ no\n```\n"
    )
    found = list(blocks(text))
    assert [block.commands for block in found] == [("echo a", "printf '%s' \\\nb"), ("reboot",), ("echo c",)]
    assert [block.not_run for block in found] == [None, "needs root", None]
    assert [(block.compared, block.output) for block in found][2] == (True, "c")


def test_a_tutorials_shell_blocks_are_commands_as_they_stand() -> None:
    text = "```sh\ncat > a <<'E'\nb\nE\nls\n```\n```text\na\n```\n"
    text += "<!-- not run: no network -->\n```sh\npip\n```\n"
    found = list(blocks(text, pasted=True))
    assert [block.commands for block in found] == [("cat > a <<'E'\nb\nE\nls",), ("pip",)]
    assert [block.not_run for block in found] == [None, "no network"]
    assert list(blocks(text)) == []


def pages() -> Iterator[Any]:
    """Those with commands. What most measure nobody judges, and what publishes is a page's own."""
    for page in PAGES:
        if commands(page):
            marks = () if name_of(page) in ALONE else (pytest.mark.side_by_side,)
            yield pytest.param(page, marks=marks, id=name_of(page))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", list(pages()))
def test_every_command_of_a_page_works(page: Path, tmp_path: Path) -> None:
    run = commands(page)
    folder, counters = tmp_path / "page", tmp_path / "counters"
    folder.mkdir()
    counters.mkdir(mode=0o700)
    # One shell for the page, so that what one command made is there for the next.
    script = ["set -e", "trap 'echo \"line $latlab_line: $BASH_COMMAND\" >&2' ERR"]
    for number, block in enumerate(run):
        script.append(f"latlab_line={block.line}")
        script.append(f"exec >block-{number}.out")
        script += [shorter(command) for command in block.commands]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "NO_COLOR": "1",
        "COLUMNS": "100",
        "LATLAB_COUNTERS": str(counters),
        "LATLAB_ROOT": str(ROOT),
    }
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{name_of(page)}: exit code {done.returncode}\n{done.stderr}"
    for number, block in enumerate(run):
        if block.compared:
            assert (folder / f"block-{number}.out").read_text().rstrip("\n") == block.output
