"""More planted programs: as people write them, with lambdas, methods, pools, coroutines and servers."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import any_program_cases as cases
from benchmarks.any_program_cases import MAKERS, Case, maker, planted

__all__ = ["MAKERS"]


cpp, python = partial(cases.cpp, built="idioms"), partial(cases.python, source="idioms.py")


planted("stages as lambdas", cpp, "lambdas second=200..500 first=20..60", ("thread",), "enrich|lambda #2")


@maker
def methods(draw: random.Random, folder: Path) -> Case:
    slow = draw.choice(["fetch", "extract", "score"])
    others: dict[str, Any] = {one: draw.randint(20, 60) for one in ("fetch", "extract", "score")}
    command = cpp(folder, "methods", **{**others, slow: draw.randint(200, 500)})
    names = {"fetch": "fetch_pages", "extract": "extract_links", "score": "score_pages"}
    return Case("stages as methods", command, ("thread",), names[slow])


planted("a consumer that polls", cpp, "polls make=150..500", ("thread",), "make_updates")
planted("a producer that yields", cpp, "polls make=3 apply=150..500", ("thread",), "apply_updates")
planted("a spin lock", cpp, "spinlock inside=150..500 outside=5..20", ("lock",), "lock|enter", silent=True)
planted("a mutex", cpp, "mutex threads=2..4 inside=150..500", ("lock",), "lock")


@maker
def journal(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "journal", bytes=draw.choice([512, 8192]), file=folder / "journal")
    return Case("a journal", command, ("disk",), "journal|fdatasync|commit_record")


planted("many threads", cpp, "many threads=20..60 collect=200..400", ("thread",), "collector")
planted("forked workers", cpp, "workers slow=300..800 fast=30..100", ("process",), "digest_part|pid")
planted("std::async in rounds", cpp, "rounds left=1500..4000 right=200..600", ("thread",), "fold_left")
planted("a fan in", cpp, "fan merge=100..300", ("thread",), "index_document|lambda #2")
planted("a heartbeat beside", cpp, "heartbeat", ("thread",), "tokenize|idioms|main")
planted("retries", cpp, "retries pause=1000|5000", ("timer",), "idioms|retries")
planted("queues of one line", python, "tuples scrub=3.0..8.0 save=0.3..1.0", ("timer", "thread"), "scrub")
planted("threads of Python", python, "feeder", ("lock",), "GIL")
planted(
    "a line of processes",
    python,
    "mpline one=0.3..1.0 two=4.0..9.0",
    ("process", "thread"),
    "step_two|Process-2",
)
planted(
    "an executor of processes",
    python,
    "executor job=10.0..40.0",
    ("process", "cpu"),
    "render|worker|idioms|CPU",
    silent=True,
)
planted("coroutines that wait", python, "nested sleep=10.0..30.0", ("timer",))


@maker
def tasks(draw: random.Random, folder: Path) -> Case:
    # By its queue the stage that sleeps is the one that its events wait for.
    return Case(
        "tasks that sleep", python(folder, "tasks", sleep=draw.uniform(10, 40)), ("timer", "thread"), ""
    )


planted("a coroutine that computes", python, "blocks compute=20.0..60.0", ("thread",), "rebuild_index|churn")
planted(
    "a local server computes", python, "local server=8.0..25.0", ("process",), "answer_page|churn|idioms.py"
)
planted(
    "a local server sleeps",
    python,
    "local server=8.0..25.0 sleep=1",
    ("process", "timer"),
    "answer_page|idioms.py|process_request",
)
planted(
    "downloads",
    python,
    "downloads server=10.0..30.0",
    ("process", "timer"),
    "answer_page|idioms.py|process_request",
)


@maker
def database(draw: random.Random, folder: Path) -> Case:
    command = python(folder, "database", file=folder / f"orders{draw.randint(0, 9999)}.db")
    return Case("a database's inserts", command, ("disk",), "")


planted("a condition", python, "ready produce=4.0..10.0", ("timer",), "produce_rows")
planted(
    "programs in turn",
    python,
    "shells sleep=30.0..60.0",
    ("process", "timer", "thread"),
    "python|idioms",
    silent=True,
)
