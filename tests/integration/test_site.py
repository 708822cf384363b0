"""The documentation site, the man pages and the completion, as far as they can be checked without a browser."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from latlab.cli._main import COMMANDS

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    broken = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]

    assert broken == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "latlab", "completion", shell],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert f"_LATLAB_COMPLETE={shell}_source" in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "latlab", command, "--help"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Usage: python -m latlab {command}") or f"latlab {command}" in done.stdout
