"""Every fragment of news reaches the change log: its name tells its area, and it says something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.files.started import module_of

FRAGMENTS = Path(__file__).parents[2] / "changelog.d"


@pytest.mark.parametrize("fragment", sorted(FRAGMENTS.glob("*")), ids=lambda path: path.name)
def test_a_fragment_is_named_by_its_area_and_holds_a_line(fragment: Path) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z0-9-]+)?\.md", fragment.name)
    assert fragment.read_text(encoding="utf-8").strip()


OLD = """# What changed

<!-- newest first -->

## 1.0 (2026-01-01)

### bench

- one

## 0.9 (2025-01-01)

### bench

- none
"""
NEW = "## 1.0 (2026-01-02)\n\n### bench\n\n- two\n\n### cli\n\n- three\n\n"


def test_a_version_that_is_built_again_gets_what_came_since() -> None:
    module = module_of(FRAGMENTS.parent / "tools/changelog.py")
    found = module.joined(OLD.replace("## 1.0", NEW + "## 1.0", 1))
    assert found.count("## 1.0 ") == 1
    assert "### bench\n\n- two\n- one\n\n### cli\n\n- three\n\n## 0.9" in found
    assert module.joined(found) == found
