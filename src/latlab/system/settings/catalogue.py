"""The settings of a machine that disturb measurements, and which of them `tune` writes for whom.

Every setting works below a file-system root, so that tests run it on trees of machines that are not at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from latlab.errors import UnavailableError, UsageError
from latlab.system.kernel.tracing import parse_cpu_list
from latlab.system.settings import readings as _readings
from latlab.system.settings.setting import FactSetting, FileSetting, Finding, Setting, put, read_text
from latlab.system.settings.shield import ShieldSetting

__all__ = ["PROFILES", "Finding", "Setting", "check", "settings"]


@dataclass(frozen=True)
class InterruptAffinity:
    """Which CPUs serve device interrupts: none of those that measure.

    Attributes:
        cpus: the measuring CPUs; empty to only look.
    """

    root: Path
    cpus: tuple[int, ...] = ()
    name: str = field(default="interrupt affinity", init=False)
    _cost = "device interrupts on a measuring core take 1 to 50 µs each"

    def available(self) -> str | None:
        """Why it isn't there; None where it is."""
        if not any(self.root.glob("proc/irq/*/smp_affinity_list")):
            return "no /proc/irq here"
        return None if self.cpus else "no measuring cores are named: give --cpus"

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

    def groups(self) -> list[Path]:
        """None."""
        return []

    def show(self) -> Finding:
        """How many interrupts may come to the measuring CPUs."""
        why = self.available()
        if why is not None:
            return Finding(self.name, None, why, None, self._cost, "")
        count, whole = len(self.files()), len(list(self.root.glob("proc/irq/*/smp_affinity_list")))
        chosen = ",".join(map(str, self.cpus))
        command = "" if not count else f"sudo latlab system tune --apply --for jitter --cpus {chosen}"
        return Finding(
            self.name, f"{count} of {whole} may come to CPU {chosen}", None, count == 0, self._cost, command
        )

    def write(self) -> None:
        """Send them to the other CPUs; an interrupt that can't be moved (per CPU, managed) stays.

        Raises:
            UnavailableError: all CPUs measure, or no interrupt could be moved.
        """
        online = set(parse_cpu_list(read_text(self.root / "sys/devices/system/cpu/online")))
        others = sorted(online - set(self.cpus))
        if not others:
            raise UnavailableError(
                "every CPU measures: none is left for interrupts", remedy="name fewer with --cpus"
            )
        moved, refused = 0, 0
        for path in self.files():
            try:
                put(path, ",".join(map(str, others)))
                moved += 1
            except UnavailableError:
                refused += 1
        if refused and not moved:
            raise UnavailableError(f"none of {refused} interrupts could be moved", remedy="run as root")


def _boot(parameter: str) -> str:
    return f"add {parameter} to the kernel's command line and boot again"


_NO_DEBUGFS = "debugfs is not mounted: sudo mount -t debugfs none /sys/kernel/debug"


def settings(root: Path = Path("/"), cpus: Sequence[int] = ()) -> list[Setting]:
    """Every setting that is known, for a machine below `root`; `cpus` are those that measure."""

    def file(
        name: str,
        patterns: Sequence[str],
        wanted: str | None,
        cost: str,
        good: Sequence[str],
        mend: str = "",
        missing: str = "this kernel has no such setting",
    ) -> FileSetting:
        return FileSetting(
            root, name, tuple(patterns), wanted, cost, lambda value: value in good, mend, missing
        )

    named = ",".join(map(str, cpus)) or "<cpus>"
    cpu, virtual = "sys/devices/system/cpu", "no cpufreq (usual in a virtual machine): the host decides"
    debugfs = any((root / "sys/kernel/debug").glob("*"))
    found: list[Setting] = [
        file(
            "governor",
            [f"{cpu}/cpu[0-9]*/cpufreq/scaling_governor"],
            "performance",
            "the first ms after idle run slowly: up to 2 times",
            ["performance"],
            missing=virtual,
        ),
        file(
            "turbo (Intel)",
            [f"{cpu}/intel_pstate/no_turbo"],
            "1",
            "the frequency follows temperature and neighbours: some % a run",
            ["1"],
            missing="no intel_pstate",
        ),
        file(
            "turbo",
            [f"{cpu}/cpufreq/boost"],
            "0",
            "the frequency follows temperature and neighbours: some % from run to run",
            ["0"],
            missing=virtual,
        ),
        FactSetting(
            "SMT siblings",
            "a busy sibling takes up to half of a core's units",
            "echo off | sudo tee /sys/devices/system/cpu/smt/control",
            _of(_readings.siblings, root),
        ),
        FactSetting(
            "isolation and nohz",
            "other threads, and 100 to 1000 ticks a second, come to a core that isn't",
            _boot(f"isolcpus={named} nohz_full={named} rcu_nocbs={named}"),
            _of(_readings.isolation, root),
        ),
        InterruptAffinity(root, tuple(cpus)),
        ShieldSetting(root, tuple(cpus)),
        file(
            "real-time limit",
            ["proc/sys/kernel/sched_rt_runtime_us"],
            "-1",
            "a real-time thread that spins loses 50 ms of each second",
            ["-1"],
        ),
        file(
            "fair server",
            ["sys/kernel/debug/sched/fair_server/cpu[0-9]*/runtime"],
            "0",
            "since Linux 6.12 it gives others 50 ms of each second, in place of the real-time limit",
            ["0"],
            missing="no fair server here (Linux before 6.12)" if debugfs else _NO_DEBUGFS,
        ),
        file(
            "transparent huge pages",
            ["sys/kernel/mm/transparent_hugepage/enabled"],
            "madvise",
            "khugepaged and faults of 2 MiB: stalls up to ms",
            ["madvise", "never"],
        ),
        FactSetting(
            "swap", "a page that was swapped out takes ms", "sudo swapoff -a", _of(_readings.swap, root)
        ),
        file(
            "clock source",
            ["sys/devices/system/clocksource/clocksource0/current_clocksource"],
            "tsc",
            "a clock other than the TSC costs a system call or more: 0.2 to 2 µs a reading",
            ["tsc", "kvm-clock", "arch_sys_counter"],
        ),
        file(
            "address layout (ASLR)",
            ["proc/sys/kernel/randomize_va_space"],
            "0",
            "caches and branch predictors meet another layout each run: some % between runs",
            ["0"],
        ),
        FactSetting(
            "mitigations",
            "each system call and interrupt costs 0.1 to 1 µs more",
            _boot("mitigations=off"),
            _of(_readings.mitigations, root),
        ),
        FactSetting(
            "timer slack",
            "each sleep ends up to this much later",
            "echo 1 > /proc/$$/timerslack_ns  # for this shell and what it starts",
            _of(_readings.timer_slack, root),
        ),
        file(
            "NMI watchdog",
            ["proc/sys/kernel/nmi_watchdog"],
            "0",
            "a non-maskable interrupt now and then, and one hardware counter less",
            ["0"],
        ),
        file(
            "automatic NUMA balancing",
            ["proc/sys/kernel/numa_balancing"],
            "0",
            "page faults of its own making",
            ["0"],
        ),
        file(
            "timer migration",
            ["proc/sys/kernel/timer_migration"],
            "0",
            "others' timers come to this core",
            ["0"],
        ),
        FactSetting(
            "load by other processes",
            "they preempt, and they empty the shared caches",
            f"stop them, or shield cores: sudo latlab system tune --apply --for jitter --cpus {named}",
            _of(_readings.load, root),
        ),
        FactSetting(
            "CPU quota",
            "the kernel stops the whole container until the quota's next period: tens of ms",
            "start the container without it: docker update --cpus 0 <container>",
            _of(_readings.quota, root),
        ),
        FactSetting(
            "steal time",
            "the host ran something else on our CPU",
            "ask for a dedicated host, or pin the virtual CPUs",
            _of(_readings.steal, root),
        ),
    ]
    return found


def _of(read: Callable[[Path], tuple[str, bool]], root: Path) -> Callable[[], tuple[str, bool]]:
    return lambda: read(root)


# What `tune` writes for whom. Benchmarks want the same every time, jitter wants nobody else, messaging wants
# fast wake-ups.
PROFILES: dict[str, tuple[str, ...]] = {
    "bench": (
        "governor",
        "turbo (Intel)",
        "turbo",
        "address layout (ASLR)",
        "NMI watchdog",
        "automatic NUMA balancing",
        "transparent huge pages",
    ),
    "jitter": (
        "governor",
        "turbo (Intel)",
        "turbo",
        "real-time limit",
        "fair server",
        "interrupt affinity",
        "shield",
        "NMI watchdog",
        "automatic NUMA balancing",
        "transparent huge pages",
        "timer migration",
    ),
    "messaging": (
        "governor",
        "turbo (Intel)",
        "turbo",
        "NMI watchdog",
        "automatic NUMA balancing",
        "transparent huge pages",
        "timer migration",
    ),
}


def check(root: Path = Path("/"), cpus: Sequence[int] = ()) -> list[Finding]:
    """What every setting is."""
    return [setting.show() for setting in settings(root, cpus)]
