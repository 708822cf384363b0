"""What `latlab bench` found, as text and as JSON documents."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from latlab import words
from latlab.model.bench import Control, Judgement, Measure, Plan, Sample
from latlab.model.evidence.said import data_of
from latlab.model.machine.environment import Environment
from latlab.stats.quantiles import nearest_rank, quantile_name
from latlab.words import duration, plural, relative, share

__all__ = [
    "control_json",
    "costs_text",
    "counted",
    "csv_lines",
    "interval",
    "judgement_json",
    "judgement_text",
    "measure_json",
    "study_findings",
    "study_text",
    "summary_json",
    "summary_text",
]

_COSTS = {
    "instructions": "instructions",
    "branches": "branches",
    "branch_misses": "branch misses",
    "cache_misses": "cache misses",
}
QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
_TAIL = 0.9  # from here on a quantile is of operations, never of a batch's means


def summary_json(
    name: str,
    samples: Sequence[Sample],
    *,
    mean: bool = False,
    costs: Mapping[str, float] | None = None,
    uncounted: str = "",
) -> dict[str, Any]:
    """The quick summary of a benchmark.

    A quantile that the values can't tell from the maximum is null. A batch's mean hides the run that was
    slow: the tail of batches is that of the runs which were timed one by one between them, or null. Where the
    clock, whose step is a part of such a run, can't tell it from the batches' means, it is not below those.
    """
    times = np.concatenate([s.times_ns for s in samples])
    first = samples[0]
    batched = any(s.batch > 1 for s in samples)
    tail = np.concatenate([s.singles_ns for s in samples]) if batched else times
    least = float(times.min())
    summary: dict[str, Any] = {"count": len(times), "min": least}
    for q in QUANTILES:
        values = times if q < _TAIL else tail
        carried = len(values) * (1 - q) >= 1 - 1e-9
        key = quantile_name(q)
        summary[key] = max(least, nearest_rank(values, q)) if carried else None
        least = summary[key] or least
    summary["max"] = max(least, float(tail.max())) if len(tail) else None
    if mean:
        summary["mean"] = float(times.mean())
    warnings = []
    withheld = [key for key, value in summary.items() if value is None]
    if withheld and len(tail):
        warnings.append(
            f"{len(tail)} values can't carry {', '.join(withheld)}; raise --iterations or --processes"
        )
    elif withheld:
        own = "" if first.quantum_ns else ": the program batches them itself"
        warnings.append(
            f"{', '.join(withheld)}: the mean of a batch hides the run that was slow, and none was timed by "
            f"itself{own or '; give --batch 1'}"
        )
    shortest = min(float(s.times_ns.min()) * s.batch * s.operations for s in samples)
    if shortest < 20 * first.quantum_ns:
        warnings.append(
            f"an iteration of {duration(shortest)} is less than 20 steps of the clock "
            f"({duration(first.quantum_ns)})"
        )
    return {
        "name": name,
        "unit": "ns",
        "summary": summary,
        "processes": len(samples),
        "iterations": len(first.times_ns),
        "batch": first.batch,
        "operations": first.operations,
        "one_by_one": len(tail) if batched else 0,
        "clock": {
            "quantum_ns": first.quantum_ns,
            "read_ns": first.read_ns,
            "source": "time-stamp counter, tied to CLOCK_MONOTONIC",
        },
        "context": list(first.context),
        "rates": _rates(first, summary["p50"]),
        "costs": {name: total / first.operations for name, total in (costs or {}).items()},
        "costs_why": uncounted,
        "warnings": warnings,
    }


def _one_by_one(document: Mapping[str, Any]) -> str:
    """Where the tail of a benchmark comes from whose iterations are batches."""
    count = document["one_by_one"]
    return f" (min to p75 of their means, p90 to max of {count:,} timed one by one)" if count else ""


def _rates(sample: Sample, p50_ns: float | None) -> dict[str, float]:
    """Items and bytes a second at the median time, where the fixture says how many a run handles."""
    run_s = (p50_ns or math.nan) * sample.operations * 1e-9
    found = {"items_per_s": sample.items / run_s, "bytes_per_s": sample.bytes / run_s}
    return {name: value for name, value in found.items() if value > 0}


def costs_text(document: Mapping[str, Any], *, why: bool = True) -> str:
    """What an operation costs beside its time, and how much it handles; empty where nothing is known."""
    costs, parts = document["costs"], []
    rates = document["rates"]
    if "items_per_s" in rates:
        parts.append(f"{words.count(rates['items_per_s'])} items/s")
    if "bytes_per_s" in rates:
        parts.append(f"{words.size(rates['bytes_per_s'])}/s")
    for name, what in _COSTS.items():
        if name in costs:
            parts.append(f"{words.number(costs[name])} {what}")
    if "voluntary_switches" in costs:
        switches = costs["voluntary_switches"] + costs["involuntary_switches"]
        parts.append(f"{words.number(switches)} context switches")
        parts.append(f"{words.number(costs['minor_faults'] + costs['major_faults'])} page faults")
    if "allocations" in costs:
        allocated = words.size(costs["allocated_bytes"])
        parts.append(f"{words.number(costs['allocations'])} allocations ({allocated})")
    lines = [f"# {document['name']}: an operation: {', '.join(parts)}"] if parts else []
    if why and document["costs_why"]:
        lines.append(f"# {document['name']}: costs beside the time not counted: {document['costs_why']}")
    return "\n".join(lines)


def summary_text(documents: Iterable[Mapping[str, Any]]) -> str:
    """The quick summaries as a table, one line a benchmark, in nanoseconds."""
    documents = list(documents)
    keys = list(documents[0]["summary"]) if documents else []
    width = max([4, *(len(d["name"]) for d in documents)])
    lines = [" ".join([f"{'ns':<{width}}", *(f"{key:>10}" for key in keys)])]
    for document in documents:
        cells = (_number(document["summary"][key]) for key in keys)
        lines.append(" ".join([f"{document['name']:<{width}}", *(f"{cell:>10}" for cell in cells)]))
    for document in documents:
        clock = document["clock"]
        grain = f"clock step {duration(clock['quantum_ns'])}, reading {duration(clock['read_ns'])}"
        if not clock["quantum_ns"]:
            grain = "timed by the program itself"
        lines.append(
            f"# {document['name']}: {document['processes']} processes of {document['iterations']} "
            "iterations, "
            f"{document['batch']} runs an iteration{_one_by_one(document)}; {grain}; "
            f"{', '.join(document['context']) or 'plain scheduling'}"
        )
    # What holds for several is said once.
    whys: dict[str, list[str]] = {}
    for document in documents:
        whys.setdefault(document["costs_why"], []).append(document["name"])
    lines += filter(None, (costs_text(d, why=len(whys[d["costs_why"]]) == 1) for d in documents))
    for why, names in whys.items():
        if why and len(names) > 1:
            lines.append(f"# costs beside the time of {len(names)} benchmarks not counted: {why}")
    return "\n".join(lines)


def csv_lines(
    environment: Environment, meta: Mapping[str, Any], tests: Mapping[str, Sequence[Sample]]
) -> str:
    """The traditional lines `testcase,nanoseconds`, after the environment and configuration in `#` lines."""
    out = io.StringIO()
    for key, value in meta.items():
        out.write(f"# {key}: {value}\n")
    for key in environment:
        out.write(f"# {key}: {environment[key]}\n")
    writer = csv.writer(out, lineterminator="\n")
    for name, samples in tests.items():
        for sample in samples:
            writer.writerows((name, repr(float(t))) for t in sample.times_ns)
    return out.getvalue()


def judgement_json(
    judgement: Judgement, plan: Plan | Mapping[str, Any] | None = None, *, name: str = ""
) -> dict[str, Any]:
    """The verdict's document."""
    result = judgement.result
    out: dict[str, Any] = {
        "verdict": result.verdict.value,
        "effect": result.effect,
        "interval": list(result.interval),
        "p_value": result.p_value,
        "pairs": result.pairs,
        "needed_pairs": result.needed_pairs,
        "why": result.why,
        "name": name,
        "alpha": result.alpha,
        "smallest_effect": result.smallest_effect,
        "smallest_effect_why": judgement.smallest_effect_why,
        "typical_ns": [t if math.isfinite(t) else None for t in judgement.typical_ns],
        "decided_by": judgement.decided_by,
        "measures": [measure_json(m) for m in judgement.measures],
        "shifts": [dataclasses.asdict(shift) for shift in judgement.shifts],
        "warnings": list(judgement.warnings),
        "warnings_data": data_of(judgement.warnings),
        "details": judgement.details,
    }
    if plan is not None:
        out["plan"] = dataclasses.asdict(plan) if isinstance(plan, Plan) else dict(plan)
    return out


def measure_json(measure: Measure) -> dict[str, Any]:
    """What one of the measures says by itself."""
    result = measure.result
    return {
        "name": measure.name,
        "verdict": result.verdict.value,
        "effect": result.effect,
        "interval": list(result.interval),
        "p_value": result.p_value,
        "margin": result.smallest_effect,
    }


def judgement_text(document: Mapping[str, Any]) -> str:
    """The verdict in some lines."""
    effect = relative(document["effect"], signed=True)
    a, b = document["typical_ns"]
    lines = [
        f"{document['name']}: {document['verdict']}",
        f"  B against A  {effect}  {interval(document['interval'])} at "
        f"{share(1 - document['alpha'], digits=0)}, p = {document['p_value']:.2g}",
        f"  A {duration(a)}, B {duration(b)} an operation; {document['pairs']} process pairs",
        f"  {document['why']}",
        f"  smallest effect that matters: {document['smallest_effect_why']}",
    ]
    lines += _reach(document) if document["verdict"] == "inconclusive" else []
    for measure in document.get("measures", ()):
        name = "mean per operation" if measure["name"] == "mean" else measure["name"]
        lines.append(
            f"  {name}: {measure['verdict']} {_percent(measure['effect'])}  {interval(measure['interval'])}"
        )
    for shift in document["shifts"]:
        if shift["withheld"]:
            lines.append(f"  {shift['quantile']:<6} withheld: {shift['withheld']}")
        else:
            ends = interval(shift["interval"])
            lines.append(f"  {shift['quantile']:<6} {_percent(shift['effect'])}  {ends}")
    layouts = document["details"].get("layouts", {})
    if layouts.get("deviation") is not None:
        varies = share(layouts["deviation"], digits=2)
        lines.append(f"  from pair to pair, and so from layout to layout, the ratio varies by {varies}")
    if document.get("plan"):
        lines.append(f"  plan: {document['plan']['why']}")
    return "\n".join(lines)


def _reach(document: Mapping[str, Any]) -> list[str]:
    """What an inconclusive comparison could have seen, and the budget that sees more."""
    found = document["details"].get("findable")
    if not found:
        return []
    seen = found["effect"]
    count = counted(document["pairs"], "pair")
    line = f"  {count} can't show any change here"
    if seen is not None:
        line = f"  {count} show a change of {relative(seen)} here (in nine of ten such experiments)"
    # The largest that they don't show.
    more = next((e for e in found["pairs"] if e["pairs"] and (seen is None or e["effect"] < seen)), None)
    if more is not None:
        line += f"; {share(more['effect'], digits=0)} takes {counted(more['pairs'], 'pair')}"
        pair_s = (document.get("plan") or {}).get("pair_s")
        line += f": --seconds {_seconds(1.25 * more['pairs'] * pair_s)}" if pair_s else ""
    return [line]


def _seconds(seconds: float) -> int:
    """Rounded up to two digits."""
    unit = int(10 ** max(0, math.floor(math.log10(max(seconds, 1))) - 1))
    return unit * math.ceil(seconds / unit)


def control_json(control: Control) -> dict[str, Any]:
    """The null control's document."""
    return {
        "comparisons": control.comparisons,
        "called_different": control.called_different,
        "rate": control.rate,
        "upper95": control.upper95,
        "alpha": control.alpha,
        "failed": control.failed,
    }


def study_text(document: Mapping[str, Any]) -> str:
    """The study's table, least scatter first, and its recommendation."""
    lines = [f"{'IQR':>8} {'of processes':>13} {'p50':>12}  conditions"]
    for row in document["combinations"]:
        conditions = ", ".join(f"{k} {v}" for k, v in row["levels"].items())
        scatter = f"{share(row['iqr'], digits=2):>8} {share(row['process_iqr'], digits=2):>13}"
        lines.append(f"{scatter} {duration(row['p50_ns']):>12}  {conditions}")
    for factor, levels in document["effects"].items():
        lines.append(
            f"{factor}: " + ", ".join(f"{level} {share(iqr, digits=2)}" for level, iqr in levels.items())
        )
    lines += [f"{factor} {level}: {seen}" for factor, level, seen in study_findings(document)]
    return "\n".join([*lines, document["recommendation"]])


def study_findings(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(factor, level, what was seen of it) for every level that was probed, and what follows from them."""
    out = []
    for factor, found in document["probes"].items():
        out += [(factor, level, seen) for level, seen in found["levels"].items()]
        out.append((factor, "probed", found["why"]))
    return out


def counted(count: int, what: str) -> str:
    """1 iteration, 2 iterations."""
    return plural(count, what)


def interval(ends: Sequence[float | None]) -> str:
    """An interval of relative changes; an end that few measurements leave open is said."""
    low, high = ends
    if low is None and high is None:
        return "(too few measurements for an interval)"
    if low is None or high is None:
        return f"(at most {_percent(high)})" if low is None else f"(at least {_percent(low)})"
    return f"[{_percent(low)}, {_percent(high)}]"


def _percent(value: float | None) -> str:
    return "open" if value is None else relative(value, signed=True)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}" if value < 1e5 else f"{value:.0f}"
