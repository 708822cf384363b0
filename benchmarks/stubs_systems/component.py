"""The components of the Python systems; LATLAB_FASTER makes them really faster by that part."""

import hashlib
import os
import string
import textwrap

LEFT = 1.0 - float(os.environ.get("LATLAB_FASTER", "0"))
_DATA = bytes(1 << 20)
_ROW = string.Template("<tr><td>$name</td><td>$price</td></tr>")
_TEXT = "What a part would gain that were faster is measured before anybody writes it. " * 4


def compute(n: int) -> int:
    """Pure Python: it holds the global lock."""
    total = 0
    for i in range(int(n * LEFT)):
        total += i & 7
    return 1


def digest(size: int) -> int:
    """It works without the global lock."""
    hashlib.sha256(memoryview(_DATA)[: max(1, int(size * LEFT))]).digest()
    return 1


def render(rows: int) -> int:
    """A table by a template, row by row."""
    for i in range(int(rows * LEFT)):
        _ROW.substitute(name="bolt", price=i)
    return 1


def wrap(paragraphs: int) -> int:
    """Text that is broken into lines."""
    for _ in range(int(paragraphs * LEFT)):
        textwrap.fill(_TEXT, 60)
    return 1
