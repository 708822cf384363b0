"""The documentation's links, the completion, and that every command explains itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.files.started import latlab

from latlab.cli._main import COMMANDS

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")


PAGES = sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    broken = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]

    assert broken == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(shell: str) -> None:
    done = latlab("completion", shell)

    assert done.returncode == 0, done.stderr
    assert f"_LATLAB_COMPLETE={shell}_source" in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    done = latlab(command, "--help")

    assert done.returncode == 0, done.stderr
    assert f"latlab {command}" in done.stdout
