"""What the programs share: the stages and queues of a pipeline, as `benchmarks.shapes` writes them."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from typing import Any


def read() -> dict[str, Any]:
    """The pipeline of the file that the first argument names."""
    with open(sys.argv[1], encoding="utf-8") as file:
        spec: dict[str, Any] = json.load(file)
    for stage in spec["stages"]:
        stage.setdefault("in", [])
        stage.setdefault("out", [])
        stage.setdefault("count", 1)
    return spec


def labels(queue: dict[str, Any]) -> dict[str, str]:
    """Name and ends of a queue as they are told to latlab; swapped where the case wants a wrong label."""
    ends = {"source": queue["from"], "drain": queue["to"]}
    if queue.get("swap"):
        ends = {"source": queue["to"], "drain": queue["from"]}
    return {"name": queue["name"], **ends}


def unseen(spec: dict[str, Any], queue: dict[str, Any]) -> bool:
    """Whether a queue stays as Python has it."""
    return bool(spec.get("plain")) or not queue.get("seen", True)


def queues_of(
    spec: dict[str, Any], make: Callable[[int], Any], instrument: Callable[..., Any]
) -> dict[str, Any]:
    """Every queue by its name, with the events that it begins with; told to latlab, but for the unseen."""
    queues = {}
    for one in spec["queues"]:
        made = make(one["capacity"])
        for _ in range(one.get("initial", 0)):
            made.put_nowait(0)
        queues[one["name"]] = made if unseen(spec, one) else instrument(made, **labels(one))
    return queues


def outputs(stage: dict[str, Any], count: int) -> list[str]:
    """Where an event goes: to all, or to one in turn."""
    names: list[str] = stage["out"]
    return [names[count % len(names)]] if stage.get("route") and names else names


class Draw:
    """Service times of a stage: a mean, and a third of it up or down."""

    def __init__(self, stage: dict[str, Any], seed: int) -> None:
        self._random = random.Random(f"{seed} {stage['name']}")
        self._mean_s = stage.get("ms", 0.0) / 1e3

    def __call__(self) -> float:
        return self._mean_s * self._random.uniform(0.7, 1.3)

    def chance(self) -> float:
        """Between 0 and 1."""
        return self._random.random()
