"""What the command line does with targets and raw results before and after measuring."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from latlab.bench.judging.judge import judge_pairs
from latlab.bench.judging.measures import DECLARED, PLACEMENT
from latlab.bench.measuring.experiment import Earlier
from latlab.bench.measuring.plan import plan_from
from latlab.bench.processes.process import fixtures
from latlab.bench.results import raw as _raw
from latlab.bench.results import suites
from latlab.bench.results.recorder import Recorder, raw_of
from latlab.bench.results.targets import Target, named, parse
from latlab.errors import InputError, LatlabError, UsageError
from latlab.model.bench import Judgement
from latlab.model.statistics.paired import Ruling
from latlab.stats.experiments import paired
from latlab.stats.experiments.multiple import benjamini_hochberg
from latlab.words import relative

__all__ = [
    "carry_over",
    "couples",
    "couples_of",
    "expand",
    "judge_again",
    "read_any",
    "settle",
    "with_discovery_rate",
]


def settle(target: Target, *, timeout_s: float = 60.0) -> Target:
    """The target with its fixture, where the file holds just one.

    Raises:
        UsageError: it holds none or several.
    """
    if target.is_folder:
        found = expand(target, timeout_s=timeout_s)[0]
        if len(found) > 1:
            raise UsageError(f"{target.text} holds several fixtures", remedy=f"name one: {found[0].suite}.…")
        return found[0]
    if target.kind == "command" or target.fixture is not None:
        return target
    return named(target, fixtures(target, timeout_s=timeout_s)[0])


def expand(target: Target, *, timeout_s: float = 60.0) -> tuple[list[Target], dict[str, str]]:
    """Every fixture of a target's file with every combination of its declared parameters, and the user's
    words.

    Parameters that were given stand in for those that the fixture declares.

    Raises:
        UsageError: the file holds no fixture.
    """
    if target.is_folder:
        return _expanded(target, timeout_s)
    found, report = fixtures(target, timeout_s=timeout_s)
    names = list(found) if target.fixture is None else [target.fixture]
    if not names:
        raise UsageError(f"{target.text} holds no fixture", remedy=suites.remedy(target.path, target.text))
    out: list[Target] = []
    for name in names:
        out += _with_parameters(dataclasses.replace(target, fixture=name), found.get(name, {}))
    return out, report


def _with_parameters(target: Target, declared: Mapping[str, list[Any]]) -> list[Target]:
    open_ = {k: v for k, v in declared.items() if k not in target.parameters}
    return [
        dataclasses.replace(target, parameters={**target.parameters, **dict(zip(open_, values, strict=True))})
        for values in itertools.product(*open_.values())
    ]


def _expanded(folder: Target, timeout_s: float) -> tuple[list[Target], dict[str, str]]:
    """The same of a folder. A file that can't be loaded is a target that fails, and loses nothing of the
    others."""
    assert folder.path is not None
    text = folder.text if folder.fixture is None else folder.text.removesuffix(f":{folder.fixture}")
    found: list[Target] = []
    for module, path in suites.modules(folder.path):
        if not suites.may_hold(module, folder.fixture):
            continue
        name = f"{text.rstrip('/')}/{path.relative_to(folder.path)}"
        one = dataclasses.replace(folder, text=name, path=path, fixture=None, suite=module)
        try:
            declared = fixtures(one, timeout_s=timeout_s)[0]
        except LatlabError:
            found.append(dataclasses.replace(one, fixture="(file)"))
            continue
        for fixture in declared:
            if suites.is_wanted(f"{module}.{fixture}", folder.fixture):
                found += _with_parameters(dataclasses.replace(one, fixture=fixture), declared[fixture])
    if not found:
        what = "holds no fixture" if folder.fixture is None else f"holds no fixture {folder.fixture}"
        raise UsageError(f"{text} {what}", remedy=suites.remedy(folder.path, text))
    return found, {}


def couples(
    a: str, b: str, parameters: Mapping[str, Any], *, timeout_s: float = 60.0
) -> tuple[dict[str, tuple[Target, Target]], dict[str, str]]:
    """What is compared with what: two fixtures, or all that two files have under the same name.

    Raises:
        UsageError: the two don't go together.
    """
    return couples_of(parse(a, parameters), parse(b, parameters), timeout_s=timeout_s)


def couples_of(
    one: Target, other: Target, *, timeout_s: float = 60.0
) -> tuple[dict[str, tuple[Target, Target]], dict[str, str]]:
    """The same of targets.

    Raises:
        UsageError: the two don't go together.
    """
    if "command" in (one.kind, other.kind) or (one.fixture and other.fixture):
        ones, others = [one], [other]
        report: dict[str, str] = {}
        if one.kind != "command" and one.fixture:
            ones, report = expand(one, timeout_s=timeout_s)
            others, _ = expand(other, timeout_s=timeout_s) if other.kind != "command" else ([other], {})
    else:
        ones, report = expand(one, timeout_s=timeout_s)
        others, _ = expand(other, timeout_s=timeout_s)
    if len(ones) == len(others) == 1:
        return {_title(ones[0], others[0]): (ones[0], others[0])}, report
    by_name = {t.name: t for t in others}
    common = {t.name: (t, by_name[t.name]) for t in ones if t.name in by_name}
    if not common and len(ones) == len(others):
        common = {_title(x, y): (x, y) for x, y in zip(ones, others, strict=True)}
    if not common:
        raise UsageError(
            f"{one.text} and {other.text} have no fixture name in common",
            remedy=f"name them: {one.text}:NAME {other.text}:NAME",
        )
    return common, report


def judge_again(
    raw: _raw.Raw, *, source: Path, smallest_effect: float | None = None, alpha: float | None = None
) -> tuple[dict[str, Judgement], dict[str, Any]]:
    """The verdicts of a `bench ab`, from its raw results alone: bit for bit those it gave, unless asked
    otherwise.

    Args:
        raw: what was measured.
        source: where from, for errors.
        smallest_effect: instead of the one it was judged by.
        alpha: instead of the level it was judged at.

    Returns:
        (judgements by name, plans by name).

    Raises:
        InputError: it holds no pairs.
    """
    plans = raw.meta.get("plans", {})
    if raw.meta.get("kind") != "bench-ab" or not raw.rows:
        raise InputError(source, "holds no pairs", remedy="give two results, or those of bench ab")
    judged = {}
    for name in raw.tests():
        try:
            planned = plans[name]
            effect, why = float(planned["smallest_effect"]), str(planned["smallest_effect_why"])
            level = float(raw.meta["asked"]["alpha"])
            block = int(planned["plan"].get("block_pairs", paired.BLOCK_PAIRS))
        except (KeyError, TypeError, ValueError):
            raise InputError(source, "lacks the settings of its comparison", place=name) from None
        if smallest_effect is not None:
            effect, why = smallest_effect, f"{relative(smallest_effect)}, as declared"
        judged[name] = judge_pairs(
            raw.pairs(name),
            smallest_effect=effect,
            smallest_effect_why=why,
            alpha=level if alpha is None else alpha,
            block_pairs=block,
            refused=planned.get("refused"),
            declared=smallest_effect is not None or bool(planned.get("declared", True)),
            over=tuple(map(str, raw.meta["asked"].get("over", DECLARED))),
            placement=float(planned.get("placement", PLACEMENT if planned.get("one_build") else 0.0)),
            displaced=float(planned["plan"].get("displaced", 1.0)),
        )
    return judged, {name: planned["plan"] for name, planned in plans.items()}


def read_any(path: Path) -> _raw.Raw:
    """Raw results from a CSV or a recording.

    Raises:
        InputError: it is neither, or damaged.
    """
    return _raw.read(path) if path.is_file() else raw_of(path)


def carry_over(earlier: _raw.Raw | None, name: str, recorder: Recorder) -> Earlier | None:
    """The whole blocks of an interrupted run, which become part of the new recording, and its plan."""
    found = None if earlier is None else earlier.meta.get("plans", {}).get(name)
    plan = plan_from(found["plan"]) if found is not None else None
    if earlier is None or found is None or plan is None:  # killed in its pilot, or of an older version
        return None
    pairs = earlier.pairs(name)
    pairs = pairs[: len(pairs) // plan.block_pairs * plan.block_pairs]
    for row in earlier.rows:
        if row.test == name and row.pair < len(pairs):
            recorder.add(row)
    effect, why = float(found["smallest_effect"]), str(found["smallest_effect_why"])
    return Earlier(pairs, plan, effect, why, bool(found.get("declared", True)))


def with_discovery_rate(judged: Mapping[str, Judgement]) -> dict[str, Judgement]:
    """Many verdicts at once: a difference stands only if its adjusted p-value does.

    Benjamini and Hochberg's adjustment, which of p-values that are the inverse of e-values is e-BH (see
    `stats.family`); a verdict that doesn't stand becomes inconclusive and says what it is alone.
    """
    if len(judged) < 2:
        return dict(judged)
    adjusted = benjamini_hochberg([j.result.p_value for j in judged.values()])
    out = {}
    for (name, judgement), p_value in zip(judged.items(), adjusted, strict=True):
        result = judgement.result
        if result.verdict in (Ruling.FASTER, Ruling.SLOWER, Ruling.MIXED) and p_value > result.alpha:
            why = (
                f"{result.verdict} alone (p = {result.p_value:.3g}), but not among {len(judged)} comparisons "
                f"(adjusted p = {p_value:.3g})"
            )
            result = dataclasses.replace(
                result, verdict=Ruling.INCONCLUSIVE, why=why, needed_pairs=2 * result.pairs
            )
        details = {**judgement.details, "adjusted_p_value": float(p_value)}
        out[name] = dataclasses.replace(judgement, result=result, details=details)
    return out


def _title(a: Target, b: Target) -> str:
    return a.name if a.name == b.name else f"{a.name} / {b.name}"
