"""Rust's names of functions as their source spells them: of its v0 mangling and of the older one.

The grammar of v0 is that of RFC 2603 (https://rust-lang.github.io/rfcs/2603-rust-symbol-name-mangling-v0.html).
What tells two functions of one name apart (hashes, crates' numbers) is left out, generic arguments too.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable

__all__ = ["rust_name"]

_HASH = re.compile(r"::h[0-9a-f]{16}$")
_ESCAPES = {
    "$LT$": "<", "$GT$": ">", "$RF$": "&", "$BP$": "*", "$C$": ",", "$LP$": "(", "$RP$": ")",
    "$u20$": " ", "$u7b$": "{", "$u7d$": "}", "$u5b$": "[", "$u5d$": "]", "..": "::",
}  # fmt: skip
_DIGITS = string.digits + string.ascii_lowercase + string.ascii_uppercase
_BASIC = {
    "a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8", "i": "isize",
    "j": "usize", "l": "i32", "m": "u32", "n": "i128", "o": "u128", "s": "i16", "t": "u16", "u": "()",
    "v": "...", "x": "i64", "y": "u64", "z": "!", "p": "_",
}  # fmt: skip
_DEEPEST = 64


def rust_name(name: str) -> str:
    """The name of a function in Rust; any other name as it is.

    Args:
        name: as the symbol table has it, or after C++'s demangler, which undoes the older mangling in part.
    """
    if name.startswith("_R") and name[2:3].isupper():
        try:
            return _Reader(name[2:]).path()
        except (IndexError, ValueError, RecursionError):
            return name
    if _HASH.search(name):
        name = _HASH.sub("", name).removeprefix("_")
        for escape, meant in _ESCAPES.items():
            name = name.replace(escape, meant)
    return name


class _Reader:
    """Reads a mangled name from its left; a place outside of it is an IndexError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def take(self) -> str:
        one = self.text[self.at]
        self.at += 1
        return one

    def eat(self, one: str) -> bool:
        found = self.text[self.at : self.at + 1] == one
        self.at += found
        return found

    def base62(self) -> int:
        if self.eat("_"):
            return 0
        value = 0
        while not self.eat("_"):
            value = value * 62 + _DIGITS.index(self.take())
        return value + 1

    def back(self) -> int:
        """Where a back reference points to, which is before itself."""
        begin = self.at - 1
        target = self.base62()
        self.depth += 1
        if target >= begin or self.depth > _DEEPEST:
            raise ValueError(self.text)
        return target

    def identifier(self) -> tuple[str, int]:
        number = self.base62() + 1 if self.eat("s") else 0
        self.eat("u")  # punycode: as it stands
        digits = ""
        while self.text[self.at : self.at + 1].isdigit():
            digits += self.take()
            if digits == "0":
                break
        self.eat("_")
        size = int(digits)
        name = self.text[self.at : self.at + size]
        if len(name) < size:
            raise IndexError(self.at)
        self.at += size
        return name, number

    def path(self) -> str:
        tag = self.take()
        if tag == "C":
            return self.identifier()[0]
        if tag == "N":
            space = self.take()
            outer = self.path()
            name, number = self.identifier()
            if space.islower():
                return f"{outer}::{name}" if name else outer
            kind = {"C": "closure", "S": "shim"}.get(space, space)
            return f"{outer}::{{{kind}{':' + name if name else ''}#{number}}}"
        if tag in "MX":
            if self.eat("s"):
                self.base62()
            self.path()
        if tag == "M":
            return f"<{self.type()}>"
        if tag in "XY":
            kind = self.type()
            return f"<{kind} as {self.path()}>"
        if tag == "I":
            name = self.path()
            while not self.eat("E"):
                self.argument()
            return name
        if tag == "B":
            return self.again(self.path)
        raise ValueError(tag)

    def again(self, read: Callable[[], str]) -> str:
        target = self.back()
        at, self.at = self.at, target
        found = read()
        self.at = at
        self.depth -= 1
        return found

    def argument(self) -> None:
        if self.eat("L"):
            self.base62()
        elif self.eat("K"):
            self.constant()
        else:
            self.type()

    def constant(self) -> str:
        if self.eat("B"):
            return self.again(self.constant)
        if self.eat("p"):
            return "_"
        self.type()
        begin = self.at
        while self.take() != "_":
            pass
        return self.text[begin : self.at - 1]

    def type(self) -> str:
        tag = self.take()
        if tag in _BASIC:
            return _BASIC[tag]
        if tag == "B":
            return self.again(self.type)
        if tag == "A":
            inner = self.type()
            return f"[{inner}; {self.constant()}]"
        if tag == "S":
            return f"[{self.type()}]"
        if tag == "T":
            parts = []
            while not self.eat("E"):
                parts.append(self.type())
            return f"({', '.join(parts)})"
        if tag in "RQ":
            if self.eat("L"):
                self.base62()
            return ("&" if tag == "R" else "&mut ") + self.type()
        if tag in "PO":
            return ("*const " if tag == "P" else "*mut ") + self.type()
        if tag == "F":
            return self.signature()
        if tag == "D":
            return self.bounds()
        self.at -= 1
        return self.path()

    def signature(self) -> str:
        self.binder()
        self.eat("U")
        if self.eat("K") and not self.eat("C"):
            self.identifier()
        parts = []
        while not self.eat("E"):
            parts.append(self.type())
        result = self.type()
        return f"fn({', '.join(parts)})" + ("" if result == "()" else f" -> {result}")

    def bounds(self) -> str:
        self.binder()
        names = []
        while not self.eat("E"):
            names.append(self.path())
            while self.eat("p"):
                self.identifier()
                self.type()
        if self.eat("L"):
            self.base62()
        return "dyn " + " + ".join(names)

    def binder(self) -> None:
        if self.eat("G"):
            self.base62()
