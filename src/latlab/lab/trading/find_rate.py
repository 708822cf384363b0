"""Searches the smallest delay between packets at which the pipeline loses nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from latlab.errors import UsageError
from latlab.lab.trading.demo import DemoOptions, run_demo
from latlab.lab.trading.run import PipelineRun
from latlab.model.evidence.pipeline import RateSaid
from latlab.model.evidence.said import said
from latlab.model.queues.observation import Observation
from latlab.system.scratch import scratch
from latlab.words import count, duration

__all__ = ["find_rate", "rose_before"]

_TRIAL_S = 1.5
_SHORTEST_NS, _LONGEST_NS = 200, 1_000_000
_CLOSE = 1.1  # the search ends when the delays that lose and that don't are within this factor
_ROSE = 0.25  # a queue has risen when a quarter of it is full


def find_rate(options: DemoOptions, tell: Callable[[str], None]) -> tuple[DemoOptions, dict[str, Any]]:
    """Bisect the delay on a logarithmic scale, by short runs.

    A rate that loses nothing for a second may lose something in a minute; the run that follows, at the delay
    that was found, shows whether it holds.

    Returns:
        The options of a whole run at the delay that was found, and the search as a JSON-able document.

    Raises:
        UsageError: when the layout's replay has no fixed delay, or the pipeline loses events at any rate
            tried.
    """
    if options.layout.replay.mode != "fixed":
        raise UsageError(
            f"--find-rate needs a fixed delay, and the layout replays in mode '{options.layout.replay.mode}'"
        )
    trials: list[dict[str, Any]] = []

    def lossless(delay_ns: int) -> bool:
        with scratch("rate") as folder:
            trial = dataclasses.replace(
                options, layout=_paced(options, delay_ns), seconds=_TRIAL_S, output=folder / "run"
            )
            packet = trial.layout.replay.packet_messages
            result = _trial(run_demo(trial, lambda _: None), delay_ns, packet)
        trials.append(result)
        tell(f"a packet every {duration(delay_ns)}: {count(result['drops'])} drops")
        return bool(result["drops"] == 0)

    low, high = _bracket(lossless, options.layout.replay.delay_ns)
    while high > low * _CLOSE:
        middle = round((low * high) ** 0.5)
        if lossless(middle):
            high = middle
        else:
            low = middle
    return dataclasses.replace(options, layout=_paced(options, high)), _document(high, trials, options)


def _bracket(lossless: Callable[[int], bool], start_ns: int) -> tuple[int, int]:
    """A delay that loses and one that does not, at most a factor of two apart."""
    delay = max(start_ns, _SHORTEST_NS)
    if lossless(delay):
        while delay > _SHORTEST_NS:
            shorter = max(delay // 2, _SHORTEST_NS)
            if not lossless(shorter):
                return shorter, delay
            delay = shorter
        return delay, delay
    while delay < _LONGEST_NS:
        if lossless(delay * 2):
            return delay, delay * 2
        delay *= 2
    raise UsageError(
        f"the pipeline loses messages even at one packet every {duration(delay)}",
        remedy="see --slow and the layout",
    )


def _paced(options: DemoOptions, delay_ns: int) -> Any:
    replay = dataclasses.replace(options.layout.replay, delay_ns=delay_ns)
    return dataclasses.replace(options.layout, replay=replay)


def _trial(run: PipelineRun, delay_ns: int, packet_messages: int) -> dict[str, Any]:
    drops = sum(queue.drops for queue in run.watched.diagnosis.of_run.queues)
    rose, fill = rose_before(run.watched.observation)
    return {
        "delay_ns": delay_ns,
        "rate_hz": round(1e9 / delay_ns * packet_messages),
        "drops": drops,
        "rose": rose,
        "fill_before_drop": fill,
        "limiting_stage": run.watched.diagnosis.limiting_stage,
    }


def rose_before(observation: Observation) -> tuple[str | None, int | None]:
    """The first queue that had risen before the first drop was seen, and its fill then.

    Returns:
        (None, None) when nothing was dropped; (None, 0) when something was, and no queue had risen before it.
    """
    samples = observation.samples
    dropped = samples["t_ns"][samples["dropped"] > 0]
    if dropped.size == 0:
        return None, None
    first = int(dropped.min())
    found: tuple[int, str, int] | None = None
    for queue in observation.queues:
        before = (samples["queue"] == queue.number) & (samples["t_ns"] < first)
        if queue.kind == "pool" or not queue.capacity or not before.any():
            continue
        fill = samples["in"][before].astype(np.int64) - samples["out_high"][before].astype(np.int64)
        risen = np.flatnonzero(fill >= _ROSE * queue.capacity)
        if risen.size and (found is None or samples["t_ns"][before][risen[0]] < found[0]):
            found = (int(samples["t_ns"][before][risen[0]]), queue.name, int(fill.max()))
    return (None, 0) if found is None else (found[1], found[2])


def _document(delay_ns: int, trials: list[dict[str, Any]], options: DemoOptions) -> dict[str, Any]:
    rate = 1e9 / delay_ns * options.layout.replay.packet_messages
    lost = [trial for trial in trials if trial["drops"]]
    closest = said(RateSaid.NOT_TRIED)
    if lost:
        last = max(lost, key=lambda trial: trial["delay_ns"])
        closest = said(RateSaid.UNSEEN, delay_ns=last["delay_ns"])
        if last["rose"] is not None:
            fill = last["fill_before_drop"]
            closest = said(RateSaid.ROSE, delay_ns=last["delay_ns"], queue=last["rose"], fill=fill)
    sentence = said(RateSaid.FOUND, delay_ns=delay_ns, rate=rate, closest=closest)
    return {"delay_ns": delay_ns, "rate_hz": round(rate), "sentence": sentence, "trials": trials}
