"""Results as JSON: a schema version first, numpy-safe, and strict (what is not defined is null)."""

from __future__ import annotations

from typing import Any

from latlab.formats import documents
from latlab.formats.documents import dumps

__all__ = ["document", "dumps"]


def document(result: Any, *, schema: int = 1) -> str:
    """A result as JSON text that begins with its schema version.

    Args:
        result: a mapping or a dataclass of whatever `latlab.formats.documents.plain` can write.
        schema: the version of the result's layout; raise it when a key changes its meaning.

    Raises:
        TypeError: for a result that is not a mapping, or that JSON can't say.
    """
    plain = documents.plain(result)
    if not isinstance(plain, dict):
        raise TypeError(f"a JSON result is an object, not a {type(plain).__name__}")
    plain.pop("schema", None)
    return documents.dumps({"schema": schema, **plain}, indent=2)
