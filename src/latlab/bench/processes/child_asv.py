"""Benchmarks of airspeed velocity, as `child` measures them; its sibling, imported by nothing else."""

import types
from typing import Any


class Skipped(Exception):
    """A benchmark's setup raised NotImplementedError, which to airspeed velocity is no failure."""


class Asv:
    """A benchmark as airspeed velocity has it: time_*, a function or a method, with setup and params.

    Its `setup` runs once a process, and before each measurement where `number = 1` asks for that.
    """

    def __init__(self, module: types.ModuleType, owner: Any, name: str) -> None:
        self.module, self.owner, self.name = module, owner, name
        self.of = getattr(module if owner is None else owner, name)

    def attribute(self, name: str) -> Any:
        """What is declared: on the function or method first, then on its class."""
        return getattr(self.of, name, getattr(self.owner, name, None))

    def choices(self) -> "dict[str, list[Any]]":
        """The values of each parameter by its name."""
        params = list(self.attribute("params") or ())
        if params and not isinstance(params[0], (list, tuple)):
            params = [params]
        names = list(self.attribute("param_names") or ())
        names += [f"param{i + 1}" for i in range(len(names), len(params))]
        return dict(zip(names, map(list, params)))  # noqa: B905 - there may be more names

    def listed(self) -> "dict[str, list[Any]]":
        """The same, as they are written on a command line."""
        return {
            name: [v if isinstance(v, (int, float, str)) else repr(v) for v in values]
            for name, values in self.choices().items()
        }

    def ready(self, given: "dict[str, Any]") -> "tuple[Any, Any, Any]":
        """(what is measured, what runs before, what after each) with these values of the parameters."""
        import functools

        values: list[Any] = []
        for name, choices in self.choices().items():
            wanted = given.get(name, choices[0])
            values.append(next((v for v in choices if v == wanted or repr(v) == str(wanted)), wanted))
        instance = None if self.owner is None else self.owner()
        holder = self.module if instance is None else instance
        cache = getattr(self.of, "setup_cache", None) or getattr(holder, "setup_cache", None)
        if cache is not None:
            values.insert(0, cache())
        run = getattr(holder, self.name)

        def all_of(what: str) -> Any:
            each = [getattr(self.module, what, None)]
            each.append(getattr(self.of if instance is None else instance, what, None))
            found = [functools.partial(one, *values) for one in each if one is not None]

            def call() -> None:
                try:
                    for one in found:
                        one()
                except NotImplementedError as error:
                    if what != "setup":
                        raise
                    raise Skipped(str(error)) from error

            return call if found else None

        set_up, tear_down = all_of("setup"), all_of("teardown")
        measured = functools.partial(run, *values) if values else run
        if self.attribute("number") == 1:
            return measured, set_up, tear_down
        if set_up is not None:
            set_up()
        return measured, None, None


def asv(module: types.ModuleType) -> "dict[str, Asv]":
    """The file's benchmarks of that kind, by name."""
    out = {}
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        if isinstance(thing, type):
            methods = [m for m in dir(thing) if m.startswith("time_") and callable(getattr(thing, m))]
            out.update({f"{name}.{method}": Asv(module, thing, method) for method in methods})
        elif name.startswith("time_") and callable(thing):
            out[name] = Asv(module, None, name)
    return out
