"""Jitter as text: the classic histogram, the ranking of sources, the beat.

Comparisons and the core matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise

from latlab.jitter import (
    INFINITE,
    Comparison,
    CoreMatrix,
    Histogram,
    Study,
    automatic_range,
    clearest_spectrum,
    histogram,
    recommendations,
)
from latlab.model.machine.jitter import CoreJitter, Exceeded, JitterResult, Source
from latlab.words import count, duration, frequency, number, plural, printable, share, short

__all__ = [
    "above_floor",
    "classic",
    "comparison",
    "matrix",
    "spectrum_plot",
    "study_table",
    "summary",
]

_MOST_RAN = 24  # lines of a gap that ended a run
_LONGER = 1.5  # the gaps of a thread over what it ran itself
_HEAD = "Time     Ticks      {what:<13}   Percent  Cumulative  "


def classic(
    core: CoreJitter,
    *,
    bins: int = 20,
    min_ticks: int | None = None,
    knee_ticks: int | None = None,
    width: int = 80,
    sums: bool = False,
) -> str:
    """The view of the original system latency jitter test: 28 lines by 80 columns with the defaults."""
    automatic = min_ticks is None and knee_ticks is None
    low, high = automatic_range(core, bins)
    low = low if min_ticks is None else min_ticks
    if knee_ticks is None:
        knee_ticks = max(high, low + bins // 2)
    seen = histogram(core.values_ticks, core.counts, bins, low, knee_ticks)
    lines = _rows(core, seen, width, sums)
    wall = core.wall_ticks or 1
    lines += [
        "",
        f"Timing was measured for {duration(core.ns(core.pure_ticks))}, "
        f"{share(core.pure_ticks / wall, digits=2)} of runtime "
        f"({share(core.gap_ticks / wall, digits=2)} gaps)",
        f"CPU {core.cpu}: counter {frequency(core.counter_hz, digits=6)} in steps of "
        f"{plural(core.quantum_ticks, 'tick')} over {core.deltas} deltas",
        "Min / Average / Std Dev / Max : "
        f"{core.min_ticks} / {core.mean_ticks:.0f} / {core.std_dev_ticks:.0f} / {core.max_ticks} ticks",
        "Min / Average / Std Dev / Max : "
        + " / ".join(
            duration(core.ns(x))
            for x in (core.min_ticks, core.mean_ticks, core.std_dev_ticks, core.max_ticks)
        ),
    ]
    advice = [] if automatic else recommendations(seen, core.min_ticks)
    fitting = "Min and knee were chosen for these samples" if automatic else "Min and knee fit these samples"
    lines.append(f"Recommended: {'; '.join(advice)}" if advice else fitting)
    return "\n".join(line[: max(width, 80)] for line in lines) + "\n"


def _rows(core: CoreJitter, seen: Histogram, width: int, sums: bool) -> list[str]:
    head = _HEAD.format(what="Sum" if sums else "Count")
    values: Sequence[float] = [core.ns(x) for x in seen.sums_ticks] if sums else seen.counts
    total, running = sum(values) or 1, 0.0
    scale = (width - len(head)) / max(_log(max(values)), 1e-9)
    lines = [f"{head}{'Graph ln(Sum)' if sums else 'Graph ln(Count)'}"[:width]]
    for index, (bound, value) in enumerate(zip(seen.bounds_ticks, values, strict=True)):
        running += value
        stars = max(round(scale * _log(value)), 1 if value else 0)
        time, ticks = (
            ("Infinite", "Infinite") if bound == INFINITE else (duration(core.ns(bound)), str(bound))
        )
        shown = duration(value) if sums else str(int(value))
        lines.append(
            f"{time:<8} {ticks:<10} {shown:<13} {share(value / total, digits=3):>9} "
            f"{share(running / total, digits=4):>11}  "
            f"{'*' * stars}".rstrip()
        )
        if index + 1 == len(values) // 2:
            lines.append("")
    return lines


def _log(value: float) -> float:
    """Looks good from a handful to billions, and is 0 for nothing."""
    return math.log1p(value)


def summary(result: JitterResult, *, most: int = 12) -> str:
    """Cores, sources by time, layers, and the beat."""
    lines = ["cpu  deltas/s   pure    gaps/s   min      p50      p99      p99.9    max"]
    for core in result.cores:
        seconds = core.ns(core.wall_ticks) / 1e9 or 1.0
        points = " ".join(f"{duration(core.ns(core.percentile_ticks(p))):<8}" for p in (50, 99, 99.9))
        pure = share(core.pure_ticks / (core.wall_ticks or 1), digits=2)
        lines.append(
            f"{core.cpu:<4} {short(core.deltas / seconds):>8}  {pure:>8} "
            f"{number(core.outliers / seconds):>8}   {duration(core.ns(core.min_ticks)):<8} {points} "
            f"{duration(core.ns(core.max_ticks))}"
        )
    if result.sources:
        lines += [
            "",
            "gap time by source",
            "total     itself    worst     count   rate/s   cpu  layer                   source",
        ]
        for one in result.sources[:most]:
            total = "?" if one.total_ns is None else duration(one.total_ns)
            worst = "?" if one.max_ns is None else duration(one.max_ns)
            itself = "?" if one.ran_ns is None else duration(one.ran_ns)
            lines.append(
                f"{total:<9} {itself:<9} {worst:<9} {one.count:<7} {number(one.rate_hz):<8} {one.cpu:<4} "
                f"{one.layer:<23} {one.kind}: {printable(one.name)}"
            )
        if len(result.sources) > most:
            lines.append(f"… and {len(result.sources) - most} more (--json lists them all)")
        lines += _longer(result.sources)
    if result.layers_ns:
        each = sorted(result.layers_ns.items(), key=lambda item: -item[1])
        lines += ["", "by layer: " + ", ".join(f"{name} {duration(ns)}" for name, ns in each)]
    if result.attributed is not None:
        joined = result.attributed if result.joined is None else result.joined
        every = "All" if result.attributed > 0.9995 else share(result.attributed)
        text = f"{every} gap time attributed" if every == "All" else f"{every} of gap time attributed"
        if result.attributed - joined > 5e-4:
            text += (
                f": {share(joined, digits=0)} to kernel events, "
                f"{share(result.attributed - joined, digits=0)} to the hypervisor or firmware"
            )
        lines.append(text)
    if result.own_ns:
        lines.append(f"latlab's own threads took {duration(result.own_ns)} of the gap time (not listed)")
    lines += _exceeded(result.exceeded)
    for period in result.periods:
        lines.append(
            f"Periodic on CPU {period.cpu}, every {period.cause} (phase {duration(period.phase_ns)},"
            f" p = {period.p_value:.1g}, {share(period.share, digits=0)} of its beats came)"
        )
    return "\n".join(lines) + "\n"


def _longer(sources: Sequence[Source]) -> list[str]:
    """Who costs clearly more than it runs: the way in and out, and what is cold after it."""
    lines = []
    for one in sources:
        if one.kind == "thread" and one.ran_ns and one.gaps_ns and one.gaps_ns > _LONGER * one.ran_ns:
            ran, gaps = duration(one.ran_ns), duration(one.gaps_ns)
            lines.append(f"{printable(one.name)} ran for {ran} on CPU {one.cpu}; its gaps took {gaps}")
    return lines[:3]


def _exceeded(gap: Exceeded | None) -> list[str]:
    """The gap that ended the run, and what ran in it."""
    if gap is None:
        return []
    lines = [
        "",
        f"Stopped by a gap of {duration(gap.length_ns)} on CPU {gap.cpu}, "
        f"{duration(gap.at_ns)} after the start",
    ]
    ran = [list(each) for _, each in groupby(gap.ran or (), key=lambda one: one[:2])]
    for each in ran[:_MOST_RAN]:
        kind, name, after, _ = each[0]
        times = f", {count(len(each))} times" if len(each) > 1 else ""
        taken = duration(sum(one[3] for one in each))
        at = f"{'+' if after > 0 else ''}{duration(after)}"
        lines.append(f"  {at:>13}  {taken:<8} {kind}: {printable(name)}{times}")
    if len(ran) > _MOST_RAN:
        lines.append(f"  … and {count(len(ran) - _MOST_RAN)} more (--json lists them all)")
    if gap.ran is None:
        lines.append("  what ran in it is not known: the kernel's events were not recorded")
    elif not gap.ran:
        lines.append("  nothing of this kernel was seen in it")
    return [*lines, f"  {gap.trace}"] if gap.trace else lines


def comparison(found: Comparison) -> str:
    """What changed."""
    lines = ["figure                          before      after       ratio  95% interval     verdict"]
    for one in found.changes:
        lines.append(
            f"{one.name:<30} {one.before:10.3f} {one.after:10.3f}  {one.ratio:8.3f}  "
            f"{one.low:.3f} to {one.high:.3f}   {one.verdict}"
        )
    return "\n".join(lines) + "\n"


def matrix(found: CoreMatrix) -> str:
    """The core-to-core matrix in ns one way."""
    lines = ["one way, ns " + "".join(f"{cpu:>8}" for cpu in found.cpus)]
    for cpu, row in zip(found.cpus, found.median_ns, strict=True):
        lines.append(f"cpu {cpu:<8}" + "".join("       -" if math.isnan(x) else f"{x:8.1f}" for x in row))
    return "\n".join(lines) + "\n"


def above_floor(result: JitterResult, width: int = 80) -> str:
    """The task's repetitions and the machine's own deltas on one axis: a line a factor of two.

    Shares as bars.
    """
    machine, task = result.cores[0], result.cores[-1]
    top = max(machine.ns(machine.max_ticks), task.ns(task.max_ticks))
    bounds = [2.0**k for k in range(3, max(4, math.ceil(math.log2(max(top, 16.0)))) + 1)]
    shares = [_shares(core, bounds) for core in (machine, task)]
    bar = max(8, (width - 34) // 2)
    lines = [f"{'up to':<9} {'machine':<{bar + 10}} task: {result.task}"[:width]]
    for bound, own, tasks in zip(bounds, *shares, strict=True):
        cells = [f"{share(part, digits=3):>9} {'*' * math.ceil(bar * part):<{bar}}" for part in (own, tasks)]
        lines.append(f"{duration(bound):<9}{cells[0]} {cells[1]}".rstrip()[:width])
    floor, own50 = machine.ns(machine.percentile_ticks(99.9)), task.ns(task.percentile_ticks(50))
    spread = task.ns(task.percentile_ticks(99.9)) - own50
    lines.append(
        f"the task's p99.9 is {duration(spread)} above its p50; the machine's own p99.9 is {duration(floor)}"
    )
    return "\n".join(lines) + "\n"


def _shares(core: CoreJitter, bounds: Sequence[float]) -> list[float]:
    total, low, shares = int(core.counts.sum()) or 1, -1.0, []
    values = core.values_ticks * 1e9 / core.counter_hz
    for bound in bounds:
        rows = (values > low) & (values <= bound)
        shares.append(float(core.counts[rows].sum()) / total)
        low = bound
    return shares


def study_table(found: Study) -> str:
    """One line a condition: the lower median over its rounds."""
    lines = ["condition              p50      p99.9    max      gaps/s     gap time   rounds"]
    for name in dict.fromkeys(sorted(row.condition for row in found.rows)):
        rows = [row for row in found.rows if row.condition == name]
        middle = {
            key: sorted(getattr(row, key) for row in rows)[(len(rows) - 1) // 2]
            for key in ("p50_ns", "p999_ns", "max_ns", "gaps_per_second", "gap_share")
        }
        times = " ".join(f"{duration(middle[key]):<8}" for key in ("p50_ns", "p999_ns", "max_ns"))
        lines.append(
            f"{name:<22} {times} {number(middle['gaps_per_second']):<10} "
            f"{share(middle['gap_share'], digits=3):>9}  {len(rows)}"
        )
    return "\n".join(lines) + "\n"


def spectrum_plot(result: JitterResult, width: int = 80, *, rows: int = 16) -> str:
    """The highest power in each of `rows` bands of frequency, a bar each, and the beats that were found."""
    lines = []
    for core in result.cores:
        seen = clearest_spectrum(core.gap_start_ns, core.gap_each_ns)
        if seen is None:
            lines.append(f"CPU {core.cpu}: {len(core.gap_start_ns)} outliers are too few for a spectrum")
            continue
        low, high = float(seen.frequency_hz[0]), float(seen.frequency_hz[-1])
        edges = [low * (high / low) ** (k / rows) for k in range(rows + 1)]
        bands = [seen.power[(seen.frequency_hz >= a) & (seen.frequency_hz <= b)] for a, b in pairwise(edges)]
        peaks = [float(band.max()) if len(band) else 0.0 for band in bands]
        scale = max(1, width - 34) / max(math.log1p(max(peaks)), 1e-9)
        lines.append(f"CPU {core.cpu}: frequency            power  (1 is chance)")
        for (a, b), peak in zip(pairwise(edges), peaks, strict=True):
            stars = "*" * round(scale * math.log1p(peak))
            lines.append(f"{frequency(a):>9} to {frequency(b):>9} {peak:8.1f}  {stars}")
        beats = [one for one in result.periods if one.cpu == core.cpu]
        told = [f"{frequency(1e9 / one.period_ns, digits=5):>12} is a beat: {one.cause}" for one in beats]
        lines += [one[:width] for one in told]
    return "\n".join(lines) + "\n"
