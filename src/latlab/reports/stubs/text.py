"""Stubs' results as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latlab.model.stubs import Edit, StubCalibration, StudyResult, Timeline, TimelineComparison
from latlab.words import duration, number, plural, seconds, share, size

_SYMBOLS = {"running": "█", "ready": "▒", "blocked": "·"}


def calibration(result: StubCalibration) -> str:
    """A table of requested against achieved, then what is refused."""
    lines = [
        f"calibrated in {duration(1e9 * result.calibration_s)}: {number(result.ticks_per_ns)} ticks and "
        f"{number(result.instructions_per_ns)} instructions a ns; the thread CPU clock costs "
        f"{duration(result.cpu_clock_cost_ns)}; preemption is "
        f"{'known exactly' if result.exact_preemption else 'guessed from gaps'}",
        "",
        f"{'stub':18} {'condition':10} {'requested':>12} {'p50 error':>12} {'p99 error':>12} {'mean':>9}  "
        f"preempted  held",
    ]
    for row in result.rows:
        lines.append(
            f"{row.kind:18} {row.condition:10} {duration(row.requested_ns):>12} "
            f"{duration(row.p50_error_ns):>12} {duration(row.p99_error_ns):>12} "
            f"{share(row.mean_error_ratio, digits=2):>9}  "
            f"{row.preempted:4}/{row.repetitions:<4}  {'yes' if row.holds else 'no'}"
        )
    for each in result.caches:
        known = each.misses_per_access
        misses = "no counter" if known is None else f"{number(known)} misses"
        lines.append(
            f"cache {each.level:6} {size(each.working_set_bytes):>9} {each.condition:10} "
            f"{duration(each.access_ns):>9} each ({misses})"
        )
    if result.refused:
        lines += ["", "refused:", *(f"  {line}" for line in result.refused)]
    return "\n".join(lines)


def timeline(result: Timeline, width: int = 100) -> str:
    """One row a thread: running, ready and blocked over time."""
    total = max(result.total_ns, 1)
    lines = [f"{result.kind}: {duration(result.total_ns)}, {len(result.threads)} threads"]
    for thread in result.threads:
        cells = [" "] * width
        for begin, end, state in thread.slices:
            first = min(width - 1, max(0, begin * width // total))
            last = min(width - 1, max(first, end * width // total))
            for cell in range(first, last + 1):
                # A short run must stay visible beside a long wait.
                if state == "running" or cells[cell] == " ":
                    cells[cell] = _SYMBOLS[state]
        parent = "-" if thread.parent is None else str(thread.parent)
        lines.append(
            f"{thread.id:4} {thread.name[:12]:12} {thread.pid or '':>7} <{parent:>4} "
            f"{duration(thread.run_ns):>9} run {duration(thread.blocked_ns):>9} blocked |{''.join(cells)}|"
        )
    lines += [f"note: {note}" for note in result.notes]
    return "\n".join(lines)


def comparison(a: Timeline, b: Timeline, result: TimelineComparison, width: int = 100) -> str:
    """Both timelines and the error of every thread."""
    lines = [timeline(a, width), "", timeline(b, width), ""]
    lines.append(
        f"{'thread':>6} {'run':>9} {'blocked':>9} {'start':>9} {'end':>9}   (start, end: of the total)"
    )
    for thread in result.threads:
        lines.append(
            f"{thread.id:6} "
            + " ".join(
                f"{share(error, digits=3):>9}"
                for error in (thread.run_error, thread.blocked_error, thread.start_error, thread.end_error)
            )
        )
    order = "the same" if result.order_same else "NOT the same"
    lines.append(
        f"total: {share(result.total_error, digits=3, signed=True)}; threads are created and "
        f"joined in {order} order"
    )
    if result.missing:
        lines.append(f"in one of them only: threads {', '.join(map(str, result.missing))}")
    return "\n".join(lines)


def edit(result: Edit) -> str:
    """What an edit changes, and how far that can be trusted."""
    if not result.simulated and result.withheld:
        return (
            f"cannot tell how long the program takes with the change: {result.withheld}. The action files "
            "keep its waits for CPUs as they were captured; 'latlab stubs play --pace free' lets its threads "
            "compete"
        )
    if not result.simulated:
        return (
            f"with the change its actions add up to {duration(result.after_ns)} in place of "
            f"{duration(result.before_ns)}, where a CPU is always free"
        )
    error = share(result.error, signed=True)
    told = (
        f"with the change the program takes {duration(result.after_ns)} [{duration(result.low_ns)}, "
        f"{duration(result.high_ns)}] in place of {duration(result.before_ns)} (simulated on {result.cpus} "
        f"CPUs; the unchanged program comes out {error} there)"
    )
    return f"{told}\nnot trustworthy: {result.withheld}" if result.withheld else told


def rehearsal(found: Mapping[str, Any]) -> str:
    """What a study would be, a line a fact."""
    same = {True: "the same in two runs", False: "different in two runs", None: "not compared"}
    lines = [
        f"{found['component']}: {plural(found['calls'], 'call')} in {plural(found['threads'], 'thread')} of "
        f"{plural(found['processes'], 'process', 'processes')}",
        f"it works for {duration(found['busy_ns'])} and waits for {duration(found['blocked_ns'])} of "
        f"{duration(found['run_ns'])} a run",
        f"its results are {same[found['deterministic']]}",
    ]
    if found["keeps"]:
        lines.append(f"each call changes {', '.join(found['keeps'])}: the stub does the same")
    lines += [f"a call changes {name}, and a stub can't ({why})" for name, why in found["not_kept"].items()]
    if not found["keeps"] and not found["not_kept"]:
        looked = found["looked_at"]
        lines.append(
            f"no change was found in what its calls reach ({looked} of {found['calls']} looked at)"
            if looked
            else "what its calls change besides is not looked at"
        )
    if not found["compared"]:
        lines.append("what the command says with the stub is not compared yet: a study does that first")
    if found["differs"]:
        lines.append(f"the stub changes more than its time: {found['differs']}; a study is refused")
    asked, least = found["seconds"], found["least_seconds"]
    enough = "" if least <= asked else f", and {duration(asked * 1e9)} are given: give it more --seconds"
    lines.append(f"a study takes at least {duration(least * 1e9)}{enough}")
    if found["half_width"] is not None:
        lines.append(
            f"in {duration(asked * 1e9)} the gain would be known to about {share(found['half_width'])} "
            f"of a run, judged by {found['runs']} of them"
        )
    return "\n".join(lines)


def study(result: StudyResult) -> str:
    """The sentence, what each step said, and the cost-benefit table."""
    lines = [result.sentence, ""]
    lines += [f"  {step.number}. {step.text}" for step in result.steps if step.name != "conclusion"]
    lines += ["", f"{'faster by':>9} {'saves':>10} {'system':>10} {'gain':>8}  {'95 % interval':18}   pays"]
    for point in result.curve:
        saved = point.speedup * result.t_cus_ns
        pays = share(point.gain * result.t_sut_ns / saved, digits=0) if saved else ""
        bar = "█" * max(0, round(point.gain * 50))
        low, high = point.interval
        lines.append(
            f"{share(point.speedup, digits=0):>9} {duration(saved):>10} {duration(point.value):>10} "
            f"{share(point.gain):>8}  {share(low):>7} to {share(high):>7} {pays:>6} {bar}".rstrip()
        )
    if result.t_limit is not None and result.t_limit_interval is not None:
        low, high = result.t_limit_interval
        lines.append(
            f"limit: {share(result.t_limit, digits=0)} faster ({share(low, digits=0)} to "
            f"{share(high, digits=0)})"
        )
    least = " to ".join(duration(value) for value in result.t_min_interval_ns)
    lines.append(
        f"bottleneck: {result.component_class}; least time {duration(result.t_min_sut_ns)} ({least}); "
        f"baseline by stub {share(result.drift, digits=2, signed=True)}; {result.calls} calls, "
        f"{result.rounds} rounds, "
        f"{seconds(result.seconds)}"
    )
    lines += [f"warning: {warning}" for warning in result.warnings]
    return "\n".join(lines)


def stage(study: Mapping[str, Any]) -> str:
    """What a faster stage of the pipeline buys: throughput and tail latency, a line a speedup."""
    lines = [study["sentence"], ""]
    lines.append(f"{'faster by':>9} {'events/s':>12} {'gain':>8} {'p50':>10} {'p99':>10} {'p99.9':>10}")
    for point in study["curve"]:
        times = [point[f"{name}_ns"] for name in ("p50", "p99", "p99.9")]
        shown = [f"{duration(None if one is None else one['value']):>10}" for one in times]
        lines.append(
            f"{share(point['speedup'], digits=0):>9} {point['capacity_hz']:12,.0f} {share(point['gain']):>8} "
            f"{' '.join(shown)}"
        )
    limit = "" if study["t_limit"] is None else f"; limit: {share(study['t_limit'], digits=0)} faster"
    drift = (
        "" if study["drift"] is None else f"; baseline by stub {share(study['drift'], digits=2, signed=True)}"
    )
    lines.append(f"bottleneck: {study['class']}{limit}{drift}; {study['rounds']} rounds")
    lines += [f"warning: {warning}" for warning in study["warnings"]]
    return "\n".join(lines)
