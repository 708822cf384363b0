"""Settings that say which CPUs may be disturbed: masks of CPUs, interrupts' affinities, siblings.

All of them are judged for the CPUs that measure, and leave the others as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from latlab.errors import UnavailableError, UsageError
from latlab.model.evidence.machine import SettingCost, SettingUnknown, SettingValue
from latlab.model.evidence.said import said
from latlab.system.cpus import parse_cpu_list
from latlab.system.settings.setting import Finding, PlainSetting, put, read_text

__all__ = ["InterruptAffinity", "MaskSetting", "SiblingSetting", "mask_of", "mask_text"]

_NO_CPUS = said(SettingUnknown.NO_CPUS_NAMED)


def mask_of(text: str) -> set[int]:
    """The CPUs of a mask as the kernel writes it: "ff", or "00000001,00000000".

    Raises:
        ValueError: it is none.
    """
    bits = int(text.replace(",", ""), 16)
    return {cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1}


def mask_text(cpus: set[int]) -> str:
    """CPUs as a mask, in groups of 32 from the right."""
    bits = sum(1 << cpu for cpu in cpus)
    groups = [f"{bits & 0xFFFFFFFF:x}"]
    while bits := bits >> 32:
        groups[-1] = groups[-1].zfill(8)
        groups.append(f"{bits & 0xFFFFFFFF:x}")
    return ",".join(reversed(groups))


def _tune(cpus: tuple[int, ...]) -> str:
    return f"sudo latlab system tune --apply --for jitter --cpus {','.join(map(str, cpus))}"


def _others(root: Path, cpus: tuple[int, ...]) -> set[int]:
    """The CPUs that are online and don't measure.

    Raises:
        UnavailableError: there are none.
    """
    others = set(parse_cpu_list(read_text(root / "sys/devices/system/cpu/online"))) - set(cpus)
    if not others:
        raise UnavailableError(
            "every CPU measures: none is left for what disturbs", remedy="name fewer with --cpus"
        )
    return others


@dataclass(frozen=True)
class MaskSetting(PlainSetting):
    """Files that hold a mask of CPUs, in none of which a measuring CPU may stand.

    Attributes:
        patterns: globs below the root; the first that finds files is used.
        value: says what the files' owner does with those CPUs.
        cpus: the measuring CPUs; empty to only look.
    """

    root: Path
    name: str
    patterns: tuple[str, ...]
    value: SettingValue
    cost: str
    cpus: tuple[int, ...] = ()
    missing: str = said(SettingUnknown.NO_MASK)

    def _paths(self) -> list[Path]:
        return next((found for one in self.patterns if (found := sorted(self.root.glob(one)))), [])

    def available(self) -> str | None:
        """Why it isn't there; None where it is."""
        if not self._paths():
            return self.missing
        return None if self.cpus else _NO_CPUS

    def files(self) -> dict[Path, str]:
        """The masks that hold a measuring CPU."""
        found = {}
        for path in self._paths():
            try:
                text = read_text(path)
                if mask_of(text) & set(self.cpus):
                    found[path] = text
            except (OSError, ValueError):
                continue  # a device without this, or one that has just gone
        return found

    def found(self) -> Finding:
        """How many of the masks hold a measuring CPU."""
        count, kind = len(self.files()), self.value
        value = said(kind, count=count, whole=len(self._paths()), cpus=",".join(map(str, self.cpus)))
        return Finding(self.name, value, None, count == 0, self.cost, _tune(self.cpus) if count else "")

    def write(self) -> None:
        """Take the measuring CPUs out of them.

        Raises:
            UnavailableError: all CPUs measure, or none of the masks could be written.
        """
        others = _others(self.root, self.cpus)
        _each(self.files(), lambda text: mask_text((mask_of(text) - set(self.cpus)) or others), "masks")


def _each(files: dict[Path, str], wanted: Callable[[str], str], what: str) -> None:
    """Write each; some of them the kernel keeps for itself.

    Raises:
        UnavailableError: it keeps all.
    """
    refused = 0
    for path, text in files.items():
        try:
            put(path, wanted(text))
        except UnavailableError:
            refused += 1
    if refused and refused == len(files):
        raise UnavailableError(f"none of {refused} {what} could be moved", remedy="run as root")


@dataclass(frozen=True)
class InterruptAffinity(PlainSetting):
    """Which CPUs serve device interrupts: none of those that measure.

    Attributes:
        cpus: the measuring CPUs; empty to only look.
    """

    root: Path
    cpus: tuple[int, ...] = ()
    name: str = field(default="interrupt affinity", init=False)
    cost = said(SettingCost.INTERRUPTS)

    def available(self) -> str | None:
        """Why it isn't there; None where it is."""
        if not any(self.root.glob("proc/irq/*/smp_affinity_list")):
            return said(SettingUnknown.NO_INTERRUPTS)
        return None if self.cpus else _NO_CPUS

    def files(self) -> dict[Path, str]:
        """The affinity of every interrupt that may run on a measuring CPU."""
        found = {}
        for path in sorted(self.root.glob("proc/irq/*/smp_affinity_list")):
            try:
                text = read_text(path)
                if set(parse_cpu_list(text)) & set(self.cpus):
                    found[path] = text
            except (OSError, UsageError):
                continue  # an interrupt that has just gone
        return found

    def found(self) -> Finding:
        """How many interrupts may come to the measuring CPUs."""
        count, whole = len(self.files()), len(list(self.root.glob("proc/irq/*/smp_affinity_list")))
        value = said(SettingValue.MASKS_RUN, count=count, whole=whole, cpus=",".join(map(str, self.cpus)))
        return Finding(self.name, value, None, count == 0, self.cost, _tune(self.cpus) if count else "")

    def write(self) -> None:
        """Send them to the other CPUs; an interrupt that can't be moved (per CPU, managed) stays.

        Raises:
            UnavailableError: all CPUs measure, or no interrupt could be moved.
        """
        others = ",".join(map(str, sorted(_others(self.root, self.cpus))))
        _each(self.files(), lambda _: others, "interrupts")


@dataclass(frozen=True)
class SiblingSetting(PlainSetting):
    """Hyper-threads that share a core with a measuring CPU: offline while it measures.

    Attributes:
        cpus: the measuring CPUs; empty: every core is judged, and none can be written.
    """

    root: Path
    cpus: tuple[int, ...] = ()
    name: str = field(default="SMT siblings", init=False)
    cost = said(SettingCost.SIBLINGS)

    def _lists(self) -> dict[int, list[int]]:
        found = {}
        for path in self.root.glob("sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list"):
            found[int(path.parts[-3].removeprefix("cpu"))] = parse_cpu_list(read_text(path))
        return found

    def available(self) -> str | None:
        """Why it isn't known; None where it is."""
        return None if self._lists() else said(SettingUnknown.NO_TOPOLOGY)

    def _siblings(self) -> list[int]:
        """Those that are online and don't measure themselves."""
        lists = self._lists()
        shared = [each for each in lists.values() if set(each) & set(self.cpus)]
        beside = {one for each in shared for one in each} - set(self.cpus)
        return sorted(beside & lists.keys())

    def files(self) -> dict[Path, str]:
        """What takes each of them offline."""
        folder = self.root / "sys/devices/system/cpu"
        paths = [folder / f"cpu{cpu}/online" for cpu in self._siblings()]
        return {path: read_text(path) for path in paths if path.exists()}

    def found(self) -> Finding:
        """Which CPUs share the measuring cores."""
        if self.cpus:
            shared = ", ".join(f"CPU {cpu}" for cpu in self._siblings())
            chosen = ",".join(map(str, self.cpus))
            value = (
                said(SettingValue.SHARE_CORE, siblings=shared, cpus=chosen)
                if shared
                else said(SettingValue.NONE_SHARES_CORE, cpus=chosen)
            )
            return Finding(self.name, value, None, not shared, self.cost, _tune(self.cpus) if shared else "")
        pairs = sorted({",".join(map(str, one)) for one in self._lists().values() if len(one) > 1})
        value = (
            said(SettingValue.SHARED_CORES, pairs="; ".join(pairs))
            if pairs
            else said(SettingValue.NO_SHARED_CORE)
        )
        mend = "echo off | sudo tee /sys/devices/system/cpu/smt/control" if pairs else ""
        return Finding(self.name, value, None, not pairs, self.cost, mend)

    def write(self) -> None:
        """Take the siblings offline.

        Raises:
            UnavailableError: one can't be.
        """
        for path in self.files():
            put(path, "0")
