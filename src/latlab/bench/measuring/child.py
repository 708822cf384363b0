"""The process that measures one side written in Python; started by `_process` as a script of its own.

Its imports are few on purpose: a process is one replicate, and an interpreter with the standard `site`,
`json` and `numpy` takes 100 ms to start where this takes 12. Arguments come by `marshal`, which is built in.
"""

import marshal
import os
import sys
import types
from typing import Any

EXIT_THREW, EXIT_UNEVEN, EXIT_AFFINITY, EXIT_MEMORY, EXIT_MISSING, EXIT_PEER = 10, 11, 12, 13, 14, 17
CO_COROUTINE = 0x80


class Uneven(Exception):
    """run() returned different counts."""


def say(what: str) -> None:
    """The one line that the parent turns into an error."""
    sys.stderr.write(what + "\n")


def load(path: str) -> types.ModuleType:
    """The user's file as a module, with its folder first in the search path, as `python FILE` has it."""
    sys.path.insert(0, os.path.dirname(path))  # noqa: PTH120 - pathlib takes 5 ms to import
    name = os.path.basename(path).removesuffix(".py")  # noqa: PTH119
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    with open(path, "rb") as file:
        exec(compile(file.read(), path, "exec"), module.__dict__)
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
    fixtures.update({name: one.listed() for name, one in asv(module).items()})
    return {
        "fixtures": fixtures,
        "report": dict(getattr(module, "report", {})),
        "seeded": [name for name in own if takes_seed(getattr(module, name))],
    }


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
            return (lambda: [one() for one in found]) if found else None

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


def takes_seed(fixture: Any) -> bool:
    """Whether the constructor has a parameter `seed`."""
    code = getattr(fixture.__init__, "__code__", None)
    return code is not None and "seed" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def prepare(config: dict[str, Any]) -> dict[str, bool]:
    """Set up the process: memory limit, processor, scheduling, locked memory. Says what came about."""
    done = {"pinned": False, "fifo": False, "locked": False}
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
    each class of sizes so many places are taken that the next object lies anywhere in a pool. Otherwise one
    constant more in a file moves all that follows by the same distance in every pair, and what that is
    worth to the caches would look like a change of the code.
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
    kept += [float(i) for i in range(draw(512))]
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

    every, own = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_THREAD)
    started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    return started > 0 or every.ru_minflt > own.ru_minflt or every.ru_nvcsw > own.ru_nvcsw


Measured = tuple[bytes, int, int, float, int, float, int, bytes]


def measure(target: Any, config: dict[str, Any]) -> Measured:
    """Measure one fixture or function.

    Returns:
        (ticks, batch, operations, ticks a second, quantum, cost of a reading, nanoseconds from the first to
        the last iteration, ticks of single calls between the batches)
    """
    is_class = isinstance(target, type)
    if isinstance(target, Asv):
        run, set_up, tear_down = target.ready(config["parameters"])
        return measure_sync(run, set_up, tear_down, config, counted=False)
    counted = is_class and bool(getattr(target, "counts_operations", False))
    fixture = target(**config["parameters"]) if is_class else None
    run = fixture.run if is_class else target  # type: ignore[union-attr]
    set_up, tear_down = getattr(fixture, "set_up", None), getattr(fixture, "tear_down", None)
    code = getattr(run, "__code__", None)
    if code is not None and code.co_flags & CO_COROUTINE:
        return measure_async(run, set_up, tear_down, config, counted=counted)
    return measure_sync(run, set_up, tear_down, config, counted=counted)


def measure_sync(
    run: Any, set_up: Any, tear_down: Any, config: "dict[str, Any]", *, counted: bool
) -> Measured:
    """The same of a callable, by the native loop where there is one."""
    if config["sys_path"] is None:
        return measure_plain(run, set_up, tear_down, config, counted=counted)
    from latlab._core import bench

    ticks, even, batch, operations, hz, quantum, read, measuring_ns, singles = bench.measure(
        run, config["iterations"], config["warmup"], config["batch"], counted, set_up, tear_down,
        config["turns"],
    )  # fmt: skip
    if not even:
        raise Uneven
    return ticks, batch, operations, hz, quantum, read, measuring_ns, singles


def clock_grain(stamp: Any) -> "tuple[int, float]":
    """(the clock's usual step, cost of a reading) of a clock that counts nanoseconds."""
    readings = [stamp() for _ in range(2000)]
    steps = sorted(b - a for a, b in zip(readings, readings[1:]) if b > a)  # noqa: B905, RUF007
    return (steps[len(steps) // 2] if steps else 1), (readings[-1] - readings[0]) / (len(readings) - 1)


def measure_plain(
    run: Any, set_up: Any, tear_down: Any, config: "dict[str, Any]", *, counted: bool
) -> Measured:
    """The same by the interpreter's own clock and loop, for a Python that has no latlab."""
    from array import array
    from time import perf_counter_ns as stamp

    quantum, read = clock_grain(stamp)
    counts = set()

    def calls(count: int) -> int:
        begin = stamp()
        for _ in range(count):
            result = run()
        end = stamp()
        counts.add(result if counted else None)
        return end - begin

    def once(count: int) -> int:
        if set_up is not None:
            set_up()
        took = calls(count)
        if tear_down is not None:
            tear_down()
        return took

    batch = 1 if set_up is not None or tear_down is not None else config["batch"]
    while not batch or (config["batch"] == 0 and batch > 0 and set_up is None and tear_down is None):
        batch = batch * 2 or 1
        if min(once(batch) for _ in range(3)) >= 1000 * quantum or batch >= 1 << 40:
            break
    for _ in range(config["warmup"] + 1):
        once(batch)
    out, singles = array("Q", bytes(8 * config["iterations"])), array("Q")
    peer, first, length, unmeasured = config["turns"]
    length = length or len(out)
    begin = stamp()
    if peer >= 0 and not first:
        os.write(peer, b"1")
    for at in range(0, len(out), length):
        if peer >= 0 and os.read(peer, 1) == b"":
            del out[at:]
            break
        for _ in range(unmeasured):
            once(batch)
        for i in range(at, min(at + length, len(out))):
            out[i] = once(batch)
            if batch > 1:  # a batch has no tail
                singles.append(max(1, calls(1)))
        if peer >= 0:
            try:
                os.write(peer, b"1")
            except BrokenPipeError:
                pass  # the other side has ended; the next read says so
    if peer >= 0 and first:
        os.read(peer, 1)
    measuring_ns = stamp() - begin
    if len(counts) != 1:
        raise Uneven
    count = counts.pop()
    if count is not None and count <= 0:
        raise ValueError("run() must return a number of operations above 0, or None")
    operations = 1 if count is None else int(count)
    return out.tobytes(), batch, operations, 1e9, quantum, read, measuring_ns, singles.tobytes()


def measure_async(
    run: Any, set_up: Any, tear_down: Any, config: dict[str, Any], *, counted: bool
) -> Measured:
    """The same of a coroutine function: every call is awaited on one loop, whose start is not measured."""
    import asyncio
    from array import array

    from latlab._core import bench, clock

    batch = config["batch"] or 1
    out, counts = array("Q", bytes(8 * config["iterations"])), set()
    stamp = clock.ticks_ordered
    peer, first, length, unmeasured = config["turns"]
    length = length or len(out)

    def wait() -> bool:
        return peer < 0 or os.read(peer, 1) != b""

    def hand_over() -> None:
        if peer >= 0:
            try:
                os.write(peer, b"1")
            except BrokenPipeError:
                pass  # the other side has ended; the next wait() says so

    async def once(calls: int) -> int:
        if set_up is not None:
            await set_up() if asyncio.iscoroutinefunction(set_up) else set_up()
        begin = stamp()
        for _ in range(calls):
            result = await run()
        end = stamp()
        counts.add(result if counted else None)
        if tear_down is not None:
            await tear_down() if asyncio.iscoroutinefunction(tear_down) else tear_down()
        return end - begin

    async def all_of_it() -> tuple[float, int]:
        for _ in range(config["warmup"] + 1):
            await once(batch)
        begin = clock.reference()
        if not first:
            hand_over()
        for at in range(0, len(out), length):
            if not wait():
                del out[at:]
                break
            for _ in range(unmeasured):
                await once(batch)
            for i in range(at, min(at + length, len(out))):
                out[i] = await once(batch)
            hand_over()
        if first:
            wait()
        end = clock.reference()
        measuring_ns = end[1] - begin[1]
        while end[1] - begin[1] < 200_000:
            end = clock.reference()
        return (end[0] - begin[0]) * 1e9 / (end[1] - begin[1]), measuring_ns

    hz, measuring_ns = asyncio.run(all_of_it())
    if len(counts) != 1:
        raise Uneven
    count = counts.pop()
    if count is not None and count <= 0:
        raise ValueError("run() must return a number of operations above 0, or None")
    quantum, read = bench.clock_grain()
    return out.tobytes(), batch, 1 if count is None else int(count), hz, quantum, read, measuring_ns, b""


def main() -> int:
    """Measure, or list, as the first argument says, and write the result to what was standard output."""
    config = marshal.loads(bytes.fromhex(sys.argv[1]))
    if config["sys_path"] is not None:
        sys.path[:] = config["sys_path"]
    else:  # another Python finds its own, but not what lies beside this script
        sys.path[:1] = config["search"]
    results = os.dup(1)
    os.dup2(2, 1)
    moved = scattered(config.get("layout", 0))  # what follows lies elsewhere
    try:
        module = load(config["path"])
        if config["list"]:
            with os.fdopen(results, "wb") as file:
                file.write(marshal.dumps(listing(module), 4))
            return 0
        target = asv(module).get(config["fixture"]) or getattr(module, config["fixture"], None)
        known = isinstance(target, Asv) or callable(target)
        if not known or (isinstance(target, type) and not callable(getattr(target, "run", None))):
            say("there is no such fixture or function")
            return EXIT_MISSING
        done = prepare(config)
        before, policy = os.sched_getaffinity(0), os.sched_getscheduler(0)
        import gc

        gc.collect()
        gc.disable()  # a collection is the work of all that ran before, as in timeit
        out = measure(target, config)
        if os.sched_getaffinity(0) != before:
            say("the fixture changed its own affinity")
            return EXIT_AFFINITY
        if os.sched_getscheduler(0) != policy:
            say("the fixture changed its own scheduling")
            return EXIT_AFFINITY
        if len(out[0]) != 8 * config["iterations"]:
            say("the other side has gone")
            return EXIT_PEER
        done["threads"] = had_threads()
        done["placed"] = bool(config["layout"]) and unrandomized()
        with os.fdopen(results, "wb") as file:
            file.write(marshal.dumps((out, done), 4))
        del moved
    except Uneven:
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
