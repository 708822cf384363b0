"""The pipelines of `benchmarks.shapes`, and what limits each.

Over 400 lines: one table, a line or two a pipeline.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["BURST", "EQUAL", "HIDDEN", "NONE", "STAGE", "STOPPED", "WRITTEN", "Case", "cases", "strangers"]

STAGE, NONE, BURST, STOPPED, HIDDEN, EQUAL = "stage", "none", "burst", "stopped", "hidden", "equal"
WRITTEN = "as written"  # a program of `shapes_strangers`, whose first line says what limits it
STRANGERS = Path(__file__).parent / "shapes_strangers"


@dataclass
class Case:
    """A pipeline, and what limits it.

    Attributes:
        runtime: "plain" before its name: nothing is instrumented, Python's queues are counted by themselves.
        truth: kind of what limits; HIDDEN: the counts do not carry it, so that only silence is right; EQUAL:
            all stages are as slow, so that no name is right.
        names: the stages that may be named (one for each line of several).
        program: a file that is run as it is; `names` is then a pattern of "verdict: name", and of STAGE with
            several names those of its lines.
    """

    shape: str
    runtime: str
    truth: str
    names: tuple[str, ...]
    spec: dict[str, Any]
    program: Path | None = None


def stage(name: str, into: str = "", out: str = "", ms: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": into.split(), "out": out.split(), "ms": ms, **more}


def queue(name: str, source: str, drain: str, capacity: int = 32, **more: Any) -> dict[str, Any]:
    return {"name": name, "from": source, "to": drain, "capacity": capacity, **more}


def queues_of(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The queues that stages put to and take from, where each has one end of either kind."""
    drains = {name: one["name"] for one in stages for name in one["in"]}
    return [queue(name, one["name"], drains[name]) for one in stages for name in one["out"]]


def spec_of(stages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"stages": stages, "queues": queues_of(stages)}


def planted(shape: str, runtime: str, slow: str, *stages: dict[str, Any]) -> Case:
    """Stages of which one limits, joined by the queues that they name."""
    return Case(shape, runtime, STAGE, (slow,), spec_of(list(stages)))


def slowed(
    draw: random.Random, names: tuple[str, ...], low: float, high: float
) -> tuple[dict[str, float], str]:
    """Service times, one of them 2.5 to 4 times the others, and whose that is."""
    times = dict.fromkeys(names, draw.uniform(low, high))
    slow = draw.choice(names)
    times[slow] *= draw.uniform(2.5, 4)
    return times, slow


def of_slowed(
    shape: str, runtime: str, draw: random.Random, times: tuple[float, float], *stages: dict[str, Any]
) -> Case:
    """Stages that all take as long, within `times`, but for one: those that nothing paces."""
    served, slow = slowed(draw, tuple(one["name"] for one in stages if "every_ms" not in one), *times)
    return planted(shape, runtime, slow, *(one | {"ms": served.get(one["name"], 0.0)} for one in stages))


def line(draw: random.Random, capacity: int, prefix: str = "", **slow: Any) -> tuple[dict[str, Any], str]:
    """A source and three to five stages, one of them two to four times as slow as the others."""
    names = [
        f"{prefix}{name}"
        for name in draw.sample(["parse", "check", "price", "route", "store"], draw.randint(3, 5))
    ]
    fast, at = draw.uniform(0.6, 1.2), draw.randrange(len(names))
    stages = [stage(f"{prefix}source", "", f"{prefix}q0", every_ms=0.2)]
    queues = []
    for i, name in enumerate(names):
        queues.append(queue(f"{prefix}q{i}", names[i - 1] if i else f"{prefix}source", name, capacity))
        out = f"{prefix}q{i + 1}" if i + 1 < len(names) else ""
        stages.append(stage(name, f"{prefix}q{i}", out, fast))
    stages[at + 1].update({"ms": fast * draw.uniform(2.0, 4.0), **slow})
    return {"stages": stages, "queues": queues}, names[at]


def plain(draw: random.Random, runtime: str) -> Case:
    spec, slow = line(draw, draw.choice([8, 32, 100]))
    return Case("line", runtime, STAGE, (slow,), spec)


def of_one(draw: random.Random, runtime: str) -> Case:
    spec, slow = line(draw, 1)
    return Case("queues of one", runtime, STAGE, (slow,), spec)


def unhurried(draw: random.Random, shape: str, runtime: str, least_ms: float, most_ms: float) -> Case:
    """All stages are equal, and events come so rarely that nothing limits."""
    spec, _ = line(draw, 32)
    for one in spec["stages"][1:]:
        one["ms"] = 0.8
    spec["stages"][0]["every_ms"] = draw.uniform(least_ms, most_ms)
    return Case(shape, runtime, NONE, (), spec)


def idle(draw: random.Random, runtime: str) -> Case:
    return unhurried(draw, "idle", runtime, 2.5, 5)


def join(draw: random.Random, runtime: str) -> Case:
    """`pair` takes one event of each side."""
    return of_slowed(
        "join", runtime, draw, (0.6, 1.2),
        stage("feed-1", "", "a", every_ms=0.2),
        stage("feed-2", "", "b", every_ms=0.2),
        stage("left", "a", "c"),
        stage("right", "b", "d"),
        stage("pair", "c d"),
    )  # fmt: skip


def fork(draw: random.Random, runtime: str) -> Case:
    """`split` puts every event to both."""
    return of_slowed(
        "fork", runtime, draw, (0.6, 1.2),
        stage("feed", "", "a", every_ms=0.2),
        stage("split", "a", "b c"),
        stage("left", "b"),
        stage("right", "c"),
    )  # fmt: skip


def cycle(draw: random.Random, runtime: str) -> Case:
    """A client with a window of requests under way, a server, a stage that takes replies."""
    window = draw.choice([4, 8, 16])
    times, slow = slowed(draw, ("client", "server", "reply"), 0.5, 1.0)
    stages = [
        stage("client", "credits", "requests", times["client"]),
        stage("server", "requests", "replies", times["server"]),
        stage("reply", "replies", "credits", times["reply"]),
    ]
    queues = [
        queue("credits", "reply", "client", 64, initial=window),
        queue("requests", "client", "server", 64),
        queue("replies", "server", "reply", 64),
    ]
    return Case("cycle", runtime, STAGE, (slow,), {"stages": stages, "queues": queues})


def pool(draw: random.Random, runtime: str) -> Case:
    """`workers` take a connection each; there are fewer connections than workers, and they limit."""
    workers, connections = draw.choice([4, 6]), draw.choice([1, 2])
    stages = [
        stage("source", "", "jobs", every_ms=0.2),
        stage("worker", "jobs", "done", draw.uniform(3, 6), pool="connections", count=workers),
        stage("store", "done", "", 0.2),
    ]
    queues = [
        queue("jobs", "source", "worker"),
        queue("connections", "worker", "worker", connections, initial=connections),
        queue("done", "worker", "store"),
    ]
    return Case("pool", runtime, STAGE, ("connections",), {"stages": stages, "queues": queues})


def workers(draw: random.Random, runtime: str) -> Case:
    count, slow = draw.choice([2, 3, 4]), draw.uniform(1.5, 2.5)
    planted = draw.random() < 0.5
    stages = [
        stage("source", "", "jobs", every_ms=0.2),
        stage("worker", "jobs", "done", slow * count if planted else slow, count=count),
        stage("store", "done", "", 0.3 if planted else 2 * slow),
    ]
    spec = spec_of(stages)
    return Case("workers", runtime, STAGE, ("worker" if planted else "store",), spec)


def lines(draw: random.Random, runtime: str) -> Case:
    one, slow = line(draw, 32, "a-")
    two, other = line(draw, 32, "b-")
    spec = {key: one[key] + two[key] for key in one}
    return Case("two lines", runtime, STAGE, (slow, other), spec)


def swapped(draw: random.Random, runtime: str) -> Case:
    spec, slow = line(draw, 32)
    draw.choice(spec["queues"])["swap"] = True
    return Case("swapped ends", runtime, HIDDEN, (slow,), spec)


def unseen(draw: random.Random, runtime: str) -> Case:
    """The queue in front of the slow stage is not instrumented: its neighbour must not be named."""
    spec, slow = line(draw, 32)
    at = next(i for i, one in enumerate(spec["stages"][1:]) if one["name"] == slow)
    if at == 0:  # in front of the first stage nothing tells that there is a queue
        slow, at = spec["stages"][2]["name"], 1
        spec["stages"][1]["ms"], spec["stages"][2]["ms"] = spec["stages"][2]["ms"], spec["stages"][1]["ms"]
    spec["queues"][at]["seen"] = False
    return Case("unseen queue", runtime, HIDDEN, (slow,), spec)


def stopped(draw: random.Random, runtime: str) -> Case:
    spec, _ = line(draw, 32)
    victim = draw.randrange(1, len(spec["stages"]))
    spec["stages"][victim][draw.choice(["ends_after_s", "hangs_after_s"])] = draw.uniform(0.6, 1.4)
    return Case("stopped stage", runtime, STOPPED, (spec["stages"][victim]["name"],), spec)


def burst(draw: random.Random, runtime: str) -> Case:
    """A source that stands still, and then sends more at once than a queue holds."""
    spec, _ = line(draw, 8)
    for one in spec["stages"][1:]:
        one["ms"] = 0.5
    spec["stages"][0].update(every_ms=draw.uniform(3, 4), burst=draw.choice([40, 60]))
    return Case("burst", runtime, BURST, (), spec)


def computing(draw: random.Random, runtime: str) -> Case:
    """One stage computes, the others sleep less."""
    spec, slow = line(draw, 32, work="spin")
    return Case("computes", runtime, STAGE, (slow,), spec)


def blocking(draw: random.Random, runtime: str) -> Case:
    """A coroutine that holds the loop: every other is late since it is."""
    spec, slow = line(draw, 32, work="block")
    return Case("blocks the loop", runtime, STAGE, (slow,), spec)


def held_by_credit(draw: random.Random, runtime: str) -> Case:
    """The window is too small for anything to be busy: requests wait for credit, and nothing is slow."""
    stages = [
        stage("client", "credits", "requests", 0.3),
        stage("server", "requests", "replies", 1.0),
        stage("reply", "replies", "credits", 1.0),
    ]
    queues = [
        queue("credits", "reply", "client", 64, initial=1),
        queue("requests", "client", "server", 64),
        queue("replies", "server", "reply", 64),
    ]
    return Case("window of one", runtime, NONE, (), {"stages": stages, "queues": queues})


def equal(draw: random.Random, runtime: str) -> Case:
    """A saturated line of stages that are as slow as one another."""
    spec, _ = line(draw, draw.choice([8, 32, 100]))
    each = draw.uniform(0.8, 1.2)
    for one in spec["stages"][1:]:
        one["ms"] = each
    return Case("equal", runtime, EQUAL, (), spec)


def equal_join(draw: random.Random, runtime: str) -> Case:
    case = join(draw, runtime)
    for one in case.spec["stages"][2:]:
        one["ms"] = 1.0
    return Case("equal join", runtime, EQUAL, (), case.spec)


def equal_fork(draw: random.Random, runtime: str) -> Case:
    case = fork(draw, runtime)
    for one in case.spec["stages"][1:]:
        one["ms"] = 1.0
    return Case("equal fork", runtime, EQUAL, (), case.spec)


def near(draw: random.Random, runtime: str) -> Case:
    """Loaded to two thirds: nothing limits, and queues hold something now and then."""
    return unhurried(draw, "two thirds", runtime, 1.6, 2.0)


def filtered(draw: random.Random, runtime: str) -> Case:
    """The first stage lets a third pass; either it limits or the one behind it."""
    spec, _ = line(draw, 32)
    first, second = spec["stages"][1:3]
    for one in spec["stages"][1:]:
        one["ms"] = 0.6
    first["keep"] = 0.34
    slow = draw.choice([first, second])
    slow["ms"] = 2.0 if slow is first else 5.0
    return Case("filter", runtime, STAGE, (slow["name"],), spec)


def routed(draw: random.Random, runtime: str) -> Case:
    """`split` puts each event to one of two, in turn; one of the three limits."""
    slow = draw.choice(["split", "left", "right"])
    times = {"split": 0.6, "left": 0.8, "right": 0.8}
    times[slow] = 2.0 if slow == "split" else 3.5
    return planted(
        "routed",
        runtime,
        slow,
        stage("feed", "", "a", every_ms=0.2),
        stage("split", "a", "b c", times["split"], route=True),
        stage("left", "b", "", times["left"]),
        stage("right", "c", "", times["right"]),
    )


def polled(draw: random.Random, runtime: str) -> Case:
    """Stages look for an event every 0.3 ms and never wait in `get`."""
    spec, slow = line(draw, 32)
    for one in spec["stages"][1:]:
        one.update(polls=True, ms=one["ms"] + 0.3)
    return Case("polls", runtime, STAGE, (slow,), spec)


def polled_idle(draw: random.Random, runtime: str) -> Case:
    case = idle(draw, runtime)
    for one in case.spec["stages"][1:]:
        one["polls"] = True
    return Case("polls, idle", runtime, NONE, (), case.spec)


def batched(draw: random.Random, runtime: str) -> Case:
    """The last stage takes ten at a time."""
    spec, _ = line(draw, 64)
    for one in spec["stages"][1:]:
        one["ms"] = 0.8
    last, other = spec["stages"][-1], spec["stages"][draw.randrange(1, len(spec["stages"]) - 1)]
    last.update(take=10)
    slow = draw.choice([last, other])
    last["ms"] = 30.0 if slow is last else 3.0
    other["ms"] = 2.2 if slow is other else 0.8
    return Case("batches", runtime, STAGE, (slow["name"],), spec)


def last_slow(draw: random.Random, runtime: str) -> Case:
    """The last stage works for 55 to 70 % of the time, and no other for more than a quarter."""
    spec, _ = line(draw, 32)
    for one in spec["stages"][1:]:
        one["ms"] = 0.7
    spec["stages"][-1]["ms"] = draw.uniform(1.8, 2.2)
    spec["stages"][0]["every_ms"] = 3.2
    return Case("last at 60 %", runtime, NONE, (), spec)


def diamond(draw: random.Random, runtime: str) -> Case:
    """A fork and a join of what it sent both ways."""
    return of_slowed(
        "diamond", runtime, draw, (0.5, 0.9),
        stage("feed", "", "a", every_ms=0.2),
        stage("split", "a", "b c"),
        stage("left", "b", "d"),
        stage("right", "c", "e"),
        stage("pair", "d e"),
    )  # fmt: skip


def of_two_groups(draw: random.Random, runtime: str) -> Case:
    """Two groups of workers behind one another."""
    one, two = draw.choice([2, 3]), draw.choice([2, 3])
    slow = draw.choice(["fetch", "write"])
    base = draw.uniform(0.8, 1.2)
    return planted(
        "two groups",
        runtime,
        slow,
        stage("source", "", "jobs", every_ms=0.2),
        stage("fetch", "jobs", "rows", base * one * (2.5 if slow == "fetch" else 1), count=one),
        stage("write", "rows", "", base * two * (2.5 if slow == "write" else 1), count=two),
    )


def lent(draw: random.Random, runtime: str) -> Case:
    """Buffers of a pool travel with the events, from `fill` to `write`; a slow stage keeps most of them."""
    times, slow = slowed(draw, ("fill", "encode", "write"), 0.5, 0.9)
    count = draw.choice([6, 12])
    stages = [
        stage("source", "", "jobs", every_ms=0.2),
        stage("fill", "jobs", "full", times["fill"], pool="buffers", lends=True),
        stage("encode", "full", "done", times["encode"]),
        stage("write", "done", "", times["write"], returns="buffers"),
    ]
    queues = [*queues_of(stages), queue("buffers", "write", "fill", count, initial=count)]
    return Case("lent buffers", runtime, STAGE, (slow,), {"stages": stages, "queues": queues})


def computing_all(draw: random.Random, runtime: str) -> Case:
    """All stages compute, one more than twice as much: in threads of Python for the interpreter's lock."""
    spec, slow = line(draw, 32)
    for one in spec["stages"][1:]:
        one.update(work="spin", ms=0.5 * one["ms"])
    return Case("all compute", runtime, STAGE, (slow,), spec)


def strangers(folder: Path = STRANGERS) -> Iterator[Case]:
    """Programs that somebody else might have written, as they are, each of some four seconds.

    The first line says what limits: a pattern of "verdict: name"; "unnamed", where no name is right;
    "hidden PATTERN", where the counts contradict themselves or miss a part; "lines A, B", one name a line.
    """
    for path in sorted([*folder.glob("*.py"), *folder.glob("*.cpp")]):
        pattern = path.read_text(encoding="utf-8").splitlines()[0].partition("limits:")[2].strip()
        if not pattern:  # what several of them share
            continue
        if pattern.startswith("lines "):
            names = tuple(name.strip() for name in pattern.removeprefix("lines ").split(","))
            yield Case(path.stem, WRITTEN, STAGE, names, {}, path)
        elif pattern.startswith("hidden "):
            yield Case(path.stem, WRITTEN, HIDDEN, (pattern.removeprefix("hidden "),), {}, path)
        else:
            yield Case(path.stem, WRITTEN, EQUAL if pattern == "unnamed" else STAGE, (pattern,), {}, path)


MAKERS: list[tuple[Callable[[random.Random, str], Case], tuple[str, ...]]] = [
    (plain, ("threads", "coroutines", "processes", "cpp")),
    (of_one, ("threads", "coroutines", "cpp")),
    (idle, ("threads", "coroutines", "processes", "cpp")),
    (join, ("threads", "coroutines", "processes", "cpp")),
    (fork, ("threads", "coroutines", "processes", "cpp")),
    (cycle, ("threads", "coroutines", "processes", "cpp")),
    (pool, ("threads",)),
    (workers, ("threads", "coroutines", "processes")),
    (lines, ("threads", "coroutines", "cpp")),
    (swapped, ("threads", "cpp")),
    (unseen, ("threads", "coroutines")),
    (stopped, ("threads", "processes")),
    (burst, ("threads",)),
    (computing, ("threads", "processes")),
    (blocking, ("coroutines",)),
    (held_by_credit, ("threads", "cpp")),
    (equal, ("threads", "coroutines", "processes", "cpp", "plain threads")),
    (equal_join, ("threads", "processes", "cpp")),
    (equal_fork, ("threads", "coroutines")),
    (near, ("threads", "cpp", "plain processes")),
    (plain, ("plain threads", "plain coroutines", "plain processes")),
    (join, ("plain threads", "plain coroutines")),
    (fork, ("plain threads",)),
    (cycle, ("plain threads",)),
    (idle, ("plain threads", "plain coroutines")),
    (filtered, ("threads", "plain threads", "processes")),
    (routed, ("threads", "plain coroutines")),
    (polled, ("threads",)),
    (polled_idle, ("threads",)),
    (batched, ("threads", "plain threads")),
    (last_slow, ("threads", "plain threads", "coroutines")),
    (diamond, ("threads", "processes", "cpp")),
    (of_two_groups, ("threads", "plain threads", "processes")),
    (lent, ("threads", "plain threads")),
    (computing_all, ("threads", "processes", "plain threads")),
]


def cases(count: int, seed: int) -> Iterator[Case]:
    """So many pipelines: every shape in every runtime in turn, with its own parameters."""
    kinds = [(make, runtime) for make, runtimes in MAKERS for runtime in runtimes]
    for number in range(count):
        make, runtime = kinds[number % len(kinds)]
        case = make(random.Random(f"{seed} {number}"), runtime)
        case.spec["seed"] = number
        yield case
