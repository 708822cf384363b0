"""`tune --apply --measure`: each group of settings has to show that it helps, or is taken back.

A group is written and taken back in turns, in an order that a coin draws, and the measuring cores are
watched for a moment each time. The paired engine judges the time that gaps took; a group that it does not
find quieter does not stay. What was before is on disk before the first write, as `apply` has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from latlab.errors import LatlabError, UsageError
from latlab.model.evidence.machine import ChangeSaid, ProbeSaid
from latlab.model.evidence.said import said
from latlab.model.statistics.paired import PairedResult, Ruling
from latlab.stats.experiments.paired import interleaving, judge
from latlab.system.settings.probe import MEASURES
from latlab.system.settings.saved import Saved, state_file
from latlab.system.settings.setting import Setting
from latlab.system.settings.tuning import (
    Change,
    chosen_settings,
    plan,
    refuse_applied,
    restore,
    saved_before,
    write_back,
)

__all__ = ["GROUPS", "Measure", "apply_measured"]

Measure = Callable[[Sequence[int]], float | None]
"""How much the measuring cores are disturbed now: any unit, less is better; None where it can't be told."""

# What is tried together, and by which measure; what is in none is tried alone, by the gaps.
GROUPS: dict[str, tuple[str, ...]] = {
    "frequency": ("governor", "turbo (Intel)", "turbo", "energy bias", "C-states"),
    "interrupts": ("interrupt affinity", "new interrupts' affinity", "network queues"),
    "kernel's own work": (
        *("work queues", "writeback", "NMI watchdog", "soft watchdog", "statistics interval"),
        *("perf's sample rate", "timer migration"),
    ),
    "memory": ("automatic NUMA balancing", "transparent huge pages", "same-page merging (KSM)"),
    "limits of real time": ("real-time limit", "fair server"),
}
_UNSEEN = {"address layout (ASLR)": said(ChangeSaid.KEPT_UNSEEN)}
_SMALLEST = 0.05  # a change of the gaps' time that matters
_MOST_PAIRS = 24
_HOPELESS = 12  # pairs after which a verdict that is far off is given up
_LEVEL = 0.05  # of all groups together
_Outcome = tuple[str, str, Mapping[str, Any] | None]


def apply_measured(
    profile: str,
    *,
    root: Path = Path("/"),
    cpus: Sequence[int] = (),
    state: Path | None = None,
    measures: Mapping[str, Measure] = MEASURES,
    seed: int = 1,
    told: Callable[[str], None] = lambda _: None,
) -> list[Change]:
    """Write what helps of a profile's settings, group by group, and take back what does not.

    Args:
        measures: by the name of the group, "" for the rest.
        seed: of the coin.
        told: gets a line a group, before it is tried.

    Raises:
        UsageError: as `apply`; or the disturbance can't be measured here.
        UnavailableError: the previous state can't be saved; nothing was written then.
    """
    state = state or state_file()
    refuse_applied(state)
    chosen = {setting.name: setting for setting in chosen_settings(profile, root, cpus)}
    todo = {change.name: change for change in plan(profile, root=root, cpus=cpus)}
    planned = {name: chosen[name] for name, change in todo.items() if change.outcome == "planned"}
    groups = _groups(planned)
    saved = saved_before(list(planned.values()))
    if saved.files or saved.groups:
        saved.save(state)
    try:
        for name, settings in groups.items():
            told(name)
            measure = measures.get(name, measures[""])
            before = saved_before(settings)
            each = _tried(name, settings, before, measure, cpus, seed, _LEVEL / len(groups))
            for one, (outcome, detail, found) in each.items():
                todo[one] = replace(todo[one], outcome=outcome, detail=detail, measured=found)
            if any(outcome == "applied" for outcome, _, _ in each.values()):
                for path in before.files:
                    saved = saved.after(Path(path))
            else:
                saved = _without(saved, before)
            saved.save(state)
    except BaseException:  # as `apply`: a machine half changed is of use to nobody
        restore(state=state)
        raise
    if not any(change.outcome == "applied" for change in todo.values()):
        restore(state=state)
    return list(todo.values())


def _groups(planned: Mapping[str, Setting]) -> dict[str, list[Setting]]:
    found = {name: [planned[one] for one in names if one in planned] for name, names in GROUPS.items()}
    grouped = {one for names in GROUPS.values() for one in names}
    found |= {name: [setting] for name, setting in planned.items() if name not in grouped}
    return {name: settings for name, settings in found.items() if settings}


def _without(saved: Saved, before: Saved) -> Saved:
    """The state less that of a group that was taken back: nobody needs to restore it."""
    files = {path: text for path, text in saved.files.items() if path not in before.files}
    groups = tuple(group for group in saved.groups if group not in before.groups)
    return replace(saved, files=files, groups=groups)


def _tried(
    name: str,
    settings: Sequence[Setting],
    before: Saved,
    measure: Measure,
    cpus: Sequence[int],
    seed: int,
    level: float,
) -> dict[str, _Outcome]:
    """What became of each setting of a group: the outcome, why, and what was measured."""
    refused: dict[str, str] = {}

    def write() -> None:
        for setting in settings:
            if setting.name not in refused:
                try:
                    setting.write()
                except (LatlabError, OSError) as error:
                    refused[setting.name] = str(error)

    write()
    kept = [setting for setting in settings if setting.name not in refused]
    told: dict[str, _Outcome] = {one: ("refused", text, None) for one, text in refused.items()}
    if not kept:
        write_back(before)
        return told
    if name in _UNSEEN:
        return {**told, **{setting.name: ("applied", _UNSEEN[name], None) for setting in kept}}
    written, ratios = True, list[float]()
    result: PairedResult | None = None
    for pair, order in zip(range(_MOST_PAIRS), interleaving(seed, block_pairs=1), strict=False):
        seen: dict[str, float] = {}
        for side in order:
            if (side == "B") != written:
                write() if side == "B" else write_back(before)
                written = side == "B"
            figure = measure(cpus)
            if figure is None:
                write_back(before)
                raise UsageError(
                    "the disturbance can't be measured here: the cores refuse us",
                    remedy="name others with --cpus, or leave out --measure",
                )
            seen[side] = max(figure, 1e-9)
        ratios.append(math.log(seen["B"] / seen["A"]))
        result = judge(ratios, smallest_effect=_SMALLEST, alpha=level, block_pairs=1)
        if result.verdict is not Ruling.INCONCLUSIVE or (pair + 1 >= _HOPELESS and _is_far(result)):
            break
    assert result is not None
    helps = result.verdict is Ruling.FASTER
    if helps and not written:
        write()
    elif not helps:
        write_back(before)
    outcome = ("applied" if helps else "taken back", _told(name, result), _figures(result))
    return {**told, **{setting.name: outcome for setting in kept}}


def _is_far(result: PairedResult) -> bool:
    """Whether a verdict would take far more pairs than there are."""
    return result.needed_pairs is None or result.needed_pairs > 2 * _MOST_PAIRS


def _figures(result: PairedResult) -> dict[str, Any]:
    low, high = result.interval
    return {
        "verdict": str(result.verdict),
        "effect": result.effect,
        "low": low,
        "high": high,
        "pairs": result.pairs,
    }


def _told(group: str, result: PairedResult) -> str:
    low, high = (
        said(ChangeSaid.NOT_BOUND) if one is None else said(ChangeSaid.BOUND, percent=100 * one)
        for one in result.interval
    )
    verdict = {
        Ruling.FASTER: ProbeSaid.HELPS,
        Ruling.SLOWER: ProbeSaid.WORSE,
        Ruling.EQUIVALENT: ProbeSaid.NOTHING_THAT_MATTERS,
    }.get(result.verdict, ProbeSaid.NO_EFFECT)
    return said(
        ChangeSaid.MEASURED, group=group, verdict=said(verdict), percent=100 * (result.effect or 0.0),
        low=low, high=high, pairs=result.pairs,
    )  # fmt: skip
