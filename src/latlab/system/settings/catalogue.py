"""The settings of a machine that disturb measurements, and which of them `tune` writes for whom.

Every setting works below a file-system root, so that tests run it on trees of machines that are not at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
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
        cost: SettingCost,
        pattern: str,
        *good: str,
        missing: SettingUnknown = SettingUnknown.NO_SETTING,
        accept: Callable[[str], bool] | None = None,
    ) -> FileSetting:
        """A file whose values are good that are named; the first of them is written."""
        accept = accept or (lambda value: value in good)
        return FileSetting(root, name, (pattern,), good[0], said(cost), accept, missing=said(missing))

    def fact(name: str, cost: SettingCost, fix: str, read: Callable[[Path], tuple[str, bool]]) -> FactSetting:
        return FactSetting(name, said(cost), fix, lambda: read(root))

    def mask(name: str, cost: SettingCost, value: SettingValue, pattern: str) -> MaskSetting:
        return MaskSetting(root, name, (pattern,), value, said(cost), tuple(cpus))

    named = ",".join(map(str, cpus)) or "<cpus>"
    cpu, kernel, memory = "sys/devices/system/cpu", "proc/sys/kernel", "sys/kernel/mm"
    debugfs = any((root / "sys/kernel/debug").glob("*"))
    boot = f"isolcpus={named} nohz_full={named} rcu_nocbs={named}"
    return [
        file("governor", SettingCost.GOVERNOR, f"{cpu}/cpu[0-9]*/cpufreq/scaling_governor", "performance",
             missing=SettingUnknown.NO_CPUFREQ),
        file("turbo (Intel)", SettingCost.TURBO_INTEL, f"{cpu}/intel_pstate/no_turbo", "1",
             missing=SettingUnknown.NO_INTEL_PSTATE),
        file("turbo", SettingCost.TURBO, f"{cpu}/cpufreq/boost", "0", missing=SettingUnknown.NO_CPUFREQ),
        file("energy bias", SettingCost.ENERGY_BIAS, f"{cpu}/cpu[0-9]*/cpufreq/energy_performance_preference",
             "performance", missing=SettingUnknown.NO_MANAGED_FREQUENCY),
        FileSetting(
            root, "C-states",
            tuple(f"{cpu}/cpu{one}/cpuidle/state[1-9]*/disable" for one in [*map(str, cpus)] or ["[0-9]*"]),
            "1", said(SettingCost.IDLE_STATES), lambda value: value == "1",
            missing=said(SettingUnknown.NO_CPUIDLE), every=True,
            meaning={"0": said(SettingValue.IDLE_STATES), "1": said(SettingValue.NO_IDLE_STATES)},
        ),
        fact("wake-up latency limit", SettingCost.WAKE_UP_LIMIT,
             r"exec 9<>/dev/cpu_dma_latency && printf '\0\0\0\0' >&9  # holds while this shell runs",
             _readings.wake_up_limit),
        SiblingSetting(root, tuple(cpus)),
        fact("isolation and nohz", SettingCost.ISOLATION, said(SettingFix.BOOT, parameter=boot),
             partial(_readings.isolation, cpus=cpus)),
        fact("RCU offload", SettingCost.RCU_OFFLOAD, said(SettingFix.BOOT, parameter=f"rcu_nocbs={named}"),
             partial(_readings.rcu_offload, cpus=cpus)),
        InterruptAffinity(root, tuple(cpus)),
        mask("new interrupts' affinity", SettingCost.NEW_INTERRUPTS, SettingValue.MASKS_SEND,
             "proc/irq/default_smp_affinity"),
        fact("irqbalance", SettingCost.IRQBALANCE, "sudo systemctl stop irqbalance", _readings.irqbalance),
        mask("network queues", SettingCost.NETWORK_QUEUES, SettingValue.MASKS_HAND,
             "sys/class/net/*/queues/*/[rx]ps_cpus"),
        fact("interrupt coalescing", SettingCost.COALESCING,
             "sudo ethtool -C <card> adaptive-rx off rx-usecs 0", _network.coalescing),
        fact("energy-efficient Ethernet", SettingCost.ENERGY_EFFICIENT_ETHERNET,
             "sudo ethtool --set-eee <card> eee off", _network.energy_efficient_ethernet),
        mask("work queues", SettingCost.WORK_QUEUES, SettingValue.MASKS_RUN,
             "sys/devices/virtual/workqueue/cpumask"),
        mask("writeback", SettingCost.WRITEBACK, SettingValue.MASKS_RUN,
             "sys/devices/virtual/workqueue/writeback/cpumask"),
        ShieldSetting(root, tuple(cpus)),
        file("real-time limit", SettingCost.REAL_TIME_LIMIT, f"{kernel}/sched_rt_runtime_us", "-1"),
        file("fair server", SettingCost.FAIR_SERVER,
             "sys/kernel/debug/sched/fair_server/cpu[0-9]*/runtime", "0",
             missing=SettingUnknown.NO_FAIR_SERVER if debugfs else SettingUnknown.NO_DEBUGFS),
        file("transparent huge pages", SettingCost.HUGE_PAGES, f"{memory}/transparent_hugepage/enabled",
             "madvise", "never"),
        file("same-page merging (KSM)", SettingCost.SAME_PAGES, f"{memory}/ksm/run", "0"),
        fact("swap", SettingCost.SWAP, "sudo swapoff -a", _readings.swap),
        file("clock source", SettingCost.CLOCK_SOURCE,
             "sys/devices/system/clocksource/clocksource0/current_clocksource",
             "tsc", "kvm-clock", "arch_sys_counter"),
        file("address layout (ASLR)", SettingCost.ADDRESS_LAYOUT, f"{kernel}/randomize_va_space", "0"),
        fact("mitigations", SettingCost.MITIGATIONS, said(SettingFix.BOOT, parameter="mitigations=off"),
             _readings.mitigations),
        fact("timer slack", SettingCost.TIMER_SLACK,
             "echo 1 > /proc/$$/timerslack_ns  # for this shell and what it starts", _readings.timer_slack),
        file("NMI watchdog", SettingCost.NMI_WATCHDOG, f"{kernel}/nmi_watchdog", "0"),
        file("soft watchdog", SettingCost.SOFT_WATCHDOG, f"{kernel}/soft_watchdog", "0"),
        file("statistics interval", SettingCost.STATISTICS_INTERVAL, "proc/sys/vm/stat_interval", "120",
             accept=lambda value: value.isdigit() and int(value) >= 60),
        file("perf's sample rate", SettingCost.SAMPLE_RATE, f"{kernel}/perf_event_max_sample_rate", "1000",
             accept=lambda value: value.isdigit() and int(value) <= 1000),
        file("automatic NUMA balancing", SettingCost.NUMA_BALANCING, f"{kernel}/numa_balancing", "0"),
        file("timer migration", SettingCost.TIMER_MIGRATION, f"{kernel}/timer_migration", "0"),
        fact("load by other processes", SettingCost.LOAD, said(SettingFix.SHIELD, cpus=named),
             _readings.load),
        fact("CPU quota", SettingCost.QUOTA, said(SettingFix.NO_QUOTA), _readings.quota),
        fact("steal time", SettingCost.STEAL, said(SettingFix.DEDICATED_HOST), _readings.steal),
    ]  # fmt: skip


# What `tune` writes for whom. Benchmarks want the same every time, jitter wants nobody else, messaging wants
# fast wake-ups.
PROFILES: dict[str, tuple[str, ...]] = {
    "bench": (
        "governor", "turbo (Intel)", "turbo", "energy bias", "address layout (ASLR)", "NMI watchdog",
        "automatic NUMA balancing", "transparent huge pages", "same-page merging (KSM)",
    ),
    "jitter": (
        "governor", "turbo (Intel)", "turbo", "energy bias", "SMT siblings", "real-time limit",
        "fair server", "interrupt affinity", "new interrupts' affinity", "network queues", "work queues",
        "writeback", "shield", "NMI watchdog", "soft watchdog", "statistics interval", "perf's sample rate",
        "automatic NUMA balancing", "transparent huge pages", "same-page merging (KSM)", "timer migration",
    ),
    "messaging": (
        "governor", "turbo (Intel)", "turbo", "energy bias", "C-states", "NMI watchdog", "soft watchdog",
        "statistics interval", "automatic NUMA balancing", "transparent huge pages",
        "same-page merging (KSM)", "timer migration",
    ),
}  # fmt: skip

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
