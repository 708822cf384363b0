"""The process that measures one side written in Python; started by `_process` as a script of its own.

Its imports are few on purpose: a process is one replicate, and an interpreter with the standard `site`,
`json` and `numpy` takes 100 ms to start where this takes 12. Arguments come by `marshal`, which is built in.
"""

import marshal
import os
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from latlab.bench.processes import child_asv, child_loops

EXIT_THREW, EXIT_UNEVEN, EXIT_AFFINITY, EXIT_MEMORY, EXIT_MISSING, EXIT_PEER = 10, 11, 12, 13, 14, 17
EXIT_SKIPPED = 18
CO_COROUTINE = 0x80


def find_siblings() -> None:
    """Import what lies beside this script, under names that no module of the user has.

    Not before things were scattered: what an import leaves would be used again where it always lies.
    """
    global child_asv, child_loops
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    child_asv, child_loops = __import__("child_asv"), __import__("child_loops")
    del sys.path[0]


def say(what: str) -> None:
    """The one line that the parent turns into an error."""
    sys.stderr.write(what + "\n")


def load(path: str) -> types.ModuleType:
    """The user's file as a module, with its folder first in the search path, as `python FILE` has it.

    A file of a package is that package's module, as asv has its suites: what it imports may begin with a dot.
    """
    top, name = os.path.split(path.removesuffix(".py"))
    folder = top
    while os.path.exists(os.path.join(top, "__init__.py")):  # noqa: PTH110, PTH118
        top, package = os.path.split(top)
        name = f"{package}.{name}"
    name = name.removesuffix(".__init__")
    sys.path.insert(0, top)
    if folder != top:
        sys.path.append(folder)  # behind the standard library, whose names modules of a package may have
    package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
    if package and package != name:
        __import__(package)
    module = types.ModuleType(name)
    module.__file__ = path
    if package:
        module.__package__ = package
    if package == name:
        module.__path__ = [folder]
    sys.modules[name] = module
    with open(path, "rb") as file:
        exec(compile(file.read(), path, "exec"), module.__dict__)
    if package and package != name:
        setattr(sys.modules[package], name.rpartition(".")[2], module)
    return module


def is_fixture(module: types.ModuleType, thing: Any) -> bool:
    """Whether something in the user's file is a fixture: a class of the file with a method `run`."""
    return (
        isinstance(thing, type)
        and thing.__module__ == module.__name__
        and callable(getattr(thing, "run", None))
    )


def listing(module: types.ModuleType) -> dict[str, Any]:
    """What the file offers."""
    fixtures = {
        name: {key: list(values) for key, values in getattr(thing, "parameters", {}).items()}
        for name, thing in vars(module).items()
        if is_fixture(module, thing) and not name.startswith("_")
    }
    own = list(fixtures)
    fixtures.update({name: one.listed() for name, one in child_asv.asv(module).items()})
    return {
        "fixtures": fixtures,
        "report": dict(getattr(module, "report", {})),
        "seeded": [name for name in own if takes_seed(getattr(module, name))],
    }


def takes_seed(fixture: Any) -> bool:
    """Whether the constructor has a parameter `seed`."""
    code = getattr(fixture.__init__, "__code__", None)
    return code is not None and "seed" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def prepare(config: dict[str, Any]) -> dict[str, Any]:
    """Set up the process: memory limit, processor, scheduling, locked memory. Says what came about."""
    done: dict[str, Any] = {"pinned": False, "fifo": False, "locked": False}
    if config["memory"]:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (config["memory"], config["memory"]))
    if config["cpu"] >= 0:
        try:
            os.sched_setaffinity(0, {config["cpu"]})
        except OSError:
            pass
    if config["fifo"]:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(config["fifo"]))
        except OSError:
            pass
    # Read back, since what was asked for may have been refused, and more may have been inherited.
    done["pinned"] = os.sched_getaffinity(0) == {config["cpu"]}
    done["fifo"] = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO
    if config["lock"] and config["sys_path"] is not None:
        from latlab._core import bench

        done["locked"] = bench.lock_memory()
    return done


def scattered(layout: int) -> list[Any]:
    """Things that are kept, so that what is made later lies where `layout` drew it; none for 0.

    The interpreter's small objects lie in arenas that begin at the same addresses in every process without
    the kernel's draw, one behind the other. So the arenas that are still to come are moved by pages, and in
    each class of sizes a drawn number of places is taken, so that the next object lies anywhere in a pool.
    Otherwise one constant more in a file moves all that follows by the same distance in every pair, and what
    that is worth to the caches would look like a change of the code.
    """
    if not layout:
        return []
    state = layout

    def draw(below: int) -> int:
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (state >> 33) % below

    # Large ones come from the kernel by whole pages, and small ones from the heap that malloc moves.
    kept: list[Any] = [bytearray(4096 * (64 + draw(1024))), bytearray(16 * draw(4096))]
    kept += [object() for _ in range(draw(1024))]
    # The interpreter keeps up to a hundred of what was freed of each kind for the next ones, at addresses
    # that are the same in every process: those are taken first.
    kept += [float(i) for i in range(128 + draw(512))]
    kept += [{} for _ in range(128 + draw(128))]
    kept += [{"key": i} for i in range(128 + draw(128))]
    kept += [[i] for i in range(128 + draw(128))]
    for size in range(48, 513, 16):
        kept.append([bytes(size - 33) for _ in range(draw(16384 // size))])
    return kept


def unrandomized() -> bool:
    """Whether this process lies where every process started alike does."""
    with open("/proc/self/personality", "rb") as file:
        return bool(int(file.read(), 16) & 0x0040000)


def had_threads() -> bool:
    """Whether other threads than this one have run in this process, or processes that it started."""
    import resource
    import time

    # One that only spins neither waits nor, with locked memory, faults: then it is there still, or the
    # processor time that it had is more than this one's, which is read later.
    if sum(1 for _ in os.scandir("/proc/self/task")) > 1 or time.process_time_ns() > time.thread_time_ns():
        return True
    every, own = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_THREAD)
    started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    return started > 0 or every.ru_minflt > own.ru_minflt or every.ru_nvcsw > own.ru_nvcsw


def measure(target: Any, config: dict[str, Any]) -> "child_loops.Measured":
    """Measure one fixture or function.

    Returns:
        (ticks, batch, operations, ticks a second, quantum, cost of a reading, nanoseconds from the first to
        the last iteration, ticks of single calls between the batches)
    """
    is_class = isinstance(target, type)
    if isinstance(target, child_asv.Asv):
        return target.measured(config, child_loops)
    counted = is_class and bool(getattr(target, "counts_operations", False))
    fixture = target(**config["parameters"]) if is_class else None
    run = fixture.run if is_class else target  # type: ignore[union-attr]
    set_up, tear_down = getattr(fixture, "set_up", None), getattr(fixture, "tear_down", None)
    for rate in ("items", "bytes"):
        said = getattr(fixture, rate + "_per_run", 0.0)
        config[rate] = float(said() if callable(said) else said)
    code = getattr(run, "__code__", None)
    if code is not None and code.co_flags & CO_COROUTINE:
        return child_loops.measure_async(run, set_up, tear_down, config, counted=counted)
    return child_loops.measure_sync(run, set_up, tear_down, config, counted=counted)


def main() -> int:
    """Measure, or list, as the first argument says, and write the result to what was standard output."""
    config = marshal.loads(bytes.fromhex(sys.argv[1]))
    if config["sys_path"] is not None:
        sys.path[:] = config["sys_path"]
    else:  # another Python finds its own, but not what lies beside this script
        sys.path[:1] = config["search"]
    results = os.dup(1)
    os.dup2(2, 1)
    import gc

    gc.collect()  # or what its start left would be freed later, and used again where it always lies
    moved = scattered(config.get("layout", 0))  # what follows lies elsewhere
    find_siblings()
    try:
        module = load(config["path"])
        if config["list"]:
            with os.fdopen(results, "wb") as file:
                file.write(marshal.dumps(listing(module), 4))
            return 0
        target = child_asv.asv(module).get(config["fixture"]) or getattr(module, config["fixture"], None)
        known = isinstance(target, child_asv.Asv) or callable(target)
        if not known or (isinstance(target, type) and not callable(getattr(target, "run", None))):
            say("no such fixture or function")
            return EXIT_MISSING
        if isinstance(target, child_asv.Asv):
            child_asv.enter_scratch()
        done = prepare(config)
        before, policy = os.sched_getaffinity(0), os.sched_getscheduler(0)
        gc.collect()
        gc.disable()  # a collection is the work of all that ran before, as in timeit
        moved += scattered(config.get("layout", 0))  # what was freed since would be used again where it was
        out = measure(target, config)
        if os.sched_getaffinity(0) != before:
            say("the fixture changed its own affinity")
            return EXIT_AFFINITY
        if os.sched_getscheduler(0) != policy:
            say("the fixture changed its own scheduling")
            return EXIT_AFFINITY
        if len(out[0]) != 8 * config["iterations"]:
            say("the other side has ended")
            return EXIT_PEER
        done["threads"] = had_threads()
        done.update({key: config[key] for key in ("items", "bytes", "costs") if key in config})
        done["placed"] = bool(config["layout"]) and unrandomized()
        with os.fdopen(results, "wb") as file:
            file.write(marshal.dumps((out, done), 4))
        del moved
    except child_asv.Skipped as error:
        say(str(error))
        return EXIT_SKIPPED
    except child_loops.Uneven:
        say("run() returned different counts")
        return EXIT_UNEVEN
    except MemoryError:
        say("the memory limit was reached")
        return EXIT_MEMORY
    except BaseException as error:  # noqa: BLE001 - whatever the user's code raises becomes one line
        trace, line = error.__traceback__, 0
        while trace is not None:  # the last line of the user's own file
            if trace.tb_frame.f_code.co_filename == config["path"]:
                line = trace.tb_lineno
            trace = trace.tb_next
        where = f" (line {line})" if line else ""
        say(f"{type(error).__name__}: {error}{where}")
        return EXIT_THREW
    return 0


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main())  # the interpreter's own end takes 5 ms and measures nothing
