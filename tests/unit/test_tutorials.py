"""A tutorial shows what its commands print, and ends with what was found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PICTURE = re.compile(r"^!\[([^]]+)\]\(([^)]+)\)$", re.M)
TUTORIALS = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.md"))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_that_promises_outputs_shows_them_and_a_finding(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert "the outputs below are real" in text
    assert "```text\n" in text
    assert "**The finding:**" in text


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_has_a_picture_that_is_there_and_is_said_in_words(page: Path) -> None:
    pictures = PICTURE.findall(page.read_text(encoding="utf-8"))

    assert pictures
    for words, file in pictures:
        assert (len(words) > 20, (page.parent / file).is_file()) == (True, True)
