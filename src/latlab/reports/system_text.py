"""The machine as text: environment, findings, clocks, changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from latlab.model.machine.environment import Environment
from latlab.system.clocks import ClockFacts
from latlab.system.settings.catalogue import Finding
from latlab.system.settings.tuning import Change
from latlab.words import duration

__all__ = ["changes", "clock_table", "environment", "findings"]


def environment(seen: Environment) -> str:
    """Every fact on its line, what is unavailable with its reason."""
    width = max((len(name) for name in seen), default=0)
    return "".join(f"{name:<{width}}  {seen[name]}\n" for name in seen)


def findings(found: Sequence[Finding]) -> str:
    """Each setting: its value, and for a bad one its cost and the command that mends it."""
    lines = []
    for one in found:
        if one.unavailable is not None:
            lines.append(f"?   {one.name}: unavailable ({one.unavailable})")
            continue
        lines.append(f"{'ok ' if one.good else 'BAD'} {one.name}: {one.value}")
        if not one.good:
            lines += [f"      costs: {one.cost}", f"      fix:   {one.command}"]
            lines += [f"      see:   {one.source}"] if one.source else []
    bad = sum(one.good is False for one in found)
    unknown = sum(one.unavailable is not None for one in found)
    lines.append(f"{bad} of {len(found)} settings disturb measurements; {unknown} are unavailable")
    return "\n".join(lines) + "\n"


def clock_table(found: Sequence[ClockFacts], use: Mapping[str, str]) -> str:
    """One line a clock, then which to take."""
    lines = ["clock                      kind       native     Python     step       monotonic  use"]
    for one in found:
        step = "?" if math.isnan(one.quantum_ns) else duration(one.quantum_ns)
        steady = "yes" if one.monotonic else "NO"
        native = "-" if one.native_cost_ns is None else duration(one.native_cost_ns)
        cost = duration(one.cost_ns)
        lines.append(
            f"{one.name:<26} {one.kind:<10} {native:<10} {cost:<10} {step:<10} {steady:<10} {one.use}"
        )
    lines += ["", *(f"{what}: {name}" for what, name in use.items())]
    return "\n".join(lines) + "\n"


def changes(done: Sequence[Change]) -> str:
    """What would be, or was, written."""
    lines = []
    for one in done:
        value = "" if one.before is None else f" (was {one.before})"
        lines.append(f"{one.outcome:<12} {one.name}{value}{': ' + one.detail if one.detail else ''}")
    return "\n".join(lines) + ("\n" if lines else "")
