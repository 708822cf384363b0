"""The components of the Python systems; LATLAB_FASTER makes them really faster by that part."""

import hashlib
import json
import os
import re
import string
import textwrap
import time

LEFT = 1.0 - float(os.environ.get("LATLAB_FASTER", "0"))
_DATA = bytes(1 << 20)
_ROW = string.Template("<tr><td>$name</td><td>$price</td></tr>")
_WORD = re.compile(r"\b(\w+)(er|ing)\b")
_RECORD = {"name": "bolt", "prices": list(range(40)), "sides": ["bid", "ask"] * 10}
_ARRAY = bytearray(16 << 20)
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


def encode(records: int) -> int:
    """Documents that are written as text, in C."""
    for _ in range(int(records * LEFT)):
        json.dumps(_RECORD)
    return 1


def substitute(lines: int) -> int:
    """Words that are looked for and replaced."""
    for _ in range(int(lines * LEFT)):
        _WORD.sub(r"\2-\1", _TEXT)
    return 1


def lines(count: int) -> str:
    """Text made by formats; its caller writes it."""
    left = int(count * LEFT)
    found = "".join(f"{i:>8}|{i * 0.5:10.3f}|{'bid' if i & 1 else 'ask'}\n" for i in range(left))
    return found[:64]


def copy(size: int) -> int:
    """Memory that is copied: more than the caches hold."""
    left = int(size * LEFT)
    view = memoryview(_ARRAY)
    view[:left] = view[len(_ARRAY) - left :]
    return 1


def ask(wait_s: float) -> int:
    """An answer that is waited for, and a little work with it."""
    time.sleep(wait_s * LEFT)
    total = 0
    for i in range(4_000):
        total += i & 7
    return 1
