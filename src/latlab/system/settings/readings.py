"""Facts of a machine that no file sets: each is read below a root, as its value and whether it is good."""

from __future__ import annotations

from pathlib import Path

from latlab.errors import UnavailableError
from latlab.system.kernel.tracing import parse_cpu_list
from latlab.system.settings.setting import read_text

__all__ = ["isolation", "load", "mitigations", "quota", "siblings", "steal", "swap", "timer_slack"]


def swap(root: Path) -> tuple[str, bool]:
    """Swap areas in use."""
    lines = _lines(root / "proc/swaps")[1:]
    return (f"{len(lines)} areas", False) if lines else ("none", True)


def load(root: Path) -> tuple[str, bool]:
    """Threads that run or want to."""
    words = _lines(root / "proc/loadavg")[0].split()
    running = int(words[3].split("/")[0])
    try:
        cpus = len(parse_cpu_list(read_text(root / "sys/devices/system/cpu/online")))
    except OSError:
        cpus = 1
    return f"{words[0]} over 1 min, {running} running now, {cpus} CPUs", float(words[0]) < 0.25 * cpus


def steal(root: Path) -> tuple[str, bool]:
    """Share of time that the hypervisor took."""
    numbers = [int(word) for word in _lines(root / "proc/stat")[0].split()[1:9]]
    if len(numbers) < 8:
        raise UnavailableError("this kernel does not count stolen time")
    share = numbers[7] / max(1, sum(numbers))
    return f"{100 * share:.3f} % since boot", share < 1e-4


def mitigations(root: Path) -> tuple[str, bool]:
    """Mitigations that cost time."""
    active = []
    for path in sorted((root / "sys/devices/system/cpu/vulnerabilities").glob("*")):
        if read_text(path).startswith("Mitigation"):
            active.append(path.name)
    if not (root / "sys/devices/system/cpu/vulnerabilities").is_dir():
        raise UnavailableError("this kernel does not list its mitigations")
    return (", ".join(active) or "none active"), not active


def isolation(root: Path) -> tuple[str, bool]:
    """Isolated CPUs."""
    found = []
    if not any((root / f"sys/devices/system/cpu/{name}").exists() for name in ("isolated", "nohz_full")):
        raise UnavailableError("this kernel does not show what is isolated")
    for name in ("isolated", "nohz_full"):
        try:
            text = read_text(root / f"sys/devices/system/cpu/{name}")
        except OSError:
            text = ""
        found.append(f"{name}: {text if text not in ('', '(null)') else 'none'}")
    return ", ".join(found), all(not one.endswith("none") for one in found)


def siblings(root: Path) -> tuple[str, bool]:
    """Hyper-threads of the cores."""
    lists = {
        read_text(p)
        for p in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    }
    if not lists:
        raise UnavailableError("this kernel shows no topology")
    shared = sorted(text for text in lists if len(parse_cpu_list(text)) > 1)
    return (f"cores shared by {'; '.join(shared)}" if shared else "no core is shared"), not shared


def timer_slack(root: Path) -> tuple[str, bool]:
    """Slack of this process' timers."""
    text = _lines(root / "proc/self/timerslack_ns")[0]
    return f"{text} ns", int(text) <= 1000


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise UnavailableError(f"{path} can't be read ({error.strerror})") from None
    if not lines:
        raise UnavailableError(f"{path} is empty")
    return lines


def quota(root: Path) -> tuple[str, bool]:
    """The CPU bandwidth limit of our control group."""
    from latlab.system.environment import cpu_quota

    try:
        text = cpu_quota(root)
    except (OSError, ValueError) as error:
        raise UnavailableError(f"the control group is not known ({error})") from None
    if text == "none":
        return text, True
    return " of each ".join(f"{word} µs" for word in text.split()), False
