"""A pipeline of threads and `queue.Queue`; two of them where the file names two lines ("part")."""

from __future__ import annotations

import os
import queue
import threading
import time
from typing import Any

import spec as shape

from latlab.queues import instrument


def spin(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def take(items: Any, stage: dict[str, Any]) -> Any:
    while stage.get("polls"):
        try:
            return items.get_nowait()
        except queue.Empty:
            time.sleep(0.0003)
    return items.get()


def run(stage: dict[str, Any], queues: dict[str, Any], seed: int, begin: float) -> None:
    draw, count = shape.Draw(stage, seed), 0
    work = spin if stage.get("work") == "spin" else time.sleep
    pool = queues.get(stage.get("pool", ""))
    next_s = begin
    while True:
        if stage["in"]:
            items = [take(queues[name], stage) for _ in range(stage.get("take", 1)) for name in stage["in"]]
        else:
            items = [count]
            if stage.get("burst") and count % stage["burst"] == 0:
                next_s += stage["every_ms"] / 1e3 * stage["burst"]
            elif not stage.get("burst"):
                next_s += stage.get("every_ms", 0.0) / 1e3
            time.sleep(max(0.0, next_s - time.perf_counter()))
        passed = time.perf_counter() - begin
        if passed > stage.get("ends_after_s", 1e9):
            return
        if passed > stage.get("hangs_after_s", 1e9):
            threading.Event().wait()
        token = pool.get() if pool is not None else None
        if stage.get("ms"):
            work(draw())
        if token is not None and not stage.get("lends"):
            pool.put(token)
        kept = draw.chance() < stage.get("keep", 1.0)
        for name in shape.outputs(stage, count) if kept else ():
            queues[name].put(token if stage.get("lends") else items[0])
        if stage.get("returns"):
            queues[stage["returns"]].put(items[0])
        count += 1


def main() -> None:
    spec = shape.read()
    queues = shape.queues_of(spec, queue.Queue, instrument)
    begin = time.perf_counter()
    for stage in spec["stages"]:
        for number in range(stage["count"]):
            name = f"{stage['name']}-{number}"
            threading.Thread(
                target=run, args=(stage, queues, spec["seed"] + number, begin), name=name, daemon=True
            ).start()
    time.sleep(spec["seconds"])
    os._exit(0)


if __name__ == "__main__":
    main()
