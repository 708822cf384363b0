"""The settings of a machine that disturb measurements, and which of them `tune` writes for whom.

Every setting works below a file-system root, so that tests run it on trees of machines that are not at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from latlab.model.evidence.machine import SettingCost, SettingFix, SettingUnknown, SettingValue
from latlab.model.evidence.said import said
from latlab.system.settings import network as _network
from latlab.system.settings import readings as _readings
from latlab.system.settings.masks import InterruptAffinity, MaskSetting, SiblingSetting
from latlab.system.settings.setting import FactSetting, FileSetting, Finding, Setting
from latlab.system.settings.shield import ShieldSetting

__all__ = ["PROFILES", "SOURCES", "Finding", "Setting", "check", "settings"]


def settings(root: Path = Path("/"), cpus: Sequence[int] = ()) -> list[Setting]:
    """Every setting that is known, for a machine below `root`; `cpus` are those that measure."""

    def file(
        name: str,
        patterns: Sequence[str],
        wanted: str | None,
        cost: str,
        good: Sequence[str],
        mend: str = "",
        missing: str = said(SettingUnknown.NO_SETTING),
    ) -> FileSetting:
        return FileSetting(
            root, name, tuple(patterns), wanted, cost, lambda value: value in good, mend, missing
        )

    def mask(name: str, patterns: Sequence[str], value: SettingValue, cost: str) -> MaskSetting:
        return MaskSetting(root, name, tuple(patterns), value, cost, tuple(cpus))

    named = ",".join(map(str, cpus)) or "<cpus>"
    cpu, virtual = "sys/devices/system/cpu", said(SettingUnknown.NO_CPUFREQ)
    debugfs = any((root / "sys/kernel/debug").glob("*"))
    found: list[Setting] = [
        file(
            "governor",
            [f"{cpu}/cpu[0-9]*/cpufreq/scaling_governor"],
            "performance",
            said(SettingCost.GOVERNOR),
            ["performance"],
            missing=virtual,
        ),
        file(
            "turbo (Intel)",
            [f"{cpu}/intel_pstate/no_turbo"],
            "1",
            said(SettingCost.TURBO_INTEL),
            ["1"],
            missing=said(SettingUnknown.NO_INTEL_PSTATE),
        ),
        file(
            "turbo",
            [f"{cpu}/cpufreq/boost"],
            "0",
            said(SettingCost.TURBO),
            ["0"],
            missing=virtual,
        ),
        file(
            "energy bias",
            [f"{cpu}/cpu[0-9]*/cpufreq/energy_performance_preference"],
            "performance",
            said(SettingCost.ENERGY_BIAS),
            ["performance"],
            missing=said(SettingUnknown.NO_MANAGED_FREQUENCY),
        ),
        FileSetting(
            root,
            "C-states",
            tuple(f"{cpu}/cpu{one}/cpuidle/state[1-9]*/disable" for one in [*map(str, cpus)] or ["[0-9]*"]),
            "1",
            said(SettingCost.IDLE_STATES),
            lambda value: value == "1",
            missing=said(SettingUnknown.NO_CPUIDLE),
            every=True,
            meaning={"0": said(SettingValue.IDLE_STATES), "1": said(SettingValue.NO_IDLE_STATES)},
        ),
        FactSetting(
            "wake-up latency limit",
            said(SettingCost.WAKE_UP_LIMIT),
            r"exec 9<>/dev/cpu_dma_latency && printf '\0\0\0\0' >&9  # holds while this shell runs",
            _of(_readings.wake_up_limit, root),
        ),
        SiblingSetting(root, tuple(cpus)),
        FactSetting(
            "isolation and nohz",
            said(SettingCost.ISOLATION),
            said(SettingFix.BOOT, parameter=f"isolcpus={named} nohz_full={named} rcu_nocbs={named}"),
            lambda: _readings.isolation(root, cpus),
        ),
        FactSetting(
            "RCU offload",
            said(SettingCost.RCU_OFFLOAD),
            said(SettingFix.BOOT, parameter=f"rcu_nocbs={named}"),
            lambda: _readings.rcu_offload(root, cpus),
        ),
        InterruptAffinity(root, tuple(cpus)),
        mask(
            "new interrupts' affinity",
            ["proc/irq/default_smp_affinity"],
            SettingValue.MASKS_SEND,
            said(SettingCost.NEW_INTERRUPTS),
        ),
        FactSetting(
            "irqbalance",
            said(SettingCost.IRQBALANCE),
            "sudo systemctl stop irqbalance",
            _of(_readings.irqbalance, root),
        ),
        mask(
            "network queues",
            ["sys/class/net/*/queues/*/[rx]ps_cpus"],
            SettingValue.MASKS_HAND,
            said(SettingCost.NETWORK_QUEUES),
        ),
        FactSetting(
            "interrupt coalescing",
            said(SettingCost.COALESCING),
            "sudo ethtool -C <card> adaptive-rx off rx-usecs 0",
            _of(_network.coalescing, root),
        ),
        FactSetting(
            "energy-efficient Ethernet",
            said(SettingCost.ENERGY_EFFICIENT_ETHERNET),
            "sudo ethtool --set-eee <card> eee off",
            _of(_network.energy_efficient_ethernet, root),
        ),
        mask(
            "work queues",
            ["sys/devices/virtual/workqueue/cpumask"],
            SettingValue.MASKS_RUN,
            said(SettingCost.WORK_QUEUES),
        ),
        mask(
            "writeback",
            ["sys/devices/virtual/workqueue/writeback/cpumask"],
            SettingValue.MASKS_RUN,
            said(SettingCost.WRITEBACK),
        ),
        ShieldSetting(root, tuple(cpus)),
        file(
            "real-time limit",
            ["proc/sys/kernel/sched_rt_runtime_us"],
            "-1",
            said(SettingCost.REAL_TIME_LIMIT),
            ["-1"],
        ),
        file(
            "fair server",
            ["sys/kernel/debug/sched/fair_server/cpu[0-9]*/runtime"],
            "0",
            said(SettingCost.FAIR_SERVER),
            ["0"],
            missing=said(SettingUnknown.NO_FAIR_SERVER) if debugfs else said(SettingUnknown.NO_DEBUGFS),
        ),
        file(
            "transparent huge pages",
            ["sys/kernel/mm/transparent_hugepage/enabled"],
            "madvise",
            said(SettingCost.HUGE_PAGES),
            ["madvise", "never"],
        ),
        file(
            "same-page merging (KSM)",
            ["sys/kernel/mm/ksm/run"],
            "0",
            said(SettingCost.SAME_PAGES),
            ["0"],
        ),
        FactSetting("swap", said(SettingCost.SWAP), "sudo swapoff -a", _of(_readings.swap, root)),
        file(
            "clock source",
            ["sys/devices/system/clocksource/clocksource0/current_clocksource"],
            "tsc",
            said(SettingCost.CLOCK_SOURCE),
            ["tsc", "kvm-clock", "arch_sys_counter"],
        ),
        file(
            "address layout (ASLR)",
            ["proc/sys/kernel/randomize_va_space"],
            "0",
            said(SettingCost.ADDRESS_LAYOUT),
            ["0"],
        ),
        FactSetting(
            "mitigations",
            said(SettingCost.MITIGATIONS),
            said(SettingFix.BOOT, parameter="mitigations=off"),
            _of(_readings.mitigations, root),
        ),
        FactSetting(
            "timer slack",
            said(SettingCost.TIMER_SLACK),
            "echo 1 > /proc/$$/timerslack_ns  # for this shell and what it starts",
            _of(_readings.timer_slack, root),
        ),
        file(
            "NMI watchdog",
            ["proc/sys/kernel/nmi_watchdog"],
            "0",
            said(SettingCost.NMI_WATCHDOG),
            ["0"],
        ),
        file(
            "soft watchdog",
            ["proc/sys/kernel/soft_watchdog"],
            "0",
            said(SettingCost.SOFT_WATCHDOG),
            ["0"],
        ),
        FileSetting(
            root,
            "statistics interval",
            ("proc/sys/vm/stat_interval",),
            "120",
            said(SettingCost.STATISTICS_INTERVAL),
            lambda value: value.isdigit() and int(value) >= 60,
        ),
        FileSetting(
            root,
            "perf's sample rate",
            ("proc/sys/kernel/perf_event_max_sample_rate",),
            "1000",
            said(SettingCost.SAMPLE_RATE),
            lambda value: value.isdigit() and int(value) <= 1000,
        ),
        file(
            "automatic NUMA balancing",
            ["proc/sys/kernel/numa_balancing"],
            "0",
            said(SettingCost.NUMA_BALANCING),
            ["0"],
        ),
        file(
            "timer migration",
            ["proc/sys/kernel/timer_migration"],
            "0",
            said(SettingCost.TIMER_MIGRATION),
            ["0"],
        ),
        FactSetting(
            "load by other processes",
            said(SettingCost.LOAD),
            said(SettingFix.SHIELD, cpus=named),
            _of(_readings.load, root),
        ),
        FactSetting(
            "CPU quota",
            said(SettingCost.QUOTA),
            said(SettingFix.NO_QUOTA),
            _of(_readings.quota, root),
        ),
        FactSetting(
            "steal time",
            said(SettingCost.STEAL),
            said(SettingFix.DEDICATED_HOST),
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
