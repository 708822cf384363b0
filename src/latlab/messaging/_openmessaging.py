"""Workload files of the OpenMessaging Benchmark (YAML), as options of a run.

They have one key a line. What says how a topic is spread inside a product (partitions, keys) or what is in a
message has no counterpart here and is left aside; what would make it another experiment is refused.
Source: github.com/openmessaging/benchmark, Workload.java.
"""

from __future__ import annotations

import os
import re
from typing import Any

from latlab.errors import InputError
from latlab.words import nearest

__all__ = ["is_openmessaging", "read_openmessaging"]

_ASIDE = (
    "name", "partitionsPerTopic", "keyDistributor", "payloadFile", "useRandomizedPayloads",
    "randomBytesRatio", "randomizedPayloadPoolSize", "backlogDrainRatio",
)  # fmt: skip
# With the value that it has where it isn't given.
_NUMBERS = {
    "topics": 1.0, "messageSize": 1024.0, "subscriptionsPerTopic": 1.0, "producersPerTopic": 1.0,
    "consumerPerSubscription": 1.0, "producerRate": 0.0, "testDurationMinutes": 5.0,
    "warmupDurationMinutes": 1.0, "consumerBacklogSizeGB": 0.0,
}  # fmt: skip


def is_openmessaging(path: str | os.PathLike[str]) -> bool:
    """Whether a workload file is one by its name."""
    return os.fspath(path).endswith((".yaml", ".yml"))


def read_openmessaging(path: str | os.PathLike[str], text: str) -> dict[str, Any]:
    """The options of a run that such a file asks for. Its transport is chosen elsewhere.

    Raises:
        InputError: for what it asks for and no run can do, and for what can't be read.
    """
    numbers = dict(_NUMBERS)
    for place, line in enumerate(text.splitlines(), start=1):
        line = re.sub(r"(^|\s)#.*", "", line).rstrip()
        if not line or line == "---":
            continue
        key, colon, value = line.partition(":")
        if not colon or key != key.strip():
            raise InputError(path, "is not a key and its value", place=f"line {place}")
        if key in _ASIDE:
            continue
        if key not in numbers:
            remedy = nearest(key, [*numbers, *_ASIDE]) or None
            raise InputError(path, "is not a key of an OpenMessaging workload", place=key, remedy=remedy)
        try:
            numbers[key] = float(value.strip().strip("'\""))
        except ValueError:
            raise InputError(path, f"{value.strip()} is not a number", place=key) from None
    return _options(path, numbers)


def _options(path: str | os.PathLike[str], numbers: dict[str, float]) -> dict[str, Any]:
    if numbers["topics"] != 1:
        raise InputError(path, "a run has one topic", place="topics", remedy="say topics: 1")
    if numbers["consumerBacklogSizeGB"] > 0:
        remedy = "leave it out, and stop the server with --stall to have a backlog"
        raise InputError(path, "a run builds no backlog first", place="consumerBacklogSizeGB", remedy=remedy)
    groups = int(numbers["subscriptionsPerTopic"])
    found: dict[str, Any] = {
        "size": int(numbers["messageSize"]),
        "senders": int(numbers["producersPerTopic"]),
        "groups": groups,
        "receivers": groups * int(numbers["consumerPerSubscription"]),
    }
    rate, minutes = numbers["producerRate"], numbers["testDurationMinutes"]
    if rate > 0:
        found["rate"] = [f"{rate:.12g}"]
        found["messages"] = max(1, round(rate * 60 * minutes))
        found["warmup"] = round(rate * 60 * numbers["warmupDurationMinutes"])
    else:
        found["duration"] = f"{60 * minutes:.12g}"
    return found
