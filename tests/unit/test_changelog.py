"""Every fragment of news reaches the change log: its name tells its area, and it says something."""

import re
from pathlib import Path

import pytest

FRAGMENTS = Path(__file__).parents[2] / "changelog.d"


@pytest.mark.parametrize("fragment", sorted(FRAGMENTS.iterdir()), ids=lambda path: path.name)
def test_a_fragment_is_named_by_its_area_and_holds_a_line(fragment: Path) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z0-9-]+)?\.md", fragment.name)
    assert fragment.read_text(encoding="utf-8").strip()
