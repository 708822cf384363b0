"""Writes the serialisation of a C++ class: a header that `include/latlab/stub.hpp` uses."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from latlab.errors import InputError, MissingExtraError

_STANDARD_OPTION = "-std=c++20"
# What Serial<> of the library covers: its own members aren't looked into.
_STANDARD = {
    "basic_string", "vector", "list", "deque", "set", "multiset", "unordered_set", "map", "unordered_map",
    "pair", "tuple", "variant", "monostate", "optional", "unique_ptr", "shared_ptr", "array", "complex",
    "bitset", "chrono::duration", "chrono::time_point",
}  # fmt: skip
# What only says how such a container does its work.
_HELPERS = {
    "allocator", "pmr::polymorphic_allocator", "less", "greater", "hash", "equal_to", "char_traits",
    "default_delete", "ratio", "chrono::system_clock", "chrono::steady_clock",
    "chrono::_V2::system_clock", "chrono::_V2::steady_clock",
}  # fmt: skip
_STANDARD_NAME = re.compile(r"\bstd::((?:\w+::)*\w+)")


_TRANSPARENT = ("Typedef", "ElaboratedType", "CvQualifiedType")


def _castxml() -> str:
    found = shutil.which("castxml") or shutil.which("castxml", path=str(Path(sys.executable).parent))
    if found is None:
        raise MissingExtraError("castxml", "cxx")
    return found


def _parse(header: Path, options: Sequence[str]) -> dict[str, ET.Element]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out.xml"
        # The same standard for both: castxml reads the headers of the compiler that it imitates. <compare>
        # names __float80 where that compiler has it, and castxml's doesn't.
        command = [
            _castxml(), "--castxml-output=1", "--castxml-cc-gnu", "(", "g++", _STANDARD_OPTION, ")",
            "-x", "c++", _STANDARD_OPTION, "-fsized-deallocation", "-U__SIZEOF_FLOAT80__", *options,
            str(header), "-o", str(output),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not output.exists():
            first = next((line for line in done.stderr.splitlines() if "error" in line), "castxml failed")
            raise InputError(header, f"doesn't compile: {first}", remedy="give include folders with -I")
        return {one.attrib["id"]: one for one in ET.parse(output).getroot() if "id" in one.attrib}


class _Writer:
    def __init__(self, header: Path, elements: dict[str, ET.Element]) -> None:
        self.header, self.elements = header, elements
        self.done: set[str] = set()
        self.parts: list[str] = []
        self.marked = 0
        # typedef struct { … } Name: only the typedef has a name.
        self.aliases = {
            self.resolve(one.attrib["type"]).attrib["id"]: one.attrib["name"]
            for one in elements.values()
            if one.tag == "Typedef" and one.attrib["type"] in elements
        }

    def full_name(self, element: ET.Element) -> str:
        outer = self.elements.get(element.attrib.get("context", ""))
        name = element.attrib.get("name", "") or self.aliases.get(element.attrib["id"], "")
        if outer is None or outer.attrib.get("name", "::") == "::":
            return name
        return f"{self.full_name(outer)}::{name}"

    def resolve(self, identifier: str) -> ET.Element:
        """The type behind typedefs and qualifiers."""
        element = self.elements[identifier]
        while element.tag in _TRANSPARENT and element.attrib["type"] in self.elements:
            element = self.elements[element.attrib["type"]]
        return element

    def write(self, element: ET.Element) -> None:
        identifier = element.attrib["id"]
        if identifier in self.done:
            return
        self.done.add(identifier)
        name = self.full_name(element)
        bases = [self.resolve(base.attrib["type"]) for base in element.findall("Base")]
        for base in bases:
            self.write(base)
        members = [
            self.elements[one] for one in element.attrib.get("members", "").split()
            if one in self.elements and self.elements[one].tag == "Field"
        ]  # fmt: skip
        good: list[str] = []
        marked: list[tuple[str, str]] = []
        opened: list[str] = []  # marked ones that what the user writes can reach
        for field in members:
            kind = self.resolve(field.attrib["type"])
            member = field.attrib["name"]
            problem, reachable = self._problem(field, kind, name)
            if problem:
                self.marked += 1
                marked.append((member or "(unnamed)", problem))
                opened += [member] if reachable else []
            else:
                good.append(member)
        self.parts.append(self._text(name, [self.full_name(base) for base in bases], good, marked, opened))

    def _problem(self, field: ET.Element, kind: ET.Element, owner: str) -> tuple[str, bool]:
        """Why a member can't be written and what to do (empty: it can), and whether code can reach it."""
        member = field.attrib["name"]
        if "bits" in field.attrib:
            return "a bit-field has no address: write it with the class's own functions", False
        if not member:
            return "which member of an unnamed union holds can't be known: write the one that does", False
        if kind.tag == "ReferenceType":
            return (
                f"what the reference {owner}::{member} refers to isn't the object's own: keep it out",
                False,
            )
        if _is(field, self.elements, "const"):
            return "it is const, and keeps the value that it was made with", True
        if _is(field, self.elements, "volatile"):
            return "it is volatile: what it holds is somebody else's to write", True
        while kind.tag == "ArrayType":
            if not kind.attrib.get("max", "").isdigit():
                return "how many elements lie behind it can't be known: write its count, then each", False
            kind = self.resolve(kind.attrib["type"])
        if kind.tag in ("PointerType", "MethodType", "OffsetType"):
            return self._pointer(kind, member, owner), True
        if kind.tag == "Union":
            return "which member of a union holds can't be known: write the one that does", True
        if kind.tag in ("Class", "Struct"):
            return self._class(kind), True
        return "", False

    def _class(self, kind: ET.Element) -> str:
        name = self.full_name(kind)
        if not name or name.endswith("::"):
            return "its type has no name: give it one"
        if not name.startswith("std::"):
            self.write(kind)
            return ""
        name = name.replace("__cxx11::", "")
        for found in _STANDARD_NAME.findall(name):
            if found not in _STANDARD and found not in _HELPERS:
                return f"std::{found} has no Serial: write one, or keep the member out"
        if re.search(r"\bbasic_string<(?!char[,>])", name):
            return "only strings of char are written"
        if "*" in name:
            return "it holds pointers, and the extent behind them can't be known: write what they point at"
        if "_ptr<" in name and "[]" in name:
            return "how many elements it owns can't be known: write the count, then each"
        if "unique_ptr<" in name and "default_delete<" not in name and _arguments(name, "unique_ptr") > 1:
            return "it has a deleter of its own: write what it owns"
        return self._inside(kind)

    def _pointer(self, kind: ET.Element, member: str, owner: str) -> str:
        target = self.resolve(kind.attrib["type"]) if "type" in kind.attrib else kind
        if target.tag in ("FunctionType", "MethodType") or kind.tag != "PointerType":
            return f"{owner}::{member} points at code, which has another address in each program: keep it out"
        if target.tag in ("Class", "Struct") and not self.full_name(target).startswith("std::"):
            self.write(target)
        reached = f"value.*open({_space(owner)}_{member}{{}})"
        return (
            f"the extent behind the pointer {owner}::{member} can't be known. One object: const bool there = "
            f"{reached} != nullptr; then Serial<bool>::save(there, out) and, where it is there, "
            f"Serial<...>::save(*({reached}), out). An array: its count first, then each element"
        )

    def _inside(self, kind: ET.Element) -> str:
        """Classes named within a container's template arguments are written too."""
        text = kind.attrib["name"]
        for element in list(self.elements.values()):
            if element.tag not in ("Class", "Struct") or element.attrib.get("incomplete") == "1":
                continue
            name = self.full_name(element)
            if (
                not name
                or name.startswith("std::")
                or not re.search(rf"(?<![\w:]){re.escape(name)}(?![\w:<])", text)
            ):
                continue
            if element.attrib.get("abstract") == "1":
                return f"{name} is abstract, and which class stands behind it can't be known"
            self.write(element)
        return ""

    @staticmethod
    def _text(
        name: str, bases: list[str], good: list[str], marked: list[tuple[str, str]], opened: list[str]
    ) -> str:
        space, type_ = _space(name), f"{_space(name)}_type"
        lines = [
            f"struct {space} {{ friend auto type_of({space}); }};",
            f"template struct OpenType<{name}, {space}>;",
            f"using {type_} = decltype(type_of({space}{{}}))::type;",
        ]
        for field in [*good, *opened]:
            lines += [
                f"struct {space}_{field} {{ friend auto open({space}_{field}); }};",
                f"template struct Open<&{name}::{field}, {space}_{field}>;",
            ]
        lines += ["template <>", f"struct Serial<{type_}> {{"]
        types = [f"Serial<{_space(base)}_type>::layout()" for base in bases]
        types += [f"Serial<Member<{type_}, {space}_{field}>>::layout()" for field in good]
        layout = " + ".join(['std::string("{")', *types, '"}"'])
        lines.append(f"  static std::string layout() {{ return {layout}; }}")
        for action, const, stream in (("save", "const ", "Bytes& out"), ("load", "", "Reader& in")):
            lines.append(
                f"  static void {action}([[maybe_unused]] {const}{type_}& value, "
                f"[[maybe_unused]] {stream}) {{"
            )
            argument = stream.rsplit(" ", 1)[1]
            for base in bases:
                kind = f"{_space(base)}_type"
                # A cast of the old form: it alone reaches a private base.
                lines.append(f"    Serial<{kind}>::{action}(({const}{kind}&)value, {argument});")
            for field in good:
                member = f"Member<{type_}, {space}_{field}>"
                lines.append(f"    Serial<{member}>::{action}(value.*open({space}_{field}{{}}), {argument});")
            for field, problem in marked:
                lines.append(f"    // MARK {field}: {problem}.")
            lines.append("  }")
        return "\n".join([*lines, "};", ""])


def _space(name: str) -> str:
    """What stands for a class in the generated names."""
    return "spec_" + re.sub(r"\W", "_", name)


def _arguments(name: str, template: str) -> int:
    """How many arguments a template is given within a type's name, at its first place."""
    depth, count = 0, 1
    for letter in name[name.index(f"{template}<") + len(template) :]:
        depth += {"<": 1, ">": -1}.get(letter, 0)
        count += letter == "," and depth == 1
        if depth == 0:
            break
    return count


def _is(field: ET.Element, elements: dict[str, ET.Element], qualifier: str) -> bool:
    element = elements[field.attrib["type"]]
    while element.tag in (*_TRANSPARENT, "ArrayType"):
        if element.attrib.get(qualifier) == "1":
            return True
        element = elements[element.attrib["type"]]
    return False


def spec(header: str | Path, name: str, options: Sequence[str] = ()) -> tuple[str, int]:
    """The text of a header that serialises a class with all of its members, private ones included.

    Members and nested types are opened by explicit instantiation, for which C++ waives access
    ([temp.spec]/6): the class stays as it is.

    Args:
        header: that declares the class.
        name: of the class, with its namespaces.
        options: for the compiler, like ``-Iinclude``.

    Returns:
        the text, and how many members it marks as impossible to write.

    Raises:
        MissingExtraError: castxml isn't installed.
        InputError: the header doesn't compile, or has no such class.
    """
    header = Path(header)
    if not header.is_file():
        raise InputError(header, "is not a header")
    elements = _parse(header, options)
    writer = _Writer(header, elements)
    wanted = "".join(name.split())
    found = [
        element for element in elements.values()
        if element.tag in ("Class", "Struct") and "".join(writer.full_name(element).split()) == wanted
        and element.attrib.get("incomplete") != "1"
    ]  # fmt: skip
    if not found:
        raise InputError(header, f"defines no class '{name}'", remedy="write it with its namespaces")
    writer.write(found[0])
    text = "\n".join(
        [
            f"// Written by `latlab stubs spec {header.name} --class {name}`.",
            "#pragma once",
            f'#include "{header.name}"',
            "#include <latlab/stub.hpp>",
            "",
            '#pragma GCC diagnostic ignored "-Wnon-template-friend"',
            "namespace latlab::stub {",
            "#ifndef LATLAB_STUB_OPEN",
            "#define LATLAB_STUB_OPEN",
            "template <auto Pointer, class Tag>",
            "struct Open {",
            "  friend auto open(Tag) { return Pointer; }",
            "};",
            "template <class T, class Tag>",
            "struct OpenType {",
            "  friend auto type_of(Tag) { return std::type_identity<T>{}; }",
            "};",
            "template <class Owner, class Tag>",
            "using Member = std::remove_reference_t<decltype(std::declval<Owner&>().*open(Tag{}))>;",
            "#endif",
            *writer.parts,
            "}  // namespace latlab::stub",
            "",
        ]
    )
    return text, writer.marked
