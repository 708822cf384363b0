"""What a native run measured, from its ticks and counts to a measurement in ns."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.messaging.judging.looks import Looks
from latlab.messaging.running.schedule import SendSchedule
from latlab.model.messaging.results import Facts, Measurement, Settings, Side

__all__ = ["collected", "since"]


def collected(
    run: Any,
    settings: Settings,
    facts: Facts,
    plan: SendSchedule,
    *,
    stalls: list[tuple[int, int, int]],
    looks: Looks,
    **known: Any,
) -> Measurement:
    """The measurement of a run that has ended; `known` is what its watcher saw beside the loops."""
    from latlab._core import messaging as core

    (t0, ns0), (t1, ns1) = run.from_, run.to
    hz = (t1 - t0) * 1e9 / (ns1 - ns0)
    base = run.base_ticks
    sender, receiver = run.sender(), run.receiver()
    base_ns = int(ns0 + (base - t0) * 1e9 / hz)
    intended = None
    if plan.paced:
        due = (plan.due_ns(settings.total) * run.ticks_per_ns).astype(np.int64)
        intended = np.rint(due * (1e9 / hz)).astype(np.int64)
    kernel = run.kernel_ns()
    if kernel is not None:
        # CLOCK_REALTIME -> CLOCK_MONOTONIC -> since the base.
        known_stamps = kernel != 0
        shifted = kernel.astype(np.int64) - run.realtime_offset_ns - base_ns
        kernel = np.where(known_stamps, shifted, -1)
        known["notes"] += (f"the kernel stamped {int(known_stamps.sum())} of {settings.total} messages",)
    return Measurement(
        settings=settings,
        facts=facts,
        sent_ns=since(run.sent_ticks(), base, hz),
        received_ns=since(run.received_ticks(), base, hz),
        intended_ns=intended,
        kernel_ns=kernel,
        sender=_side(sender),
        receiver=_side(receiver),
        sender_samples=_sample_ns(run.sender_samples(), base, hz)[:, :3],
        receiver_samples=_sample_ns(run.receiver_samples(), base, hz),
        ticks_hz=hz,
        harness_ns=core.harness_cost(settings.size, rounds=15)[0],
        bytes_per_message=_memory(run, settings, plan),
        locked=run.locked,
        looks=looks.since(base_ns),
        stalls_ns=tuple(
            (n, round((start - base) * 1e9 / hz), round((end - base) * 1e9 / hz)) for n, start, end in stalls
        ),
        **known,
    )


def since(ticks: npt.NDArray[np.uint64], base: int, hz: float) -> npt.NDArray[np.int64]:
    """Ticks as whole ns since the base, -1 where there is none. Rounded once: differences are integers."""
    never = ticks == 0
    ns: npt.NDArray[np.int64] = np.rint((ticks - np.uint64(base)).view(np.int64) * (1e9 / hz)).astype(
        np.int64
    )
    if never.any():
        ns[never] = -1
    return ns


def _sample_ns(samples: npt.NDArray[np.uint64], base: int, hz: float) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = samples.astype(np.int64)
    found[:, 1] = np.rint((found[:, 1] - base) * (1e9 / hz))
    found[:, 3] = np.rint(found[:, 3] * (1e9 / hz))
    found[:, 4] *= 1000
    return found


def _memory(run: Any, settings: Settings, plan: SendSchedule) -> float:
    samples = 2 * (settings.total // settings.sample_every + 2) * 32
    words = 16 + (4 if plan.gaps_ns is not None else 0) + (8 if settings.kernel_stamps else 0)
    return words + samples / settings.total


def _side(d: dict[str, Any]) -> Side:
    number = int(d["error"])
    return Side(
        **{key: int(d[key]) for key in (
            "count", "duplicated", "reordered", "corrupted", "cpu_ns", "minor_faults", "major_faults",
            "voluntary_switches", "involuntary_switches", "waited_ns",
        )},
        errno=number,
        error=os.strerror(number) if number else None,
    )  # fmt: skip
