"""A pipeline of processes, one for each stage, and `multiprocessing.Queue`."""

from __future__ import annotations

import multiprocessing
import os
import time
from typing import Any

import in_threads
import spec as shape

from latlab.queues import MultiprocessingQueue


def main() -> None:
    spec = shape.read()
    context = multiprocessing.get_context("fork")
    queues: dict[str, Any] = {}
    for one in spec["queues"]:
        if shape.unseen(spec, one):
            queues[one["name"]] = context.Queue(one["capacity"])
        else:
            queues[one["name"]] = MultiprocessingQueue(one["capacity"], ctx=context, **shape.labels(one))
        for _ in range(one.get("initial", 0)):
            queues[one["name"]].put(0)
    begin = time.perf_counter()
    children = []
    for stage in spec["stages"]:
        for number in range(stage["count"]):
            child = context.Process(
                target=in_threads.run,
                args=(stage, queues, spec["seed"] + number, begin),
                name=f"{stage['name']}-{number}",
                daemon=True,
            )
            child.start()
            children.append(child)
    time.sleep(spec["seconds"])
    for child in children:
        child.kill()
    os._exit(0)


if __name__ == "__main__":
    main()
