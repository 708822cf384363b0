"""Captures the environment of a measurement: machine, kernel, settings, process and software.

Each fact is asked for on its own, and one that can't be known is stated as such with the reason: a recording
that says "governor unavailable (this kernel has no cpufreq)" tells more than one that leaves it out.
"""

from __future__ import annotations

import datetime
import gzip
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import latlab
from latlab.errors import UsageError
from latlab.model.machine.environment import Environment, Fact, Value
from latlab.system import floor
from latlab.system.cpus import parse_cpu_list

__all__ = ["PACKAGES", "capture", "cpu_quota", "kernel_hz"]

# Versions that are always recorded, where installed: whatever computes on the measured path or on the
# results.
PACKAGES = ("numpy", "nanoarrow", "scipy", "pyarrow", "click", "rich", "psutil", "pyzmq", "ciw")

# Kernel parameters that change latency. The rest of the command line is not ours to copy into a report.
_PARAMETERS = [
    "isolcpus",
    "nohz",
    "nohz_full",
    "rcu_nocbs",
    "rcu_nocb_poll",
    "irqaffinity",
    "mitigations",
    "nosmt",
    "idle",
    "skew_tick",
    "tsc",
    "clocksource",
    "intel_pstate",
    "amd_pstate",
    "intel_idle.max_cstate",
    "processor.max_cstate",
    "cpuidle.off",
    "cpuidle_haltpoll.force",
    "preempt",
    "transparent_hugepage",
    "hugepages",
    "hugepagesz",
    "default_hugepagesz",
    "nowatchdog",
    "nmi_watchdog",
    "audit",
    "nosoftlockup",
    "mce",
    "numa_balancing",
    "threadirqs",
    "lockdown",
]

_POLICIES = {
    0: "SCHED_OTHER",
    1: "SCHED_FIFO",
    2: "SCHED_RR",
    3: "SCHED_BATCH",
    5: "SCHED_IDLE",
    6: "SCHED_DEADLINE",
}


class _Unavailable(Exception):
    """Why a fact can't be known."""


def capture(
    *, directory: Path | None = None, packages: Iterable[str] = PACKAGES, root: Path = Path("/")
) -> Environment:
    """Look at the machine, now. Takes some 10 ms, most of it git's; never fails.

    Args:
        directory: where the code under measurement lies, for its git revision; the current one by default.
        packages: distributions whose versions are recorded; those not installed are stated so.
        root: where /proc and /sys are found.
    """
    facts: dict[str, Fact] = {}
    for name, ask in _questions(root, Path.cwd() if directory is None else directory):
        facts[name] = _answer(ask)
    facts.update(floor.facts(root))
    for package in packages:
        facts[f"package.{package}"] = _answer(partial(_version, package))
    return Environment(facts)


def _answer(ask: Callable[[], Value]) -> Fact:
    try:
        return Fact(ask())
    except _Unavailable as why:
        return Fact(unavailable=str(why))
    except FileNotFoundError as error:
        return Fact(unavailable=f"there is no {error.filename}")
    except OSError as error:
        return Fact(unavailable=f"{error.filename or 'reading it'}: {error.strerror or error}")
    except (ValueError, IndexError, UsageError) as error:
        return Fact(unavailable=f"not understood: {error}")


def _questions(root: Path, directory: Path) -> Iterator[tuple[str, Callable[[], Value]]]:
    proc, cpu0 = root / "proc", root / "sys/devices/system/cpu"
    uname = platform.uname()
    yield "captured_at", lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    yield "host.name", socket.gethostname
    yield "host.boot_id", lambda: _text(proc / "sys/kernel/random/boot_id")
    yield "host.uptime_s", lambda: int(float(_text(proc / "uptime").split()[0]))
    yield "host.hypervisor", lambda: _hypervisor(root)
    yield "host.container", lambda: _container(root)
    yield "host.cpu_quota", lambda: cpu_quota(root)
    yield "kernel.name", lambda: uname.system
    yield "kernel.release", lambda: uname.release
    yield "kernel.version", lambda: uname.version
    yield "kernel.parameters", lambda: _parameters(_text(proc / "cmdline"))
    yield "kernel.hz", lambda: int(_configured(root, uname.release, "CONFIG_HZ"))
    yield "cpu.architecture", lambda: uname.machine
    yield "cpu.model", lambda: _cpuinfo(proc, "model name")
    yield "cpu.microcode", lambda: _cpuinfo(proc, "microcode")
    yield "cpu.count", lambda: len(parse_cpu_list(_text(cpu0 / "online")))
    yield "cpu.smt", lambda: _text(cpu0 / "smt/active") == "1"
    yield "cpu.isolated", lambda: _text(cpu0 / "isolated") or "none"
    yield "cpu.nohz_full", lambda: _text(cpu0 / "nohz_full").strip("() \n").replace("null", "none")
    yield "cpu.governor", lambda: _governor(cpu0)
    yield "cpu.frequency_mhz", lambda: round(float(_cpuinfo(proc, "cpu MHz")))
    yield "cpu.turbo", lambda: _turbo(cpu0)
    yield "cpu.idle_driver", lambda: _text(cpu0 / "cpuidle/current_driver")
    yield "memory.total_bytes", lambda: _memory(proc)
    yield (
        "memory.transparent_huge_pages",
        lambda: _chosen(root / "sys/kernel/mm/transparent_hugepage/enabled"),
    )
    yield "memory.numa_nodes", lambda: len(parse_cpu_list(_text(root / "sys/devices/system/node/online")))
    yield (
        "clock.source",
        lambda: _text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    )
    yield "clock.invariant", _invariant
    yield "clock.quantum_ticks", _quantum
    yield "process.id", os.getpid
    yield "process.scheduling", _scheduling
    yield "process.priority", lambda: os.sched_getparam(0).sched_priority
    yield "process.nice", lambda: os.getpriority(os.PRIO_PROCESS, 0)
    yield "process.affinity", lambda: sorted(os.sched_getaffinity(0))
    yield "process.timer_slack_ns", lambda: int(_text(proc / "self/timerslack_ns"))
    yield "kernel.mitigations", lambda: _mitigations(cpu0)
    yield "kernel.aslr", lambda: int(_text(proc / "sys/kernel/randomize_va_space"))
    yield "kernel.rt_runtime_us", lambda: int(_text(proc / "sys/kernel/sched_rt_runtime_us"))
    yield "memory.swap_bytes", lambda: _memory(proc, "SwapTotal:")
    yield "load.steal_share", lambda: _steal(proc)
    yield "load.1min", lambda: float(_text(proc / "loadavg").split()[0])
    yield "load.5min", lambda: float(_text(proc / "loadavg").split()[1])
    # The reader of the file runs itself, so it is taken off.
    yield "load.runnable", lambda: max(0, int(_text(proc / "loadavg").split()[3].split("/")[0]) - 1)
    yield "compiler", _compiler
    yield "python.version", platform.python_version
    yield "python.implementation", lambda: f"{platform.python_implementation()} ({sys.platform})"
    yield "latlab.version", lambda: latlab.__version__
    yield "git.revision", lambda: _git(directory, "rev-parse", "HEAD")
    yield "git.modified", lambda: _git(directory, "status", "--porcelain", "--untracked-files=no") != ""


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip("\n\0 ")


def _cpuinfo(proc: Path, key: str) -> str:
    for line in _text(proc / "cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    raise _Unavailable(f"/proc/cpuinfo has no '{key}' on this architecture")


def _parameters(command_line: str) -> list[Any]:
    return [word for word in command_line.split() if word.partition("=")[0] in _PARAMETERS]


def _configured(root: Path, release: str, option: str) -> str:
    """An option of the kernel's build, from /proc/config.gz or /boot."""
    packed = root / "proc/config.gz"
    if packed.exists():
        text = gzip.decompress(packed.read_bytes()).decode()
    elif (plain := root / "boot" / f"config-{release}").exists():
        text = plain.read_text()
    else:
        raise _Unavailable("this kernel publishes no configuration in /proc/config.gz or /boot")
    for line in text.splitlines():
        if line.startswith(option + "="):
            return line.partition("=")[2].strip('"')
    raise _Unavailable(f"{option} is not set in this kernel")


def kernel_hz(root: Path = Path("/")) -> int | None:
    """The rate of the kernel's tick; None where it publishes no configuration."""
    try:
        return int(_configured(root, platform.release(), "CONFIG_HZ"))
    except (_Unavailable, OSError, ValueError):
        return None


#: By what leaf 0x40000000 of CPUID says, as the hypervisors' own manuals and Linux's arch/x86 have it.
_HYPERVISORS = {
    "KVMKVMKVM": "KVM",
    "Microsoft Hv": "Hyper-V",
    "TCGTCGTCGTCG": "QEMU without KVM",
    "VBoxVBoxVBox": "VirtualBox",
    "VMwareVMware": "VMware",
    "XenVMMXenVMM": "Xen",
    "bhyve bhyve": "bhyve",
}


def _hypervisor(root: Path) -> str:
    if "hypervisor" not in _cpuinfo(root / "proc", "flags").split():
        return "none"
    from latlab._core import clock

    signature = clock.hypervisor()
    name = _HYPERVISORS.get(signature.strip(), signature) or "unknown"
    for place in ("sys/class/dmi/id/sys_vendor", "sys/hypervisor/type"):
        if (root / place).exists():
            return f"{name} ({_text(root / place)})"
    return name


def _container(root: Path) -> str:
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    if (manager := root / "run/systemd/container").exists():
        return _text(manager)
    return "kubernetes" if "KUBERNETES_SERVICE_HOST" in os.environ else "none"


def cpu_quota(root: Path) -> str:
    """The CPU bandwidth limit of our control group: a quota throttles for tens of milliseconds at a time."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        here = path.lstrip("/")
        if controllers == "" and (limit := root / "sys/fs/cgroup" / here / "cpu.max").exists():
            return "none" if _text(limit).startswith("max") else _text(limit)
        if "cpu" in controllers.split(","):
            group = root / "sys/fs/cgroup/cpu" / here
            if (limit := group / "cpu.cfs_quota_us").exists():
                quota = int(_text(limit))
                return "none" if quota < 0 else f"{quota} {_text(group / 'cpu.cfs_period_us')}"
    return "none"


def _governor(cpu: Path) -> str:
    if not any((cpu / "cpu0").glob("cpufreq")):
        raise _Unavailable(
            "this kernel has no cpufreq: the frequency is the hypervisor's or the firmware's matter"
        )
    found = {_text(path) for path in sorted(cpu.glob("cpu[0-9]*/cpufreq/scaling_governor"))}
    return "+".join(sorted(found))


def _turbo(cpu: Path) -> bool:
    if (boost := cpu / "cpufreq/boost").exists():
        return _text(boost) == "1"
    if (no_turbo := cpu / "intel_pstate/no_turbo").exists():
        return _text(no_turbo) == "0"
    raise _Unavailable("neither cpufreq/boost nor intel_pstate/no_turbo exists")


def _scheduling() -> str:
    policy = os.sched_getscheduler(0)
    return _POLICIES.get(policy, f"policy {policy}")


def _memory(proc: Path, name: str = "MemTotal:") -> int:
    for line in _text(proc / "meminfo").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise _Unavailable(f"/proc/meminfo has no {name.strip(':')}")


def _mitigations(cpu: Path) -> str:
    """The weaknesses of the processor that the kernel works around: each costs system calls some time."""
    folder = cpu / "vulnerabilities"
    if not folder.is_dir():
        raise _Unavailable("this kernel does not list its mitigations")
    active = [path.name for path in sorted(folder.glob("*")) if _text(path).startswith("Mitigation")]
    return ", ".join(active) or "none"


def _steal(proc: Path) -> float:
    """The share of time since boot in which the host ran something else on our processors."""
    numbers = [int(word) for word in _text(proc / "stat").splitlines()[0].split()[1:9]]
    if len(numbers) < 8:
        raise _Unavailable("this kernel does not count stolen time")
    return round(numbers[7] / max(1, sum(numbers)), 6)


def _chosen(path: Path) -> str:
    """The bracketed word of a file such as "always [madvise] never"."""
    return _text(path).partition("[")[2].partition("]")[0]


def _invariant() -> bool:
    from latlab._core import clock

    return clock.invariant()


def _quantum() -> int:
    from latlab._core import clock

    return clock.quantum_ticks()


def _compiler() -> str:
    from latlab._core import clock

    return clock.compiler()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise _Unavailable("not installed") from None


def _git(directory: Path, *arguments: str) -> str:
    # No optional locks: looking at somebody's repository must not write into it.
    command = ["git", "--no-optional-locks", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except FileNotFoundError:
        raise _Unavailable("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise _Unavailable("git gave no answer within 5 s") from None
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "git failed"
        raise _Unavailable("not in a git repository" if "not a git repository" in reason else reason)
    return done.stdout.strip()
