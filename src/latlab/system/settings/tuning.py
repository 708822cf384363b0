"""Applies settings and gives them back: on leaving, on a signal, and by `restore` after a crash.

What was before is on disk before the first write, so that a process that is killed leaves a way back.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from latlab.errors import InputError, LatlabError, UnavailableError, UsageError
from latlab.system.settings.catalogue import PROFILES, settings
from latlab.system.settings.probe import PROBES, Probe
from latlab.system.settings.setting import Setting, chosen, put
from latlab.system.settings.shield import dissolve

__all__ = ["PROBES", "Change", "apply", "plan", "restore", "state_file", "tuned"]


@dataclass(frozen=True)
class Change:
    """One setting of a plan, or what became of it.

    Attributes:
        before: its value.
        outcome: ``planned``, ``good already``, ``unavailable``, ``applied`` or ``refused``.
        detail: why, or what the read-back and the functional probe said.
    """

    name: str
    before: str | None
    outcome: str
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """The change's entry of ``latlab system tune --json``."""
        return {key: getattr(self, key) for key in self.__dataclass_fields__}


def state_file() -> Path:
    """Where the previous state is kept: /var/lib for root (it outlives a session), else the user's folder."""
    if os.geteuid() == 0:
        return Path("/var/lib/latlab/previous-settings.json")
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    return Path(base) / "latlab" / "previous-settings.json"


def _chosen(profile: str, root: Path, cpus: Sequence[int]) -> list[Setting]:
    if profile not in PROFILES:
        raise UsageError(f"there is no profile '{profile}'", remedy=f"choose {', '.join(PROFILES)}")
    return [setting for setting in settings(root, cpus) if setting.name in PROFILES[profile]]


def plan(profile: str, *, root: Path = Path("/"), cpus: Sequence[int] = ()) -> list[Change]:
    """What `apply` would do; nothing is written."""
    changes = []
    for setting in _chosen(profile, root, cpus):
        seen = setting.show()
        if seen.unavailable is not None:
            changes.append(Change(setting.name, None, "unavailable", seen.unavailable))
        elif seen.good:
            changes.append(Change(setting.name, seen.value, "good already"))
        else:
            changes.append(Change(setting.name, seen.value, "planned", seen.cost))
    return changes


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
    if state.exists():
        raise UsageError(
            f"settings are applied already ({state})", remedy="run `latlab system restore` first"
        )
    changes, chosen = [], {setting.name: setting for setting in _chosen(profile, root, cpus)}
    todo = plan(profile, root=root, cpus=cpus)
    planned = [chosen[change.name] for change in todo if change.outcome == "planned"]
    files = {str(path): text for setting in planned for path, text in setting.files().items()}
    groups = [str(path) for setting in planned for path in setting.groups()]
    if files or groups:
        _save(state, files, groups)
    probes = PROBES if probe and root == Path("/") else {}
    try:
        for change in todo:
            if change.outcome == "planned":
                change = _applied(chosen[change.name], change, probes.get(change.name), cpus)
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
    said = f"reads {setting.show().value}"
    if probe is not None:
        after = probe.measure(cpus)
        verdict = "not possible here" if before is None or after is None else probe.verdict(before, after)
        said += f"; probe: {verdict}"
    return Change(setting.name, change.before, "applied", said)


def _save(state: Path, files: dict[str, str], groups: Sequence[str]) -> None:
    document = {
        "schema": 1,
        "saved_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "files": files,
        "groups": list(groups),
    }
    try:
        state.parent.mkdir(parents=True, exist_ok=True)
        part = state.with_suffix(".part")
        with open(part, "w") as file:
            json.dump(document, file, indent=2)
            file.flush()
            os.fsync(file.fileno())  # a machine that crashes by our writes must find it
        part.replace(state)
    except OSError as error:
        raise UnavailableError(
            f"the previous settings can't be saved in {state} ({error.strerror}): nothing was changed"
        ) from None


def restore(*, state: Path | None = None) -> list[Change]:
    """Write back what was before `apply`, whoever applied it; nothing to restore is fine.

    What can't be written back stays in the state file, for the next try.

    Raises:
        InputError: the state file is damaged.
    """
    state = state or state_file()
    if not state.exists():
        return []
    try:
        document = json.loads(state.read_text())
        items = [(Path(str(path)), str(text)) for path, text in document["files"].items()]
        groups = [Path(str(path)) for path in document.get("groups", [])]
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise InputError(
            state, f"this is not a saved state ({error})", remedy="restore by hand, then remove it"
        ) from None
    changes: list[Change] = []
    left, kept = {}, []
    for path, text in items:
        try:
            before = path.read_text().strip()
            if chosen(before) == text:  # some files (managed interrupts) refuse even what they hold
                continue
            put(path, text)
            changes.append(Change(str(path), before, "applied", f"reads {path.read_text().strip()}"))
        except (UnavailableError, OSError) as error:
            if path.exists():
                changes.append(Change(str(path), None, "refused", str(error)))
                left[str(path)] = text
            else:  # an interrupt, a CPU or a group that has gone needs no restoring
                changes.append(Change(str(path), None, "unavailable", "it is not there any more"))
    for group in groups:
        there = group.exists()
        try:
            dissolve(group)
            if there:
                changes.append(Change(str(group), "shield", "applied", "its tasks are back"))
        except UnavailableError as error:
            changes.append(Change(str(group), "shield", "refused", str(error)))
            kept.append(str(group))
    if left or kept:
        _save(state, left, kept)
    else:
        state.unlink()
    return changes


@contextmanager
def tuned(
    profile: str,
    *,
    root: Path = Path("/"),
    cpus: Sequence[int] = (),
    state: Path | None = None,
    probe: bool = True,
) -> Iterator[list[Change]]:
    """Hold a profile's settings inside the block.

    They are restored on leaving, on an exception, and on SIGINT, SIGTERM and SIGHUP.
    """
    handled = (signal.SIGTERM, signal.SIGHUP)
    former: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)  # unwinds through the finally below

    state = state or state_file()
    applied = False
    try:
        for number in handled:
            former[number] = signal.signal(number, leave)
        changes = apply(profile, root=root, cpus=cpus, state=state, probe=probe)
        applied = True  # else somebody else's settings may stand in the state file: apply refused
        yield changes
    finally:
        # A second signal must not stop the way back.
        for number in (signal.SIGINT, *handled):
            before = signal.signal(number, signal.SIG_IGN)
            former.setdefault(number, before)
        if applied:
            restore(state=state)
        for number, handler in former.items():
            signal.signal(number, handler)
