"""Checks of TOML documents that refuse by name what they don't understand: file, key, what it may hold."""

from __future__ import annotations

import dataclasses
import os
import tomllib
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from latlab.errors import InputError
from latlab.formats.trusted import read_file

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["as_table", "checked", "filled", "member", "only", "read_document", "table"]

_MOST_BYTES = 16 << 20  # of a file that somebody wrote by hand
_T = TypeVar("_T", bound="DataclassInstance")
_LARGEST = {"count": 64, "workers": 64, "per_book": 64, "capacity": 1 << 22, "pool_capacity": 1 << 22}


def read_document(path: str | os.PathLike[str], *, remedy: str) -> dict[str, Any]:
    """A TOML file as nested tables.

    Raises:
        InputError: that names the file and the offset or line.
    """
    try:
        return tomllib.loads(read_file(path, _MOST_BYTES, remedy=remedy).decode("utf-8"))
    except OSError as error:
        raise InputError(path, f"can't be read ({error.strerror})", remedy=remedy) from error
    except UnicodeDecodeError as error:
        raise InputError(path, "is not UTF-8 text", place=f"offset {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(path, f"is not valid TOML: {error}", remedy="see examples/trading.toml") from error


def only(values: Mapping[str, Any], known: set[str], source: str, place: str) -> None:
    """Refuse a key that is not known."""
    for key in values:
        if key not in known:
            where = f"{place}.{key}" if place else key
            raise InputError(source, "unknown key", place=where, remedy=f"known: {', '.join(sorted(known))}")


def member(name: str, known: tuple[str, ...], source: str, place: str, what: str) -> None:
    """Refuse a name that is none of those known."""
    if name not in known:
        raise InputError(source, f"unknown {what}", place=place, remedy=f"known: {', '.join(known)}")


def as_table(value: Any, source: str, place: str) -> Mapping[str, Any]:
    """The value, which must be a table."""
    if not isinstance(value, Mapping):
        raise InputError(source, f"must be a table, not {value!r}", place=place)
    return value


def table(document: Mapping[str, Any], name: str, source: str) -> Mapping[str, Any]:
    """The table of that name; empty where it is not given."""
    return as_table(document.get(name, {}), source, name)


def checked(value: Any, kind: Any, source: str, place: str) -> Any:
    """The value, which must be of that type and in the range of its key."""
    if typing.get_origin(kind) is typing.Literal:
        choices = typing.get_args(kind)
        if value not in choices:
            raise InputError(source, f"{value!r} is not one of {', '.join(choices)}", place=place)
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        wanted = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}[kind]
        raise InputError(source, f"must be {wanted}, not {value!r}", place=place)
    key = place.rpartition(".")[2]
    if kind is int and (value < 0 or value > _LARGEST.get(key, 1 << 62)):
        raise InputError(
            source, f"{value} is out of range", place=place, remedy=f"0 to {_LARGEST.get(key, 1 << 62)}"
        )
    if kind is float and not 1e-9 < value < 1e9:
        raise InputError(source, f"{value} is out of range", place=place, remedy="a number above 0")
    return value


def filled(default: _T, values: Mapping[str, Any], source: str, place: str) -> _T:
    """The dataclass with the fields that the table gives, each of its annotated type."""
    kinds = typing.get_type_hints(type(default))
    only(values, set(kinds), source, place)
    given = {key: checked(value, kinds[key], source, f"{place}.{key}") for key, value in values.items()}
    return dataclasses.replace(default, **given)
