"""Planted pipelines of every shape: is the verdict right, withheld, misleading or wrong?

Lines, queues of one, forks, joins, cycles with a credit window, pools, bursts, unconnected lines, wrong
labels, queues that are not instrumented, stages that end or hang; in threads, coroutines, processes and C++.

    python -m benchmarks.shapes [--cases 64] [--seed 1] [--seconds 3] [--only TEXT] [--neighbour]

Right: the verdict says what is planted. Withheld: exit code 3, or "cannot tell". Misleading: the right name
beside a number that cannot be (a share above 100 %). Wrong: anything else with exit code 0.
Bars: wrong at most 1 in 100; right in at least 90 % of those whose truth the counts carry.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._bars import Bar, report

HERE = Path(__file__).parent
PROGRAMS = HERE / "shapes_programs"
STAGE, NONE, BURST, STOPPED, HIDDEN = "stage", "none", "burst", "stopped", "hidden"


@dataclass
class Case:
    """A pipeline, and what limits it.

    Attributes:
        truth: kind of what limits; HIDDEN: the counts do not carry it, so that only silence is right.
        names: the stages that may be named (one for each line of several).
    """

    shape: str
    runtime: str
    truth: str
    names: tuple[str, ...]
    spec: dict[str, Any]
    right_when_named: bool = field(default=False)


def stage(name: str, into: str = "", out: str = "", ms: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": into.split(), "out": out.split(), "ms": ms, **more}


def queue(name: str, source: str, drain: str, capacity: int = 32, **more: Any) -> dict[str, Any]:
    return {"name": name, "from": source, "to": drain, "capacity": capacity, **more}


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


def idle(draw: random.Random, runtime: str) -> Case:
    spec, _ = line(draw, 32)
    for one in spec["stages"][1:]:
        one["ms"] = 0.8
    spec["stages"][0]["every_ms"] = draw.uniform(2.5, 5)
    return Case("idle", runtime, NONE, (), spec)


def join(draw: random.Random, runtime: str) -> Case:
    """`pair` takes one event of each side."""
    times = dict.fromkeys(("left", "right", "pair"), draw.uniform(0.6, 1.2))
    slow = draw.choice(list(times))
    times[slow] *= draw.uniform(2.5, 4)
    stages = [
        stage("feed-1", "", "a", every_ms=0.2),
        stage("feed-2", "", "b", every_ms=0.2),
        stage("left", "a", "c", times["left"]),
        stage("right", "b", "d", times["right"]),
        stage("pair", "c d", "", times["pair"]),
    ]
    queues = [
        queue("a", "feed-1", "left"),
        queue("b", "feed-2", "right"),
        queue("c", "left", "pair"),
        queue("d", "right", "pair"),
    ]
    return Case("join", runtime, STAGE, (slow,), {"stages": stages, "queues": queues})


def fork(draw: random.Random, runtime: str) -> Case:
    """`split` puts every event to both."""
    times = dict.fromkeys(("split", "left", "right"), draw.uniform(0.6, 1.2))
    slow = draw.choice(list(times))
    times[slow] *= draw.uniform(2.5, 4)
    stages = [
        stage("feed", "", "a", every_ms=0.2),
        stage("split", "a", "b c", times["split"]),
        stage("left", "b", "", times["left"]),
        stage("right", "c", "", times["right"]),
    ]
    queues = [queue("a", "feed", "split"), queue("b", "split", "left"), queue("c", "split", "right")]
    return Case("fork", runtime, STAGE, (slow,), {"stages": stages, "queues": queues})


def cycle(draw: random.Random, runtime: str) -> Case:
    """A client with a window of requests under way, a server, a stage that takes replies."""
    window = draw.choice([4, 8, 16])
    times = dict.fromkeys(("client", "server", "reply"), draw.uniform(0.5, 1.0))
    slow = draw.choice(list(times))
    times[slow] *= draw.uniform(2.5, 4)
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
    queues = [queue("jobs", "source", "worker"), queue("done", "worker", "store")]
    return Case(
        "workers", runtime, STAGE, ("worker" if planted else "store",), {"stages": stages, "queues": queues}
    )


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
]


def cases(count: int, seed: int) -> Iterator[Case]:
    """So many pipelines: every shape in every runtime in turn, with parameters of their own."""
    kinds = [(make, runtime) for make, runtimes in MAKERS for runtime in runtimes]
    for number in range(count):
        make, runtime = kinds[number % len(kinds)]
        case = make(random.Random(f"{seed} {number}"), runtime)
        case.spec["seed"] = number
        yield case


def as_text(spec: dict[str, Any]) -> str:
    """The file of the C++ program."""
    rows = [
        f"queue {q['name']} {q['capacity']} "
        + (f"{q['to']} {q['from']}" if q.get("swap") else f"{q['from']} {q['to']}")
        + f" {q.get('initial', 0)}"
        for q in spec["queues"]
    ]
    for s in spec["stages"]:
        times = f"{1e3 * s['ms']} {1e3 * s.get('every_ms', 0.0)} 0"
        rows.append(f"stage {s['name']} {times} {' '.join(s['in'])} -> {' '.join(s['out'])}")
    return "\n".join(rows) + "\n"


def command_of(case: Case, folder: Path, seconds: float) -> list[str]:
    if case.runtime == "cpp":
        file = folder / "shape.txt"
        file.write_text(as_text(case.spec), encoding="utf-8")
        return [str(folder.parent / "in_cpp"), str(file), str(seconds)]
    file = folder / "shape.json"
    file.write_text(json.dumps({**case.spec, "seconds": seconds}), encoding="utf-8")
    return [sys.executable, str(PROGRAMS / f"in_{case.runtime}.py"), str(file)]


def compiled(folder: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    options = ["-std=c++20", "-O2", "-DNDEBUG", "-pthread", f"-I{HERE.parent / 'include'}"]
    subprocess.run(
        [compiler, *options, str(PROGRAMS / "in_cpp.cpp"), "-o", str(folder / "in_cpp")], check=True
    )


@dataclass(frozen=True)
class Outcome:
    case: Case
    mark: str
    said: str
    confidence: float
    code: int


def judged(case: Case, folder: Path, seconds: float) -> Outcome:
    """Diagnose a pipeline as a user would, and hold what is said against what is planted."""
    command = ["latlab", "diagnose", "--no-forecast", "--json", "-o", str(folder / "run"), "--seconds",
               str(seconds + 2), "--", *command_of(case, folder, seconds)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 90, check=False)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        return Outcome(case, "failed", done.stderr[-400:], 0.0, done.returncode)
    said = f"{answer['verdict']}: {answer['limiting_stage']} — {answer['sentence']}"
    if answer["distrust"]:
        said += f" [{answer['distrust'][0]}]"
    said += "".join(f" [{doubt['kind']} {doubt['where']} {doubt['other']}]" for doubt in answer["doubts"])
    return Outcome(case, mark(case, answer, done.returncode), said, answer["confidence"], done.returncode)


def mark(case: Case, answer: dict[str, Any], code: int) -> str:
    """right, withheld, misleading or wrong."""
    verdict, name = answer["verdict"], answer["limiting_stage"]
    lines = {line["limiting_stage"] for line in answer.get("lines", ())}
    if case.truth == STOPPED:
        told = [one for one in case.names if one in answer["sentence"] and "stopped" in answer["sentence"]]
        right = bool(told) and verdict == "stopped"
    elif case.truth == STAGE and len(case.names) > 1:
        right = lines == set(case.names)
    elif case.truth in (STAGE, HIDDEN):
        right = name in case.names
    else:
        right = name is None and verdict == case.truth
    if code == 3 or verdict == "cannot tell":
        return "withheld"
    if right:
        return "misleading" if impossible(answer) else "right"
    return "wrong"


def impossible(answer: dict[str, Any]) -> bool:
    """A number that cannot be stands in what is said."""
    import re

    words = [answer["sentence"], *answer["evidence"]]
    return any(float(share) > 101 for text in words for share in re.findall(r"([\d.]+) ?%", text))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", default="", help="shapes or runtimes that hold this text")
    parser.add_argument("--neighbour", action="store_true", help="beside a process that computes")
    parser.add_argument("--json", type=Path, help="where the outcomes are written")
    given = parser.parse_args()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="latlab-shapes-") as temporary:
        compiled(Path(temporary))
        beside = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if given.neighbour else None
        try:
            for number, case in enumerate(cases(given.cases, given.seed)):
                if given.only not in f"{case.shape} {case.runtime}":
                    continue
                folder = Path(temporary) / str(number)
                folder.mkdir()
                found = judged(case, folder, given.seconds)
                shutil.rmtree(folder / "run", ignore_errors=True)
                outcomes.append(found)
                planted = f"{case.truth}: {', '.join(case.names)}"
                print(
                    f"{found.mark:10} {case.shape:15} {case.runtime:10} {planted:28} | {found.said}",
                    flush=True,
                )
        finally:
            if beside is not None:
                beside.kill()
                beside.wait()
    if given.json:
        rows = [
            {"shape": o.case.shape, "runtime": o.case.runtime, "mark": o.mark, "said": o.said}
            for o in outcomes
        ]
        given.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return summary(outcomes)


def summary(outcomes: list[Outcome]) -> int:
    """The counts, the calibration table, the bars."""
    marks = {name: sum(o.mark == name for o in outcomes)
             for name in ("right", "withheld", "misleading", "wrong", "failed")}  # fmt: skip
    print(", ".join(f"{name} {count}" for name, count in marks.items()))
    for low, high in ((0.0, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.01)):
        said = [
            o for o in outcomes if low <= o.confidence < high and o.mark in ("right", "misleading", "wrong")
        ]
        if said:
            right = sum(o.mark != "wrong" for o in said) / len(said)
            print(f"said with {low:.0%} to {min(high, 1):.0%}: {len(said)}, of these right {right:.0%}")
    known = [o for o in outcomes if o.case.truth != HIDDEN]
    total = max(1, len(outcomes))
    return report(
        [
            Bar("wrong with exit code 0", marks["wrong"] / total, 0.01),
            Bar(
                "right where identifiable",
                sum(o.mark == "right" for o in known) / max(1, len(known)),
                0.9,
                at_least=True,
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
