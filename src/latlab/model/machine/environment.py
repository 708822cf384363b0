"""The environment that a measurement was made in: what a reader must know to believe it, or to repeat it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from latlab.words import duration, number, share

__all__ = ["SCHEMA", "Difference", "Environment", "Fact", "differences"]

# 1: facts by dotted name, each {"value": …} or {"unavailable": why}.
SCHEMA = 1

Value = bool | int | float | str | list[Any]

# Facts that differ between any two runs, or whose change is what a comparison is for: never a warning.
_VOLATILE = frozenset(
    {
        "captured_at",
        "git.revision",
        "git.modified",
        "host.boot_id",
        "host.uptime_s",
        "process.id",
        "cpu.frequency_mhz",
        "load.1min",
        "load.5min",
        "load.runnable",
        "load.steal_share",
    }
)
# Below this difference of running tasks per CPU two loads are the same: one idle shell more or less.
_LOAD_TOLERANCE_PER_CPU = 0.25


@dataclass(frozen=True, slots=True)
class Fact:
    """One item of an environment: its value, or why it is not known.

    Attributes:
        value: what it is; None where it is unavailable.
        unavailable: why it isn't known; None where it is.
    """

    value: Value | None = None
    unavailable: str | None = None

    def __str__(self) -> str:
        if self.unavailable is not None:
            return f"unavailable ({self.unavailable})"
        if isinstance(self.value, list):
            return ", ".join(str(item) for item in self.value)
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Difference:
    """An item that two environments don't share.

    Attributes:
        name: the fact's dotted name.
        left: what it is in the first environment, as text.
        right: what it is in the second.
    """

    name: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.name}: {self.left} against {self.right}"


@dataclass(frozen=True, slots=True)
class Environment:
    """Facts by dotted name ("kernel.release", "cpu.governor", "package.numpy")."""

    facts: Mapping[str, Fact]

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))

    def __getitem__(self, name: str) -> Fact:
        return self.facts[name]

    def __contains__(self, name: object) -> bool:
        return name in self.facts

    def __iter__(self) -> Iterator[str]:
        return iter(self.facts)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a fact, or `default` where it is unavailable or was never asked for."""
        fact = self.facts.get(name)
        return default if fact is None or fact.value is None else fact.value

    def to_json(self) -> dict[str, Any]:
        """As a JSON document; `from_json` reads it back."""
        facts: dict[str, dict[str, Any]] = {}
        for name, fact in self.facts.items():
            known = fact.unavailable is None
            facts[name] = {"value": fact.value} if known else {"unavailable": fact.unavailable}
        return {"schema": SCHEMA, "facts": facts}

    @classmethod
    def from_json(cls, document: Any) -> Environment:
        """Read what `to_json` wrote.

        Raises:
            ValueError: when the document is something else; the message begins with the key.
        """
        if not isinstance(document, Mapping):
            raise ValueError("environment: not an object")
        if document.get("schema") != SCHEMA:
            raise ValueError(f"environment.schema: {document.get('schema')!r} is not {SCHEMA}")
        facts = document.get("facts")
        if not isinstance(facts, Mapping):
            raise ValueError("environment.facts: not an object")
        return cls({str(name): _fact(f"environment.facts.{name}", fact) for name, fact in facts.items()})

    def summary(self) -> str:
        """One line: machine, kernel, virtualisation, clock."""
        parts = [
            f"{self.get('cpu.model', 'unknown CPU')} × {self.get('cpu.count', '?')}",
            f"{self.get('kernel.name', 'kernel')} {self.get('kernel.release', 'unknown')}",
        ]
        hypervisor = self.get("host.hypervisor", "an unknown machine")
        parts.append("bare metal" if hypervisor == "none" else f"on {hypervisor}")
        parts.append(f"governor {self.get('cpu.governor', 'unavailable')}")
        parts.append(f"clock source {self.get('clock.source', 'unavailable')}")
        parts.append(f"load {self.get('load.1min', 'unknown')}")
        return ", ".join(parts)

    def floor(self) -> str:
        """One line: the jitter of the machine itself, below which no latency of this recording lies."""
        fact = self.facts.get("floor.p99.9_ns")
        if fact is None:
            return "not recorded"
        if fact.unavailable is not None:
            return fact.unavailable
        return (
            f"p99.9 {duration(self.get('floor.p99.9_ns', 0))}, "
            f"longest {duration(self.get('floor.max_ns', 0))}, "
            f"{share(self.get('floor.gap_share', 0), digits=2)} of the time "
            f"(`latlab jitter`, {number(round(self.get('floor.age_s', 0) / 3600, 1))} hours before)"
        )


def differences(a: Environment, b: Environment) -> list[Difference]:
    """What makes a comparison of measurements from two environments doubtful.

    Facts that any two runs differ in (time, process id, git revision, the measured floor) are no difference;
    loads are one when they are further apart than a quarter of a task per CPU. A fact that only one side has
    asked for is one, since the other side may have been anything.

    Returns:
        One item per unlike fact, in the order of `a`, then those of `b` alone; empty for like environments.
    """
    found = []
    absent = Fact(unavailable="not recorded")
    for name in dict.fromkeys([*a.facts, *b.facts]):
        left, right = a.facts.get(name, absent), b.facts.get(name, absent)
        if name in _VOLATILE or name.startswith("floor.") or left == right:
            continue
        # Two sides that both could not know it differ in nothing that anybody knows.
        if left.unavailable is not None and right.unavailable is not None:
            continue
        found.append(Difference(name, str(left), str(right)))
    load = _load_difference(a, b)
    return found if load is None else [*found, load]


def _load_difference(a: Environment, b: Environment) -> Difference | None:
    loads = [e.get("load.1min") for e in (a, b)]
    counts = [e.get("cpu.count") for e in (a, b)]
    numbers = [x for x in (*loads, *counts) if isinstance(x, int | float)]
    if len(numbers) < 4 or min(counts) <= 0:
        return None
    per_cpu = [load / count for load, count in zip(loads, counts, strict=True)]
    if abs(per_cpu[0] - per_cpu[1]) <= _LOAD_TOLERANCE_PER_CPU:
        return None
    return Difference("load.1min", str(loads[0]), str(loads[1]))


def _fact(key: str, document: Any) -> Fact:
    if not isinstance(document, Mapping):
        raise ValueError(f"{key}: not an object")
    if "unavailable" in document:
        return Fact(unavailable=str(document["unavailable"]))
    value = document.get("value")
    if not isinstance(value, bool | int | float | str | list):
        raise ValueError(f"{key}: neither a value nor a reason")
    return Fact(value)
