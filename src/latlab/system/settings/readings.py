"""Facts of a machine that no file sets: each is read below a root, as its value and whether it is good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from latlab.errors import UnavailableError
from latlab.model.evidence.machine import SettingUnknown, SettingValue
from latlab.model.evidence.said import said
from latlab.system.cpus import parse_cpu_list
from latlab.system.settings.setting import read_text
from latlab.words import duration

__all__ = [
    "irqbalance", "isolation", "load", "mitigations", "quota", "rcu_offload", "steal", "swap", "timer_slack",
    "wake_up_limit",
]  # fmt: skip

_NO_LIMIT_US = 1_000_000_000  # the kernel's default is 2,000 s


def swap(root: Path) -> tuple[str, bool]:
    """Swap areas in use."""
    lines = _lines(root / "proc/swaps")[1:]
    return (said(SettingValue.SWAP_AREAS, areas=len(lines)), False) if lines else ("none", True)


def load(root: Path) -> tuple[str, bool]:
    """Threads that run or want to."""
    words = _lines(root / "proc/loadavg")[0].split()
    running = int(words[3].split("/")[0])
    try:
        cpus = len(parse_cpu_list(read_text(root / "sys/devices/system/cpu/online")))
    except OSError:
        cpus = 1
    return said(SettingValue.LOAD, load=words[0], running=running, cpus=cpus), float(words[0]) < 0.25 * cpus


def steal(root: Path) -> tuple[str, bool]:
    """Share of time that the hypervisor took."""
    numbers = [int(word) for word in _lines(root / "proc/stat")[0].split()[1:9]]
    if len(numbers) < 8:
        raise UnavailableError(said(SettingUnknown.NO_STOLEN_TIME))
    share = numbers[7] / max(1, sum(numbers))
    return said(SettingValue.STOLEN, stolen=share), share < 1e-4


def mitigations(root: Path) -> tuple[str, bool]:
    """Mitigations that cost time."""
    active = []
    for path in sorted((root / "sys/devices/system/cpu/vulnerabilities").glob("*")):
        if read_text(path).startswith("Mitigation"):
            active.append(path.name)
    if not (root / "sys/devices/system/cpu/vulnerabilities").is_dir():
        raise UnavailableError(said(SettingUnknown.NO_MITIGATIONS))
    return (", ".join(active) or said(SettingValue.NONE_ACTIVE)), not active


def isolation(root: Path, cpus: Sequence[int] = ()) -> tuple[str, bool]:
    """Isolated CPUs; good where the measuring ones are among them (of no named ones, where there are any)."""
    found, good = dict[str, str](), True
    if not any((root / f"sys/devices/system/cpu/{name}").exists() for name in ("isolated", "nohz_full")):
        raise UnavailableError(said(SettingUnknown.NO_ISOLATION))
    for name in ("isolated", "nohz_full"):
        try:
            text = read_text(root / f"sys/devices/system/cpu/{name}")
        except OSError:
            text = ""
        text = "" if text == "(null)" else text
        found[name] = text or "none"
        good = good and bool(text) and set(cpus) <= set(parse_cpu_list(text))
    if good or not cpus:
        return said(SettingValue.ISOLATED, **found), good
    return said(SettingValue.ISOLATED_OTHERS, **found, cpus=",".join(map(str, cpus))), good


def rcu_offload(root: Path, cpus: Sequence[int] = ()) -> tuple[str, bool]:
    """CPUs whose RCU callbacks run elsewhere: as the kernel was started."""
    words = dict(word.partition("=")[::2] for word in " ".join(_lines(root / "proc/cmdline")).split())
    # nohz_full CPUs are offloaded, too.
    named = [words[name] for name in ("rcu_nocbs", "nohz_full") if words.get(name)]
    text = ", ".join(named) or "none"
    if "all" in named:
        return text, True
    offloaded: set[int] = set()
    for one in named:
        offloaded |= set(parse_cpu_list(one))
    return f"CPU {text}" if named else text, bool(named) and set(cpus) <= offloaded


def wake_up_limit(root: Path) -> tuple[str, bool]:
    """The latency that every idle state must keep now (/dev/cpu_dma_latency), as its holders ask for."""
    path = root / "dev/cpu_dma_latency"
    try:
        with open(path, "rb") as file:
            raw = file.read(4)
    except OSError as error:
        raise UnavailableError(said(SettingUnknown.UNREADABLE, path=str(path), why=error.strerror)) from None
    if len(raw) < 4:
        raise UnavailableError(said(SettingUnknown.NO_LATENCY, path=str(path)))
    limit = int.from_bytes(raw, "little", signed=True)
    if limit >= _NO_LIMIT_US:
        return "none", False
    return duration(1e3 * limit), limit <= 1


def irqbalance(root: Path) -> tuple[str, bool]:
    """Whether the daemon runs that distributes interrupts."""
    names = list((root / "proc").glob("[0-9]*/comm"))
    if not names:
        raise UnavailableError(said(SettingUnknown.NO_PROCESSES))
    for path in names:
        try:
            if read_text(path) == "irqbalance":
                return said(SettingValue.RUNNING, pid=int(path.parent.name)), False
        except OSError:
            continue
    return said(SettingValue.NOT_RUNNING), True


def timer_slack(root: Path) -> tuple[str, bool]:
    """Slack of this process' timers."""
    text = _lines(root / "proc/self/timerslack_ns")[0]
    return duration(int(text)), int(text) <= 1000


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise UnavailableError(said(SettingUnknown.UNREADABLE, path=str(path), why=error.strerror)) from None
    if not lines:
        raise UnavailableError(said(SettingUnknown.EMPTY, path=str(path)))
    return lines


def quota(root: Path) -> tuple[str, bool]:
    """The CPU bandwidth limit of our control group."""
    from latlab.system.environment import cpu_quota

    try:
        text = cpu_quota(root)
    except (OSError, ValueError) as error:
        raise UnavailableError(said(SettingUnknown.NO_CONTROL_GROUP, why=str(error))) from None
    if text == "none":
        return text, True
    quota_us, period_us = text.split()
    return said(SettingValue.QUOTA, quota_us=int(quota_us), period_us=int(period_us)), False
