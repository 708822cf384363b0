"""More planted programs: as people write them, with lambdas, methods, pools, coroutines and servers."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from benchmarks.any_program_cases import HERE, MAKERS, Case, maker

__all__ = ["MAKERS"]


def cpp(folder: Path, mode: str, **options: object) -> tuple[str, ...]:
    return (str(folder / "idioms"), mode, "{seconds}", *(f"{key}={value}" for key, value in options.items()))


def python(mode: str, **options: object) -> tuple[str, ...]:
    return (sys.executable, str(HERE / "idioms.py"), mode, "{seconds}",
            *(f"{key}={value}" for key, value in options.items()))  # fmt: skip


@maker
def lambdas(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "lambdas", second=draw.randint(200, 500), first=draw.randint(20, 60))
    return Case("stages as lambdas", command, ("thread",), "enrich|lambda #2")


@maker
def methods(draw: random.Random, folder: Path) -> Case:
    slow = draw.choice(["fetch", "extract", "score"])
    others = {one: draw.randint(20, 60) for one in ("fetch", "extract", "score")}
    command = cpp(folder, "methods", **{**others, slow: draw.randint(200, 500)})
    names = {"fetch": "fetch_pages", "extract": "extract_links", "score": "score_pages"}
    return Case("stages as methods", command, ("thread",), names[slow])


@maker
def polls(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "polls", make=draw.randint(150, 500))
    return Case("a consumer that polls", command, ("thread",), r"make_updates")


@maker
def polled(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "polls", make=3, apply=draw.randint(150, 500))
    return Case("a producer that yields", command, ("thread",), r"apply_updates")


@maker
def own_lock(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "spinlock", inside=draw.randint(150, 500), outside=draw.randint(5, 20))
    return Case("a spin lock", command, ("lock",), "lock|enter", silent=True)


@maker
def guarded(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "mutex", threads=draw.randint(2, 4), inside=draw.randint(150, 500))
    return Case("a mutex", command, ("lock",), "lock")


@maker
def journal(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "journal", bytes=draw.choice([512, 8192]), file=folder / "journal")
    return Case("a journal", command, ("disk",), "journal|fdatasync|commit_record")


@maker
def many(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "many", threads=draw.randint(20, 60), collect=draw.randint(200, 400))
    return Case("many threads", command, ("thread",), "collector")


@maker
def workers(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "workers", slow=draw.randint(300, 800), fast=draw.randint(30, 100))
    return Case("forked workers", command, ("process",), "digest_part|pid")


@maker
def rounds(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "rounds", left=draw.randint(1500, 4000), right=draw.randint(200, 600))
    return Case("std::async in rounds", command, ("thread",), "fold_left")


@maker
def fan(draw: random.Random, folder: Path) -> Case:
    return Case(
        "a fan in", cpp(folder, "fan", merge=draw.randint(100, 300)), ("thread",), r"index_document|lambda #2"
    )


@maker
def heartbeat(draw: random.Random, folder: Path) -> Case:
    return Case("a heartbeat beside", cpp(folder, "heartbeat"), ("thread",), "tokenize|idioms|main")


@maker
def retries(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "retries", pause=draw.choice([1000, 5000]))
    return Case("retries", command, ("timer",), "idioms|retries")


@maker
def tuples(draw: random.Random, folder: Path) -> Case:
    command = python("tuples", scrub=draw.uniform(3, 8), save=draw.uniform(0.3, 1))
    return Case("queues of one line", command, ("timer", "thread"), "scrub")


@maker
def feeder(draw: random.Random, folder: Path) -> Case:
    return Case("threads of Python", python("feeder"), ("lock",), "GIL")


@maker
def line_of_processes(draw: random.Random, folder: Path) -> Case:
    command = python("mpline", one=draw.uniform(0.3, 1), two=draw.uniform(4, 9))
    return Case("a line of processes", command, ("process", "thread"), "step_two|Process-2")


@maker
def executor_of_processes(draw: random.Random, folder: Path) -> Case:
    command = python("executor", job=draw.uniform(10, 40))
    return Case(
        "an executor of processes", command, ("process", "cpu"), "render|worker|idioms|CPU", silent=True
    )


@maker
def nested(draw: random.Random, folder: Path) -> Case:
    return Case("coroutines that wait", python("nested", sleep=draw.uniform(10, 30)), ("timer",), "")


@maker
def tasks(draw: random.Random, folder: Path) -> Case:
    # By its queue the stage that sleeps is the one that its events wait for.
    return Case("tasks that sleep", python("tasks", sleep=draw.uniform(10, 40)), ("timer", "thread"), "")


@maker
def blocks(draw: random.Random, folder: Path) -> Case:
    command = python("blocks", compute=draw.uniform(20, 60))
    return Case("a coroutine that computes", command, ("thread",), "rebuild_index|churn")


@maker
def local_server(draw: random.Random, folder: Path) -> Case:
    command = python("local", server=draw.uniform(8, 25))
    return Case("a local server computes", command, ("process",), "answer_page|churn|idioms.py")


@maker
def sleeping_server(draw: random.Random, folder: Path) -> Case:
    command = python("local", server=draw.uniform(8, 25), sleep=1)
    return Case(
        "a local server sleeps", command, ("process", "timer"), "answer_page|idioms.py|process_request"
    )


@maker
def downloads(draw: random.Random, folder: Path) -> Case:
    command = python("downloads", server=draw.uniform(10, 30))
    return Case("downloads", command, ("process", "timer"), "answer_page|idioms.py|process_request")


@maker
def database(draw: random.Random, folder: Path) -> Case:
    command = python("database", file=folder / f"orders{draw.randint(0, 9999)}.db")
    return Case("a database's inserts", command, ("disk",), "")


@maker
def ready(draw: random.Random, folder: Path) -> Case:
    return Case("a condition", python("ready", produce=draw.uniform(4, 10)), ("timer",), "produce_rows")


@maker
def shells(draw: random.Random, folder: Path) -> Case:
    command = python("shells", sleep=draw.uniform(30, 60))
    return Case("programs in turn", command, ("process", "timer", "thread"), "python|idioms", silent=True)
