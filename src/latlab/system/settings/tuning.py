"""Applies settings and gives them back: on leaving, on a signal, and by `restore` after a crash.

What was before is on disk before the first write, so that a process that is killed leaves a way back.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from latlab.errors import LatlabError, UnavailableError, UsageError
from latlab.model.evidence.machine import ChangeSaid, ProbeSaid
from latlab.model.evidence.said import said
from latlab.system.settings.catalogue import PROFILES, settings
from latlab.system.settings.probe import PROBES, Probe
from latlab.system.settings.saved import Saved, state_file
from latlab.system.settings.setting import Setting, chosen, put
from latlab.system.settings.shield import dissolve

__all__ = [
    "PROBES", "Change", "apply", "chosen_settings", "plan", "refuse_applied", "restore", "saved_before",
    "signals_unwind", "state_file", "tuned", "write_back",
]  # fmt: skip

ENDED = "ended"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CONTROL = "cgroup.subtree_control"  # what others enable there since is no business of ours


@dataclass(frozen=True)
class Change:
    """One setting of a plan, or what became of it.

    Attributes:
        before: its value.
        outcome: ``planned``, ``good already``, ``unavailable``, ``applied``, ``refused``, of `restore` also
            ``changed since`` and ``ended``, of `apply_measured` also ``taken back``.
        detail: why, or what the read-back and the functional probe said.
        measured: what `apply_measured` found: verdict, effect, low, high, pairs.
    """

    name: str
    before: str | None
    outcome: str
    detail: str = ""
    measured: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The change's entry of ``latlab system tune --json``."""
        return {key: getattr(self, key) for key in self.__dataclass_fields__}


def chosen_settings(profile: str, root: Path, cpus: Sequence[int]) -> list[Setting]:
    """The settings of a profile.

    Raises:
        UsageError: there is no such profile.
    """
    if profile not in PROFILES:
        raise UsageError(f"unknown profile '{profile}'", remedy=f"choose {', '.join(PROFILES)}")
    return [setting for setting in settings(root, cpus) if setting.name in PROFILES[profile]]


def plan(profile: str, *, root: Path = Path("/"), cpus: Sequence[int] = ()) -> list[Change]:
    """What `apply` would do; nothing is written."""
    changes = []
    for setting in chosen_settings(profile, root, cpus):
        seen = setting.show()
        if seen.unavailable is not None:
            changes.append(Change(setting.name, None, "unavailable", seen.unavailable))
        elif seen.good:
            changes.append(Change(setting.name, seen.value, "good already"))
        else:
            changes.append(Change(setting.name, seen.value, "planned", seen.cost))
    return changes


def refuse_applied(state: Path) -> None:
    """Settings are written once, and then given back.

    Raises:
        UsageError: those of an earlier run were never restored.
    """
    if state.exists() and not Saved.load(state).of_this_boot():
        state.unlink()  # the start of the machine has given those settings back
    if state.exists():
        raise UsageError(
            f"settings are applied already ({state})", remedy="run `latlab system restore` first"
        )


def saved_before(settings: Sequence[Setting]) -> Saved:
    """What some settings are now, to go back."""
    files = {str(path): text for setting in settings for path, text in setting.files().items()}
    return Saved(files, tuple(str(path) for setting in settings for path in setting.groups()))


def apply(
    profile: str,
    *,
    root: Path = Path("/"),
    cpus: Sequence[int] = (),
    state: Path | None = None,
    probe: bool = True,
) -> list[Change]:
    """Write a profile's settings; each is read back and, where there is a way, probed by what it does.

    Raises:
        UsageError: settings of an earlier run were never restored, or there is no such profile.
        UnavailableError: the previous state can't be saved; nothing was written then.
    """
    state = state or state_file()
    refuse_applied(state)
    changes, chosen = [], {setting.name: setting for setting in chosen_settings(profile, root, cpus)}
    todo = plan(profile, root=root, cpus=cpus)
    planned = [chosen[change.name] for change in todo if change.outcome == "planned"]
    saved = saved_before(planned)
    if saved.files or saved.groups:
        saved.save(state)
    probes = PROBES if probe and root == Path("/") else {}
    try:
        for change in todo:
            if change.outcome == "planned":
                setting = chosen[change.name]
                paths = [path for path in setting.files() if path.name != _CONTROL]
                change = _applied(setting, change, probes.get(change.name), cpus)
                for path in paths:
                    saved = saved.after(path)
                if paths:
                    saved.save(state)
            changes.append(change)
    except BaseException:  # Ctrl-C or a signal in the middle: a machine half changed is of use to nobody
        restore(state=state)
        raise
    if not any(change.outcome == "applied" for change in changes):
        restore(state=state)  # all was refused: nothing holds, and the next try must not be stopped
    return changes


def _applied(setting: Setting, change: Change, probe: Probe | None, cpus: Sequence[int]) -> Change:
    before = None if probe is None else probe.measure(cpus)
    try:
        setting.write()
    except (LatlabError, OSError) as error:
        return Change(setting.name, change.before, "refused", str(error))
    value = setting.show().value
    if probe is None:
        return Change(setting.name, change.before, "applied", said(ChangeSaid.READS, value=value))
    after = probe.measure(cpus)
    if before is None or after is None:
        verdict: str = said(ProbeSaid.NOT_POSSIBLE)
    else:
        verdict = probe.verdict(before, after)
    detail = said(ChangeSaid.PROBED, value=value, verdict=verdict)
    return Change(setting.name, change.before, "applied", detail)


def restore(*, state: Path | None = None, overwrite: bool = False) -> list[Change]:
    """Write back what was before `apply`, whoever applied it; nothing to restore is fine.

    What can't be written back stays in the state file, for the next try. After a start of the machine nothing
    is written: its settings are those of the start.

    Args:
        overwrite: also what somebody has changed since `apply` wrote it; else that is told and left.

    Raises:
        InputError: the state file is damaged.
    """
    state = state or state_file()
    if not state.exists():
        return []
    saved = Saved.load(state)
    if not saved.of_this_boot():
        state.unlink()
        before = said(ChangeSaid.SAVED_AT, when=saved.saved_at)
        return [Change("previous settings", before, ENDED, said(ChangeSaid.STARTED_SINCE))]
    changes, rest = write_back(saved, overwrite=overwrite)
    if rest.files or rest.groups:
        rest.save(state)
    else:
        state.unlink()
    return changes


def write_back(saved: Saved, *, overwrite: bool = True) -> tuple[list[Change], Saved]:
    """Write a saved state back: what became of it, and what is left to be written back.

    Args:
        overwrite: also what is not any more as it was after our write.
    """
    changes: list[Change] = []
    left, kept = {}, []
    for name, text in saved.files.items():
        path, ours = Path(name), saved.written.get(name)
        try:
            before = path.read_text().strip()
            if chosen(before) == text:  # some files (managed interrupts) refuse even what they hold
                continue
            if ours is not None and before != ours and not overwrite:
                detail = said(ChangeSaid.CHANGED_SINCE, ours=chosen(ours), before=text)
                changes.append(Change(name, chosen(before), "changed since", detail))
                left[name] = text
                continue
            put(path, text)
            detail = said(ChangeSaid.READS, value=path.read_text().strip())
            changes.append(Change(name, before, "applied", detail))
        except (UnavailableError, OSError) as error:
            if path.exists():
                changes.append(Change(name, None, "refused", str(error)))
                left[name] = text
            else:  # an interrupt, a CPU or a group that has gone needs no restoring
                changes.append(Change(name, None, "unavailable", said(ChangeSaid.GONE)))
    for group in map(Path, saved.groups):
        there = group.exists()
        try:
            dissolve(group)
            if there:
                changes.append(Change(str(group), "shield", "applied", said(ChangeSaid.TASKS_BACK)))
        except UnavailableError as error:
            changes.append(Change(str(group), "shield", "refused", str(error)))
            kept.append(str(group))
    return changes, replace(saved, files=left, groups=tuple(kept))


@contextmanager
def tuned(
    profile: str,
    *,
    root: Path = Path("/"),
    cpus: Sequence[int] = (),
    state: Path | None = None,
    write: Callable[..., list[Change]] = apply,
) -> Iterator[list[Change]]:
    """Hold a profile's settings inside the block.

    They are restored on leaving, on an exception, and on SIGINT, SIGTERM and SIGHUP.

    Args:
        write: `apply`, or `apply_measured`.
    """
    state = state or state_file()
    applied = False
    with signals_unwind():
        try:
            changes = write(profile, root=root, cpus=cpus, state=state)
            applied = True  # else somebody else's settings may stand in the state file: apply refused
            yield changes
        finally:
            _ignore_signals()
            if applied:
                restore(state=state)


@contextmanager
def signals_unwind() -> Iterator[None]:
    """Inside the block SIGTERM and SIGHUP leave by an exception, as Ctrl-C does, so that `apply` gives back.

    A second signal does not stop the way back.
    """
    former = {number: signal.getsignal(number) for number in _SIGNALS}

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        _ignore_signals()
        raise SystemExit(128 + number)

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        _ignore_signals()
        raise KeyboardInterrupt

    try:
        signal.signal(signal.SIGINT, interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, leave)
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
