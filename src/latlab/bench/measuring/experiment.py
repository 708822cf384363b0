"""The experiments: plain runs, A against B, and A against A."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from latlab.bench.judging import judge as _judge
from latlab.bench.judging.measures import DECLARED, combined, judge_measures, pooled_mean
from latlab.bench.measuring import control as _control
from latlab.bench.measuring.pilot import run_pilot
from latlab.bench.measuring.plan import default_smallest_effect, make_plan, with_plan
from latlab.bench.measuring.process import conditions_for, measure_once, measure_pair
from latlab.bench.results import google
from latlab.bench.results.raw import Raw, Row
from latlab.bench.results.targets import Target
from latlab.errors import LatlabError
from latlab.formats.recording import Recording, RecordingWriter, open_recording
from latlab.model.bench import Control, Judgement, Plan, Sample, Settings
from latlab.model.statistics.paired import PairedResult, Ruling
from latlab.stats.experiments import family, paired
from latlab.stats.variance import midmean
from latlab.words import share

__all__ = [
    "Comparison",
    "Recorder",
    "Suite",
    "default_settings",
    "rows_of",
    "run",
    "run_aa",
    "run_ab",
    "run_suite",
]

DEFAULT_PROCESSES = 5


def default_settings() -> Settings:
    """On the last processor allowed at the top of SCHED_FIFO; what has threads: on all, at no priority."""
    return Settings(
        cpu=max(os.sched_getaffinity(0)),
        priority=os.sched_get_priority_max(os.SCHED_FIFO),
        fitting=True,
    )


@dataclass
class Recorder:
    """Keeps every process as it ends: in memory for the judgement, and in a recording where one is wanted."""

    writer: RecordingWriter | None = None
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Keep one process; it is safe from a kill once this returns."""
        self.rows.append(row)
        if self.writer is None:
            return
        sample = row.sample
        count = len(sample.times_ns)
        self.writer.append(
            "iterations",
            {
                "test": np.full(count, row.test),
                "pair": np.full(count, row.pair, dtype=np.int32),
                "position": np.full(count, row.position, dtype=np.int8),
                "side": np.full(count, row.side),
                "batch": np.full(count, sample.batch, dtype=np.int64),
                "operations": np.full(count, sample.operations, dtype=np.int64),
                "quantum_ns": np.full(count, sample.quantum_ns),
                "read_ns": np.full(count, sample.read_ns),
                "turn": np.full(count, sample.turn, dtype=np.int32),
                "tail_quantile": np.full(count, sample.tail_quantile),
                "tail_ns": np.full(count, sample.tail_ns),
                "iteration": np.arange(count, dtype=np.int32),
                "nanoseconds": sample.times_ns,
            },
        )


def rows_of(recording: Recording) -> list[Row]:
    """The processes that a recording holds, finished or not."""
    if "iterations" not in recording.names():
        return []
    table = recording.series("iterations")
    columns = {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
    starts = np.flatnonzero(columns["iteration"] == 0)
    rows = []
    for start, end in zip(starts, [*starts[1:], len(table)], strict=True):
        at = {name: values[start] for name, values in columns.items()}
        sample = Sample(
            np.asarray(columns["nanoseconds"][start:end], dtype=np.float64),
            int(at["batch"]), int(at["operations"]), float(at["quantum_ns"]), float(at["read_ns"]),
            turn=int(at.get("turn", 0)),
            tail_quantile=float(at.get("tail_quantile", 0.0)), tail_ns=float(at.get("tail_ns", 0.0)),
        )  # fmt: skip
        rows.append(Row(str(at["test"]), int(at["pair"]), int(at["position"]), str(at["side"]), sample))
    return rows


def raw_of(path: Path) -> Raw:
    """A recording of `bench run` or `bench ab` as raw results."""
    recording = open_recording(path)
    plans = recording.document("plans")["plans"] if "plans" in recording.documents() else {}
    facts = {"kind": recording.kind, "plans": plans, "environment": recording.environment.to_json()}
    return Raw({**recording.parameters, **facts}, rows_of(recording))


def run(
    target: Target,
    settings: Settings,
    recorder: Recorder,
    *,
    seconds: float,
    processes: int | None = None,
    iterations: int | None = None,
) -> list[Sample]:
    """Measure one benchmark in several processes.

    Args:
        target: with its fixture settled.
        settings: how a process measures; its iterations are chosen here unless given.
        recorder: keeps what is measured.
        seconds: budget, unless both numbers are given.
        processes: by default 5, of a command as many as fit (at least 3).
        iterations: a process; by default as many as fit, up to 2,000.
    """
    deadline = time.monotonic() + seconds
    command = target.apart
    settings = conditions_for(target, target, settings)
    if iterations is None:
        probe = measure_once(target, dataclasses.replace(settings, iterations=_own(target) or 10))
        settings = dataclasses.replace(settings, batch=probe.batch)
        one_s = max(1e-8, midmean(probe.times_ns) * probe.batch * probe.operations * 1e-9)
        share = seconds / (processes or DEFAULT_PROCESSES)
        iterations = _own(target) or min(max(10, int(share / 2 / one_s)), 2000)
    settings = dataclasses.replace(settings, iterations=iterations, warmup=min(settings.warmup, iterations))
    samples: list[Sample] = []
    fewest = processes or (3 if command else DEFAULT_PROCESSES)
    while len(samples) < fewest or (command and processes is None and time.monotonic() < deadline):
        samples.append(measure_once(target, settings))
        recorder.add(Row(target.name, len(samples) - 1, 0, "A", samples[-1]))
    return samples


@dataclass(frozen=True)
class Earlier:
    """What an interrupted run left: its whole blocks, and by which plan they were measured."""

    pairs: Sequence[tuple[Sample, Sample]]
    plan: Plan
    effect: float
    effect_why: str
    declared: bool = True


@dataclass(frozen=True)
class Asked:
    """What is asked of an A/B experiment.

    Attributes:
        smallest_effect: relative; None for the default.
        alpha: level.
        seconds: budget, the pilot included.
        seed: of the order.
        iterations: a process; None lets the pilot choose.
        max_pairs: budget in pairs.
        power: probability to find the smallest effect, which the plan's numbers are for.
        early: whether to stop once a verdict is settled; if not, the budget is spent on narrower intervals.
        build: a shell command that makes both sides anew before each block of pairs; None leaves them.
        over: the measures that have to be equivalent.
    """

    smallest_effect: float | None = None
    alpha: float = 0.05
    seconds: float = 10.0
    seed: int = 1
    iterations: int | None = None
    max_pairs: int = 100_000
    power: float = paired.POWER
    early: bool = True
    build: str | None = None
    over: tuple[str, ...] = DECLARED


@dataclass
class Comparison:
    """One comparison of a suite.

    Attributes:
        a: the side that is compared with.
        b: the side that is judged.
        earlier: an interrupted run of the same seed: its pairs count, and its plan stands for a pilot.
    """

    a: Target
    b: Target
    earlier: Earlier | None = None


@dataclass
class Suite:
    """What became of a suite.

    Attributes:
        judged: by name.
        plans: by name.
        failed: what went wrong with those that have no judgement, by name.
    """

    judged: dict[str, Judgement] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    failed: dict[str, LatlabError] = field(default_factory=dict)


@dataclass
class _Prepared:
    """A comparison with its plan."""

    comparison: Comparison
    plan: Plan
    effect: float
    effect_why: str
    settings: Settings
    declared: bool
    pairs: list[tuple[Sample, Sample]] = field(default_factory=list)

    def differences(self) -> list[paired.Difference]:
        names = _judge.measured(self.pairs[:1])
        return [_judge.difference(x, y, names) for x, y in self.pairs]


def run_suite(
    comparisons: Mapping[str, Comparison],
    settings: Settings,
    asked: Asked,
    recorder: Recorder,
    *,
    control: bool = True,
    planned: Callable[[str, Mapping[str, Any]], None] | None = None,
    told: Callable[[str, float], None] | None = None,
) -> Suite:
    """Measure comparisons in interleaved process pairs until all verdicts are settled or the budget is spent.

    The budget is that of one times their number; what one leaves over is for those that are undecided.

    Args:
        comparisons: by name.
        settings: how a process measures.
        asked: budget of each, level, effect.
        recorder: keeps every process.
        control: whether a host that failed its null control is refused.
        planned: told what the pilot of each settled, to keep it.
        told: told of each block that was measured, with the seconds that are left.
    """
    begin = time.monotonic()
    refused = _control.refusal() if control else None
    out = Suite()
    ready: dict[str, _Prepared] = {}
    for name, comparison in comparisons.items():
        try:
            ready[name] = _prepared(comparison, settings, asked)
        except LatlabError as error:
            out.failed[name] = error
            continue
        one = ready[name]
        out.plans[name] = one.plan
        if planned is not None:
            found = {"smallest_effect": one.effect, "smallest_effect_why": one.effect_why}
            found |= {"declared": one.declared, "refused": refused}
            planned(name, {**found, "plan": dataclasses.asdict(one.plan)})
    names = list(ready)
    if not names:
        return out
    trials = [_trial(name, ready[name], asked, recorder, index) for index, name in enumerate(names)]
    family.run(
        trials,
        seconds=asked.seconds * len(trials) - (time.monotonic() - begin),
        alpha=asked.alpha,
        failures=LatlabError,
        told=None if told is None else lambda index, left: told(names[index], left),
    )
    for name, trial in zip(names, trials, strict=True):
        if isinstance(trial.failed, LatlabError):
            out.failed[name] = trial.failed
            continue
        one = ready[name]
        out.judged[name] = _judge.judge_pairs(
            one.pairs,
            smallest_effect=one.effect,
            smallest_effect_why=one.effect_why,
            alpha=asked.alpha,
            block_pairs=one.plan.block_pairs,
            refused=refused,
            declared=one.declared,
            over=asked.over,
        )
    return out


def run_ab(
    a: Target, b: Target, settings: Settings, asked: Asked, recorder: Recorder, *, control: bool = True
) -> tuple[Judgement, Plan]:
    """One comparison alone, as `run_suite`.

    Raises:
        LatlabError: a side failed.
    """
    name = f"{a.name} / {b.name}"
    suite = run_suite({name: Comparison(a, b)}, settings, asked, recorder, control=control)
    if suite.failed:
        raise suite.failed[name]
    return suite.judged[name], suite.plans[name]


def _prepared(comparison: Comparison, settings: Settings, asked: Asked) -> _Prepared:
    earlier, declared = comparison.earlier, asked.smallest_effect is not None
    if earlier is None:
        plan, effect, why, settings = _planned(comparison.a, comparison.b, settings, asked)
    else:
        plan, effect, why = earlier.plan, earlier.effect, earlier.effect_why
        declared = declared or earlier.declared
        settings = conditions_for(comparison.a, comparison.b, settings)
        if asked.smallest_effect is not None:
            effect, why = _declared(asked.smallest_effect)
    kept = [] if earlier is None else list(earlier.pairs)
    return _Prepared(comparison, plan, effect, why, with_plan(settings, plan), declared, kept)


def _trial(name: str, one: _Prepared, asked: Asked, recorder: Recorder, index: int) -> family.Trial:
    targets = {"A": one.comparison.a, "B": one.comparison.b}

    def measure(order: tuple[paired.Side, paired.Side]) -> paired.Difference:
        if asked.build is not None and len(one.pairs) % one.plan.block_pairs == 0:
            _build(asked.build, len(one.pairs) // one.plan.block_pairs)
        samples = measure_pair(targets[order[0]], targets[order[1]], one.settings)
        for position, (side, sample) in enumerate(zip(order, samples, strict=True)):
            recorder.add(Row(name, len(one.pairs), position, side, sample))
        one.pairs.append(samples if order[0] == "A" else (samples[1], samples[0]))
        return _judge.difference(*one.pairs[-1], _judge.measured(one.pairs[:1]))

    return family.Trial(
        measure,
        _judging(one, asked),
        one.effect,
        asked.seed + index,
        one.plan.block_pairs,
        asked.max_pairs,
        asked.early,
        one.differences(),
    )


def _judging(one: _Prepared, asked: Asked) -> Callable[[Sequence[paired.Difference], bool], PairedResult]:
    def judged(seen: Sequence[paired.Difference], final: bool) -> PairedResult:
        names = ("typical", "mean", "tail")[: 1 + len(seen[0].others)] if seen else ("typical",)
        measures = judge_measures(
            seen,
            names,
            smallest_effect=one.effect,
            declared=one.declared,
            alpha=asked.alpha,
            block_pairs=one.plan.block_pairs,
            final=final,
            pooled=pooled_mean(one.pairs),
        )
        return combined(measures, alpha=asked.alpha, declared=asked.over)[0]

    return judged


def _planned(a: Target, b: Target, settings: Settings, asked: Asked) -> tuple[Plan, float, str, Settings]:
    """Run the pilot; (plan, smallest effect, why that, the conditions that suit both)."""
    settings = conditions_for(a, b, settings)
    begin = time.monotonic()
    command = a.apart or b.apart
    fixed = command or asked.iterations is not None
    if asked.iterations is not None:
        settings = dataclasses.replace(settings, iterations=asked.iterations)
    elif command:
        count = min(_own(a) or 1, _own(b) or 1)
        settings = dataclasses.replace(settings, iterations=count, warmup=0, batch=1)
    build = asked.build
    pilot = run_pilot(
        a,
        b,
        settings,
        fixed_iterations=fixed,
        budget_s=asked.seconds,
        rebuild=None if build is None else lambda number: _build(build, number),
    )
    if asked.smallest_effect is None:
        effect, why = default_smallest_effect()
    else:
        effect, why = _declared(asked.smallest_effect)
    plan = make_plan(
        pilot,
        smallest_effect=effect,
        alpha=asked.alpha,
        power=asked.power,
        fixed_iterations=fixed,
        budget_s=max(0.0, asked.seconds - (time.monotonic() - begin)),
        max_pairs=asked.max_pairs,
    )
    return plan, effect, why, settings


def _own(target: Target) -> int | None:
    """Iterations of a process that another loop than latlab's measures."""
    return {"command": 1, "google": google.REPETITIONS}.get(target.kind)


def _declared(effect: float) -> tuple[float, str]:
    return effect, f"{share(effect, digits=3)}, as declared"


def run_aa(
    target: Target,
    settings: Settings,
    asked: Asked,
    *,
    comparisons: int,
    on_comparison: Callable[[int, PairedResult], None] | None = None,
) -> Control:
    """Compare a fixture with itself, again and again, exactly as `run_ab` compares two.

    One pilot serves all comparisons. Each is judged as `run_ab` would judge it, and spends its whole budget
    where no verdict stops it.

    Args:
        target: with its fixture settled.
        settings: how a process measures.
        asked: budget of each comparison.
        comparisons: how many.
        on_comparison: told of each (its number, what came out).
    """
    if comparisons < 1:
        raise LatlabError("a null control needs at least one comparison")
    one = _prepared(Comparison(target, target), settings, asked)
    called = 0
    for index in range(comparisons):
        again = dataclasses.replace(one, pairs=[])
        trial = _trial(target.name, again, asked, Recorder(), index)
        (result,) = family.run([trial], seconds=asked.seconds, alpha=asked.alpha)
        if result is None:
            continue  # nothing is caught here, so none
        called += result.verdict in (Ruling.FASTER, Ruling.SLOWER, Ruling.MIXED)
        if on_comparison is not None:
            on_comparison(index, result)
    return _control.control_of(comparisons, called, asked.alpha)


def _build(command: str, number: int) -> None:
    done = subprocess.run(
        command,
        shell=True,
        env={**os.environ, "LATLAB_BUILD": str(number)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        raise LatlabError(f"the build ended with {done.returncode}: {lines[-1]}")
