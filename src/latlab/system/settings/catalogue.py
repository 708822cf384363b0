"""The settings of a machine that disturb measurements, and which of them `tune` writes for whom.

Every setting works below a file-system root, so that tests run it on trees of machines that are not at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from latlab.system.settings import network as _network
from latlab.system.settings import readings as _readings
from latlab.system.settings.masks import InterruptAffinity, MaskSetting, SiblingSetting
from latlab.system.settings.setting import FactSetting, FileSetting, Finding, Setting
from latlab.system.settings.shield import ShieldSetting

__all__ = ["PROFILES", "SOURCES", "Finding", "Setting", "check", "settings"]


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

    def mask(name: str, patterns: Sequence[str], what: str, cost: str) -> MaskSetting:
        return MaskSetting(root, name, tuple(patterns), what, cost, tuple(cpus))

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
        file(
            "energy bias",
            [f"{cpu}/cpu[0-9]*/cpufreq/energy_performance_preference"],
            "performance",
            "the processor lowers its clock while it waits for memory: some % a run",
            ["performance"],
            missing="no hardware-managed frequency (usual in a virtual machine)",
        ),
        FileSetting(
            root,
            "C-states",
            tuple(f"{cpu}/cpu{one}/cpuidle/state[1-9]*/disable" for one in [*map(str, cpus)] or ["[0-9]*"]),
            "1",
            "a core that idled wakes up 1 to 200 µs later, by the depth of its sleep",
            lambda value: value == "1",
            missing="no cpuidle, or polling alone: the host decides",
            every=True,
            said={"0": "idle states are enabled", "1": "disabled"},
        ),
        FactSetting(
            "wake-up latency limit",
            "cores may sleep as deeply as they like, and wake up that much later",
            r"exec 9<>/dev/cpu_dma_latency && printf '\0\0\0\0' >&9  # holds while this shell runs",
            _of(_readings.wake_up_limit, root),
        ),
        SiblingSetting(root, tuple(cpus)),
        FactSetting(
            "isolation and nohz",
            "other threads, and 100 to 1000 ticks a second, interrupt a core that isn't isolated",
            _boot(f"isolcpus={named} nohz_full={named} rcu_nocbs={named}"),
            lambda: _readings.isolation(root, cpus),
        ),
        FactSetting(
            "RCU offload",
            "the kernel's deferred frees run on the core: 1 to 100 µs at a time",
            _boot(f"rcu_nocbs={named}"),
            lambda: _readings.rcu_offload(root, cpus),
        ),
        InterruptAffinity(root, tuple(cpus)),
        mask(
            "new interrupts' affinity",
            ["proc/irq/default_smp_affinity"],
            "would send new interrupts to",
            "a device that is started later interrupts a measuring core",
        ),
        FactSetting(
            "irqbalance",
            "it moves interrupts back to the cores that they were moved off, every 10 s",
            "sudo systemctl stop irqbalance",
            _of(_readings.irqbalance, root),
        ),
        mask(
            "network queues",
            ["sys/class/net/*/queues/*/[rx]ps_cpus"],
            "hand packets to",
            "packets of others are worked on by a measuring core: 5 to 50 µs each",
        ),
        FactSetting(
            "interrupt coalescing",
            "a card holds a packet back for this time, waiting for more",
            "sudo ethtool -C <card> adaptive-rx off rx-usecs 0",
            _of(_network.coalescing, root),
        ),
        FactSetting(
            "energy-efficient Ethernet",
            "a link that slept takes 5 to 30 µs to wake up",
            "sudo ethtool --set-eee <card> eee off",
            _of(_network.energy_efficient_ethernet, root),
        ),
        mask(
            "work queues",
            ["sys/devices/virtual/workqueue/cpumask"],
            "may run on",
            "kworker threads take 5 to 100 µs at a time",
        ),
        mask(
            "writeback",
            ["sys/devices/virtual/workqueue/writeback/cpumask"],
            "may run on",
            "dirty pages are written out by a measuring core: up to ms",
        ),
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
        file(
            "same-page merging (KSM)",
            ["sys/kernel/mm/ksm/run"],
            "0",
            "ksmd compares pages on any core, and a write to a merged page faults: 1 to 5 µs",
            ["0"],
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
            "soft watchdog",
            ["proc/sys/kernel/soft_watchdog"],
            "0",
            "a timer and a thread on every core, every 4 s: 5 to 20 µs",
            ["0"],
        ),
        FileSetting(
            root,
            "statistics interval",
            ("proc/sys/vm/stat_interval",),
            "120",
            "every core folds its memory statistics at this interval, in seconds: 5 to 50 µs",
            lambda value: value.isdigit() and int(value) >= 60,
        ),
        FileSetting(
            root,
            "perf's sample rate",
            ("proc/sys/kernel/perf_event_max_sample_rate",),
            "1000",
            "a profiler of somebody else may interrupt each core at this rate, in Hz: 1 to 5 µs each",
            lambda value: value.isdigit() and int(value) <= 1000,
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
            "others' timers run on this core",
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
            "use a dedicated host, or pin the virtual CPUs",
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
        "energy bias",
        "address layout (ASLR)",
        "NMI watchdog",
        "automatic NUMA balancing",
        "transparent huge pages",
        "same-page merging (KSM)",
    ),
    "jitter": (
        "governor",
        "turbo (Intel)",
        "turbo",
        "energy bias",
        "SMT siblings",
        "real-time limit",
        "fair server",
        "interrupt affinity",
        "new interrupts' affinity",
        "network queues",
        "work queues",
        "writeback",
        "shield",
        "NMI watchdog",
        "soft watchdog",
        "statistics interval",
        "perf's sample rate",
        "automatic NUMA balancing",
        "transparent huge pages",
        "same-page merging (KSM)",
        "timer migration",
    ),
    "messaging": (
        "governor",
        "turbo (Intel)",
        "turbo",
        "energy bias",
        "C-states",
        "NMI watchdog",
        "soft watchdog",
        "statistics interval",
        "automatic NUMA balancing",
        "transparent huge pages",
        "same-page merging (KSM)",
        "timer migration",
    ),
}

# Where each is described: the kernel's documentation (docs.kernel.org), or a manual page.
_PM, _SYSCTL, _CMDLINE = "admin-guide/pm", "admin-guide/sysctl/kernel", "admin-guide/kernel-parameters"
SOURCES: dict[str, str] = {
    "governor": f"{_PM}/cpufreq",
    "turbo (Intel)": f"{_PM}/intel_pstate",
    "turbo": f"{_PM}/cpufreq",
    "energy bias": f"{_PM}/intel_epb",
    "C-states": f"{_PM}/cpuidle",
    "wake-up latency limit": "power/pm_qos_interface",
    "SMT siblings": "admin-guide/hw-vuln/l1tf",
    "isolation and nohz": f"{_CMDLINE} (isolcpus, nohz_full); timers/no_hz",
    "RCU offload": f"{_CMDLINE} (rcu_nocbs); timers/no_hz",
    "interrupt affinity": "core-api/irq/irq-affinity",
    "new interrupts' affinity": "core-api/irq/irq-affinity",
    "irqbalance": "irqbalance(1)",
    "network queues": "networking/scaling",
    "interrupt coalescing": "ethtool(8), --coalesce",
    "energy-efficient Ethernet": "ethtool(8), --set-eee",
    "work queues": "core-api/workqueue",
    "writeback": "core-api/workqueue",
    "shield": "admin-guide/cgroup-v2 (cpuset)",
    "real-time limit": "scheduler/sched-rt-group",
    "fair server": "scheduler/sched-deadline",
    "transparent huge pages": "admin-guide/mm/transhuge",
    "same-page merging (KSM)": "admin-guide/mm/ksm",
    "swap": "swapoff(8)",
    "clock source": f"{_CMDLINE} (clocksource, tsc)",
    "address layout (ASLR)": f"{_SYSCTL} (randomize_va_space)",
    "mitigations": "admin-guide/hw-vuln",
    "timer slack": "proc_pid_timerslack_ns(5)",
    "NMI watchdog": "admin-guide/lockup-watchdogs",
    "soft watchdog": "admin-guide/lockup-watchdogs",
    "statistics interval": "admin-guide/sysctl/vm (stat_interval)",
    "perf's sample rate": f"{_SYSCTL} (perf_event_max_sample_rate)",
    "automatic NUMA balancing": f"{_SYSCTL} (numa_balancing)",
    "timer migration": "admin-guide/kernel-per-CPU-kthreads",
    "load by other processes": "proc_loadavg(5)",
    "CPU quota": "admin-guide/cgroup-v2 (cpu.max)",
    "steal time": "proc_stat(5)",
}


def check(root: Path = Path("/"), cpus: Sequence[int] = ()) -> list[Finding]:
    """What every setting is."""
    return [replace(one.show(), source=SOURCES[one.name]) for one in settings(root, cpus)]
