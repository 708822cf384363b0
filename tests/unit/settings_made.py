"""Machines laid out as folders, for the tests of settings."""

from __future__ import annotations

from pathlib import Path

CPU = "sys/devices/system/cpu"


def tree(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="latin-1")
    return root


def noisy_machine(root: Path) -> Path:
    """A bare-metal machine with everything set wrongly."""
    return tree(
        root,
        {
            f"{CPU}/online": "0-3\n",
            f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave\n",
            f"{CPU}/cpu1/cpufreq/scaling_governor": "performance\n",
            f"{CPU}/intel_pstate/no_turbo": "0\n",
            f"{CPU}/cpu0/topology/thread_siblings_list": "0,2\n",
            f"{CPU}/cpu1/topology/thread_siblings_list": "1,3\n",
            f"{CPU}/isolated": "\n",
            f"{CPU}/nohz_full": "(null)\n",
            f"{CPU}/vulnerabilities/meltdown": "Mitigation: PTI\n",
            f"{CPU}/vulnerabilities/mds": "Not affected\n",
            "proc/irq/30/smp_affinity_list": "0-3\n",
            "proc/irq/31/smp_affinity_list": "0\n",
            "proc/sys/kernel/sched_rt_runtime_us": "950000\n",
            "sys/kernel/debug/sched/fair_server/cpu0/runtime": "50000000\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
            "proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
            "proc/sys/kernel/randomize_va_space": "2\n",
            "proc/sys/kernel/nmi_watchdog": "1\n",
            "proc/sys/kernel/numa_balancing": "1\n",
            "proc/sys/kernel/timer_migration": "1\n",
            "proc/loadavg": "7.00 5.00 1.00 9/300 12\n",
            "proc/stat": "cpu 1000 0 1000 100000 0 0 0 5000 0 0\n",
            "proc/self/timerslack_ns": "50000\n",
            f"{CPU}/cpu0/cpufreq/energy_performance_preference": "balance_power\n",
            f"{CPU}/cpu2/cpuidle/state0/disable": "0\n",
            f"{CPU}/cpu2/cpuidle/state1/disable": "0\n",
            f"{CPU}/cpu3/cpuidle/state2/disable": "0\n",
            f"{CPU}/cpu0/cpuidle/state1/disable": "0\n",
            f"{CPU}/cpu0/online": "1\n",
            f"{CPU}/cpu1/online": "1\n",
            "proc/cmdline": "quiet rcu_nocbs=1\n",
            "proc/irq/default_smp_affinity": "f\n",
            "proc/77/comm": "irqbalance\n",
            "sys/class/net/eth0/device/x": "",
            "sys/class/net/eth0/queues/rx-0/rps_cpus": "4\n",
            "sys/class/net/eth0/queues/tx-0/xps_cpus": "1\n",
            "sys/devices/virtual/workqueue/cpumask": "00000000,0000000f\n",
            "sys/devices/virtual/workqueue/writeback/cpumask": "f\n",
            "sys/kernel/mm/ksm/run": "1\n",
            "proc/sys/kernel/soft_watchdog": "1\n",
            "proc/sys/vm/stat_interval": "1\n",
            "proc/sys/kernel/perf_event_max_sample_rate": "100000\n",
            "proc/self/cgroup": "0::/box\n",
            "sys/fs/cgroup/box/cpu.max": "50000 100000\n",
            "dev/cpu_dma_latency": (2_000_000_000).to_bytes(4, "little").decode("latin-1"),
        },
    )
