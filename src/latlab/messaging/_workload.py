"""Workload files: a run's options in TOML, spelled as on the command line; or OpenMessaging's."""

from __future__ import annotations

import os
import tomllib
from typing import Any

from latlab.errors import InputError, UsageError
from latlab.formats.trusted import MOST_TEXT_BYTES, read_file
from latlab.messaging._openmessaging import is_openmessaging, read_openmessaging
from latlab.model.messaging.options import OPTIONS, settings_of
from latlab.model.messaging.results import Settings
from latlab.words import nearest

__all__ = ["load_workload"]

_REMEDY = "give a workload file: TOML, or a workload of the OpenMessaging Benchmark"


def load_workload(path: str | os.PathLike[str], **more: Any) -> Settings:
    """The settings that a workload file asks for.

    Its keys are the options of `latlab messaging run`: `transport = "tcp"`, `rate = 10000`,
    `duration = "10s"`, `fault = ["drop=100"]`, `half = true`. Options of the transport's client are a table:
    `[driver]`, `qos = 1`. A file that ends in .yaml is one of the OpenMessaging Benchmark.

    Args:
        path: of the file.
        more: options that stand above those of the file, by their names with underscores.

    Raises:
        InputError: when it can't be read, is no TOML, or has a key that is no option.
        UsageError: for values that mean nothing.
    """
    try:
        text = read_file(path, MOST_TEXT_BYTES, remedy=_REMEDY).decode("utf-8")
        document = read_openmessaging(path, text) if is_openmessaging(path) else tomllib.loads(text)
    except OSError as error:
        raise InputError(path, f"can't be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        kind = "text" if isinstance(error, UnicodeDecodeError) else "TOML"
        raise InputError(path, f"is not {kind} ({error})") from None
    known = {option.name for option in OPTIONS}
    given = {}
    for key, value in document.items():
        name = key.replace("_", "-")
        if name not in known:
            remedy = f"{nearest(name, known)} keys are the options of 'latlab messaging run'".lstrip()
            raise InputError(path, "is not an option of a run", place=key, remedy=remedy)
        if isinstance(value, dict) and name == "driver":
            value = [f"{option}={_text(one)}" for option, one in value.items()]
        if isinstance(value, dict):
            raise InputError(path, "is a table, and options have values", place=key)
        given[name.replace("-", "_")] = value
    try:
        return settings_of({**given, **{key: value for key, value in more.items() if value is not None}})
    except UsageError as error:
        raise UsageError(f"{os.fspath(path)}: {error}") from None


def _text(value: Any) -> str:
    """A value of the driver's table as `--driver` takes it."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
