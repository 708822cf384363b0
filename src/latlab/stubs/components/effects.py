"""Writes a recorded state over an object that exists: in place, so that whoever holds it sees the change."""

from __future__ import annotations

from collections import deque
from typing import Any

from latlab.stubs.components.values import is_immutable


class AmbiguousStateError(ValueError):
    """An object was given, and None was recorded for it: neither keeping nor deleting it can be right."""


def overwrite(target: Any, state: Any) -> Any:
    """Make `target` equal to `state`, in place where the type allows it.

    The four cases: an object and data overwrite it, no object and data return the data, neither is None,
    and an object without data is refused.

    Returns:
        the object to use: `target`, or `state` where there was none or its type has changed.

    Raises:
        AmbiguousStateError: an object is given and None was recorded.
    """
    if target is None:
        return state
    if state is None:
        raise AmbiguousStateError(
            f"an object of type {type(target).__name__} is given, and nothing was recorded"
        )
    return _overwrite(target, state, {})


def _overwrite(target: Any, state: Any, seen: dict[int, Any]) -> Any:
    if target is state or type(target) is not type(state):
        return state
    if id(state) in seen:
        return seen[id(state)]
    if isinstance(target, tuple):
        parts = [_overwrite(one, new, seen) for one, new in zip(target, state, strict=False)]
        kept = [
            one is old or (is_immutable(old) and type(old) is type(one) and old == one)
            for one, old in zip(parts, target, strict=False)
        ]
        return target if len(target) == len(state) and all(kept) else state
    if isinstance(target, (list, bytearray, deque, dict, set)) or type(target).__module__ == "array":
        seen[id(state)] = target
        _overwrite_items(target, state, seen)
        if not hasattr(target, "__dict__"):  # and no subclass with members of its own
            return target
    if hasattr(target, "__array_interface__") and getattr(target, "shape", None) == state.shape:
        if target.dtype != state.dtype or not target.flags.writeable:
            return state
        target[...] = state
        return target
    if hasattr(target, "__next__") and hasattr(target, "__length_hint__"):
        # Of a list, a range, …: what is left of it tells how far the component went.
        for _ in range(target.__length_hint__() - state.__length_hint__()):
            next(target)
        return target if target.__length_hint__() == state.__length_hint__() else state
    names = [n for kind in type(target).__mro__ for n in _slots(kind)]
    # What has a state in C, and a way of its own to give it out: random numbers, numpy's too, io.StringIO.
    if hasattr(target, "bit_generator"):
        target.bit_generator.state = state.bit_generator.state
        return target
    if hasattr(target, "set_state") and hasattr(state, "get_state"):
        target.set_state(state.get_state())
        return target
    if hasattr(target, "__setstate__") and (
        (not names and hasattr(type(target), "getstate")) or type(target).__module__ == "_io"
    ):
        target.__setstate__(state.__getstate__())
        return target
    if not hasattr(target, "__dict__") and not names:
        return state
    seen[id(state)] = target
    if hasattr(target, "__dict__"):
        _overwrite(target.__dict__, state.__dict__, seen)
    for name in names:
        if hasattr(state, name):
            before = getattr(target, name, None)
            object.__setattr__(target, name, _overwrite(before, getattr(state, name), seen))
        elif hasattr(target, name):
            object.__delattr__(target, name)
    return target


def _overwrite_items(target: Any, state: Any, seen: dict[int, Any]) -> None:
    if isinstance(target, dict):
        members = {
            key: _overwrite(target[key], one, seen) if key in target else one for key, one in state.items()
        }
        target.clear()
        target.update(members)
    elif isinstance(target, set):
        target.clear()
        target.update(state)
    elif isinstance(target, (list, deque)):
        old = list(target)
        new = [_overwrite(old[i], one, seen) if i < len(old) else one for i, one in enumerate(state)]
        target.clear()
        target.extend(new)
    else:
        target[:] = state


def _slots(kind: type) -> list[str]:
    slots = kind.__dict__.get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    # Private slots are stored under their mangled names.
    return [
        f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
        for name in names
        if name not in ("__dict__", "__weakref__")
    ]
