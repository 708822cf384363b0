"""How a function becomes a component: by a decorator, or from outside by its name.

This module is loaded into programs under study: it imports nothing heavy.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from latlab._core import stubs_replay
from latlab.errors import UsageError
from latlab.stubs.components import plan as _plan
from latlab.stubs.components.hook import Hook, components, lock

__all__ = ["component", "patch", "register"]


def component(
    name: str | None = None, *, mutates: tuple[str | int, ...] | str = ()
) -> Callable[[Callable[..., Any]], Any]:
    """Make a function or method a component under study.

    Args:
        name: by which traces and studies know it; ``module:qualified.name`` when None.
        mutates: names (or positions) of arguments whose state after the call is part of its function.

    A component that isn't under study costs one more call at C speed.
    """

    def decorate(function: Any) -> Any:
        plain, wrap = _unwrapped(function)
        return wrap(
            register(
                name or f"{plain.__module__}:{plain.__qualname__}",
                plain,
                (mutates,) if isinstance(mutates, str) else tuple(mutates),
            )
        )

    return decorate


def _unwrapped(found: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The function within a method's wrapper, and what wraps another one alike."""
    if isinstance(found, (staticmethod, classmethod)):
        return found.__func__, type(found)
    if isinstance(found, property) and found.fget is not None:
        return found.fget, found.getter
    if isinstance(found, functools.cached_property):
        return found.func, functools.partial(_cached, found.attrname)
    return found, lambda stub: stub


def _cached(name: str | None, stub: Any) -> Any:
    made = functools.cached_property(stub)
    made.__set_name__(object, name or "")
    return made


def register(name: str, function: Callable[..., Any], mutates: tuple[str | int, ...] = ()) -> Any:
    """The callable that stands in for `function`; a plan in the environment takes effect at once."""
    with lock:
        hook = Hook(name, function, mutates)
        components()[name] = hook
        functools.update_wrapper(hook.callable, function)
    _plan.apply(hook)
    return hook.callable


def patch(target: str, module: Any = None) -> Hook:
    """Put a component in the place of ``module:Class.method`` without touching its code.

    Args:
        target: its name.
        module: where it is, if that isn't the module of that name: a script is ``__main__``.

    Raises:
        UsageError: the name isn't of that form, or there is no such function.
    """
    import importlib

    module_name, separator, path = target.partition(":")
    if not separator or not path:
        raise UsageError(
            f"'{target}' is not a component", remedy="write module:function or module:Class.method"
        )
    try:
        module = module or sys.modules.get(module_name) or importlib.import_module(module_name)
        *outer, last = path.split(".")
        owner: Any = functools.reduce(getattr, outer, module)
        # As it is written, and not bound; of a class perhaps in one that it inherits from.
        found = next(one.__dict__[last] for one in getattr(owner, "__mro__", (owner,)) if last in vars(one))
    except StopIteration:
        raise UsageError(f"there is no '{target}' ({path} is not in {module_name})") from None
    except (ImportError, AttributeError, KeyError) as error:
        raise UsageError(f"there is no '{target}' ({error})") from error
    if isinstance(found, stubs_replay.Component):
        return next(hook for hook in components().values() if hook.callable is found)
    plain, wrap = _unwrapped(found)
    if not callable(plain):
        raise UsageError(f"'{target}' can't be called")
    if isinstance(plain, type):
        raise UsageError(
            f"'{target}' is a class",
            remedy=f"name what it does: {target}.__init__, or another of its methods",
        )
    inherited = last not in vars(owner)
    try:
        setattr(owner, last, found)  # what can't be replaced is told before anything is registered
    except (TypeError, AttributeError) as error:
        raise UsageError(
            f"'{target}' can't be replaced: {error}",
            remedy="make a function in Python that calls it the component",
        ) from None
    holders = _holders(found, vars(owner)) if not isinstance(owner, type) else []
    stub = register(target, plain)
    setattr(owner, last, wrap(stub))
    for holder in holders:
        _exchange(holder, found, stub)
    hook = components()[target]

    def restore() -> None:
        for holder in holders:
            _exchange(holder, stub, found)
        if inherited:
            delattr(owner, last)
        else:
            setattr(owner, last, found)

    hook.restore = restore  # type: ignore[attr-defined]
    return hook


def _holders(function: Any, space: dict[str, Any]) -> list[Any]:
    """What else holds a function when its module has just come in: tables, partials, other modules."""
    import gc

    def exchangeable(one: Any) -> bool:
        if isinstance(one, dict):  # but not a class's, which must not be written behind its back
            return one is not space and ("__module__" not in one or "__name__" in one)
        return isinstance(one, (list, functools.partial))

    return list(filter(exchangeable, gc.get_referrers(function)))


def _exchange(holder: Any, old: Any, new: Any) -> None:
    """Put one function in the place of another."""
    if isinstance(holder, functools.partial):
        if holder.func is old:
            state = (new, holder.args, holder.keywords, vars(holder))
            holder.__setstate__(state)  # type: ignore[attr-defined]  # not in typeshed
        return
    for key, one in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
        # What a wrapper says it wraps stays what it wraps.
        if one is old and key != "__wrapped__":
            holder[key] = new
