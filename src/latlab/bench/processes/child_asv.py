"""Benchmarks of airspeed velocity, as `child` measures them; its sibling, imported by nothing else."""

import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from latlab.bench.processes import child_loops


class Skipped(Exception):
    """Why a benchmark is not measured here; it has not failed."""


def kind(name: str) -> str:
    """Which of asv's benchmarks a name is: "time", "timeraw", "mem", "peakmem", "track"; "" of none."""
    for one in ("timeraw", "time", "peakmem", "mem", "track"):
        # TimeSomething is one, too.
        after = name[len(one) : len(one) + 1]
        if name.startswith(one + "_") and len(name) > len(one) + 1:
            return one
        if name.startswith(one.capitalize()) and (after.isupper() or after == "_"):
            return one
    return ""


def enter_scratch() -> None:
    """Go into an empty folder, as asv's benchmarks do, which write where they are.

    Whoever started this process removes it: it is named by the process.
    """
    import os

    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"latlab-asv-{os.getpid()}")  # noqa: PTH118
    os.mkdir(folder, 0o700)  # noqa: PTH102
    os.chdir(folder)


class Asv:
    """A benchmark as airspeed velocity has it, a function or a method, with setup and params.

    Its `setup` runs once a process, and before each measurement where `number = 1` asks for that.
    """

    def __init__(self, module: types.ModuleType, owner: Any, name: str) -> None:
        self.module, self.owner, self.name = module, owner, name
        self.of = getattr(module if owner is None else owner, name)

    @property
    def is_time(self) -> bool:
        """Whether it measures a time, and not memory or what it returns."""
        return kind(self.name) in ("time", "timeraw")

    def attribute(self, name: str) -> Any:
        """What is declared: on the function or method first, then on its class, then in its file."""
        for holder in (self.of, self.owner, self.module):
            if holder is not None and hasattr(holder, name):
                return getattr(holder, name)
        return None

    def choices(self) -> "dict[str, list[Any]]":
        """The values of each parameter by its name."""
        params = list(self.attribute("params") or ())
        if params and not isinstance(params[0], (list, tuple)):
            params = [params]
        names = list(self.attribute("param_names") or ())
        names += [f"param{i + 1}" for i in range(len(names), len(params))]
        return dict(zip(names, map(list, params)))  # noqa: B905 - there may be more names

    def listed(self) -> "dict[str, list[Any]]":
        """The same, as they are written on a command line; none of what isn't measured anyway."""
        if not self.is_time:
            return {}
        return {name: [_written(v) for v in values] for name, values in self.choices().items()}

    def ready(self, given: "dict[str, Any]") -> "tuple[Any, Any, Any]":
        """(what is measured, what runs before it, what runs after it) with these values of the parameters."""
        import functools

        values: list[Any] = []
        for name, choices in self.choices().items():
            wanted = given.get(name, _written(choices[0]))
            values.append(next((v for v in choices if str(_written(v)) == str(wanted)), wanted))
        instance = None if self.owner is None else self.owner()
        holders = [self.module, *([] if instance is None else [instance]), self.of]
        caches = [getattr(one, "setup_cache", None) for one in reversed(holders)]
        cache = next((one for one in caches if one is not None), None)
        if cache is not None:
            values.insert(0, cache())
        run = self.of if instance is None else getattr(instance, self.name)

        def all_of(what: str) -> Any:
            each = [getattr(holder, what, None) for holder in holders]
            found = [functools.partial(one, *values) for one in each if one is not None]

            def call() -> None:
                try:
                    for one in found if what == "setup" else reversed(found):
                        one()
                except NotImplementedError as error:
                    if what != "setup":
                        raise
                    more = f": {error}" if str(error) else ""
                    raise Skipped(f"its setup raised NotImplementedError{more}") from error

            return call if found else None

        return functools.partial(run, *values) if values else run, all_of("setup"), all_of("teardown")

    def measured(self, config: "dict[str, Any]", loops: Any) -> "child_loops.Measured":
        """Measure it by the loop that suits it."""
        if not self.is_time:
            raise Skipped(f"{kind(self.name)}_* measures no time; run it with asv")
        run, set_up, tear_down = self.ready(config["parameters"])
        each = self.attribute("number") == 1
        if not each and set_up is not None:
            set_up()
        around = (set_up, tear_down) if each else (None, None)
        if kind(self.name) == "timeraw":
            out: child_loops.Measured = loops.measure_plain(
                fresh(run), *around, config, counted=False, reported=True
            )
        else:
            out = loops.measure_sync(run, *around, config, counted=False)
        if not each and tear_down is not None:
            tear_down()
        return out


def _written(value: Any) -> Any:
    """A parameter's value as it is written on a command line and sent between processes."""
    return value if type(value) in (int, float, str, bool) else repr(value)


FRESH = """import sys, time
code, first = sys.argv[1:]
names = {}
exec(compile(first, "setup", "exec"), names)
code = compile(code, "timeraw", "exec")
begin = time.perf_counter_ns()
exec(code, names)
end = time.perf_counter_ns()
sys.stderr.write(str(end - begin))
"""


def fresh(given: Any) -> Any:
    """What runs the code that a timeraw_* returns in an interpreter of its own; the code's time in ns.

    The start of the interpreter isn't in it.
    """
    import subprocess
    import sys
    import textwrap

    said = given()
    code, first = (said, "") if isinstance(said, str) else said

    def once() -> int:
        command = [sys.executable, "-c", FRESH, textwrap.dedent(code), textwrap.dedent(first)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        lines = done.stderr.decode(errors="replace").split("\n")
        if done.returncode != 0 or not lines[-1].isdigit():
            raise RuntimeError(
                next((line for line in reversed(lines) if line), "its interpreter said nothing")
            )
        return int(lines[-1])

    return once


def asv(module: types.ModuleType) -> "dict[str, Asv]":
    """The file's benchmarks of that kind, by name; those that measure something else than a time, too."""
    out = {}
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        if isinstance(thing, type):
            if not getattr(thing, "__abstractmethods__", None):
                methods = [m for m in dir(thing) if kind(m) and callable(getattr(thing, m))]
                out.update({f"{name}.{method}": Asv(module, thing, method) for method in methods})
        elif kind(name) and isinstance(thing, types.FunctionType):
            out[name] = Asv(module, None, name)
    return out
