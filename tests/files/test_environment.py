from __future__ import annotations

import gzip
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latlab.model.machine.environment import Environment, differences
from latlab.model.machine.jitter import CoreJitter, JitterResult, Source
from latlab.system import floor
from latlab.system.environment import capture


def machine(root: Path) -> Path:
    files = {
        "proc/cpuinfo": "model name\t: Z80 @ 4 MHz\nmicrocode: 0x7\ncpu MHz: 3999.7\nflags: fpu tsc\n",
        "proc/cmdline": "root=/dev/secret isolcpus=2,3 password=x nohz_full=2,3\n",
        "proc/loadavg": "0.50 0.25 0.10 2/300 4711\n",
        "proc/meminfo": "MemTotal: 1024 kB\n",
        "proc/uptime": "12.5 3\n",
        "proc/self/cgroup": "0::/job\n",
        "proc/sys/kernel/random/boot_id": "abc\n",
        "sys/fs/cgroup/job/cpu.max": "50000 100000\n",
        "sys/devices/system/cpu/online": "0-2,5\n",
        "sys/devices/system/cpu/isolated": "\n",
        "sys/devices/system/cpu/nohz_full": "(null)\n",
        "sys/devices/system/cpu/smt/active": "1\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n",
        "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_HZ_250=y\nCONFIG_HZ=250\n"))
    return root


def test_a_machine_is_read_from_its_proc_and_sys(tmp_path: Path) -> None:
    found = capture(root=machine(tmp_path), directory=tmp_path)
    expected = {
        "cpu.model": "Z80 @ 4 MHz",
        "cpu.count": 4,
        "cpu.governor": "performance+powersave",
        "cpu.turbo": False,
        "cpu.smt": True,
        "cpu.isolated": "none",
        "cpu.nohz_full": "none",
        "host.cpu_quota": "50000 100000",
        "host.hypervisor": "none",
        "kernel.hz": 250,
        "load.1min": 0.5,
        "load.runnable": 1,
        "memory.total_bytes": 1024 * 1024,
        "memory.transparent_huge_pages": "madvise",
    }
    assert {name: found.get(name) for name in expected} == expected


def test_of_the_kernels_command_line_only_what_changes_latency_is_kept(tmp_path: Path) -> None:
    found = capture(root=machine(tmp_path), directory=tmp_path)
    assert found.get("kernel.parameters") == ["isolcpus=2,3", "nohz_full=2,3"]


def test_what_an_empty_machine_does_not_tell_is_stated_with_why(tmp_path: Path) -> None:
    found = capture(root=tmp_path, directory=tmp_path, packages=["no-such-package"])
    assert "no cpufreq" in str(found["cpu.governor"].unavailable)
    assert found["package.no-such-package"].unavailable == "not installed"
    assert found["git.revision"].unavailable == "not in a git repository"
    assert "cpuinfo" in str(found["cpu.model"].unavailable)
    assert found.get("process.id") == os.getpid()


def test_this_machines_environment_survives_json_and_is_like_itself() -> None:
    found = capture()
    assert Environment.from_json(found.to_json()) == found
    assert differences(found, found) == []
    assert found.get("compiler", "").startswith(("gcc ", "clang "))
    assert found.get("package.numpy")
    assert found.summary()


def core(cpu: int, *, seconds: float = 10.0, **more: Any) -> CoreJitter:
    ticks = int(seconds * 1e9)
    one = CoreJitter(
        cpu=cpu, deltas=100, wall_ticks=ticks, pure_ticks=9 * ticks // 10, bridge_ticks=0,
        gap_ticks=ticks // 10, paused_ticks=0, threshold_ticks=1000, counter_hz=1e9, quantum_ticks=1,
        start_ns=0, values_ticks=np.array([10, 5000]), counts=np.array([99, 1]), outliers=200, max_ticks=5000,
        gap_start_ns=np.zeros(0), gap_each_ns=np.zeros(0), preempted=np.zeros(0, np.uint8),
    )  # fmt: skip
    return replace(one, **more)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "latlab" / "jitter-floor.json"
    monkeypatch.setattr(floor, "floor_files", lambda root=None: [path])
    return path


def test_a_floor_of_the_cores_that_are_used_stands_in_every_environment(kept: Path) -> None:
    absent = capture(directory=kept.parents[1])
    assert "measure it with `latlab jitter -r 10`" in absent.floor()
    used = sorted(os.sched_getaffinity(0))
    floor.remember([core(cpu) for cpu in used] + [core(9999, max_ticks=10**9)])
    found = capture(directory=kept.parents[1])
    figures = [found.get(f"floor.{name}") for name in ("max_ns", "gap_share", "gaps_hz", "seconds")]
    assert figures == [5000.0, 0.1, 20.0, 10.0]
    assert found.get("floor.cores", [])[0].endswith("p50 10 ns, p99.9 5 µs, max 5 µs, 20 gaps/s")
    assert "longest 5 µs" in found.floor()
    assert found.floor().endswith("(`latlab jitter`, 0 hours before)")
    assert [one for one in differences(absent, found) if one.name.startswith("floor")] == []


def test_a_floor_is_none_for_a_core_that_was_not_measured(kept: Path) -> None:
    floor.remember([core(2), core(3, gap_ticks=0)])

    assert floor.facts(cpus=[3])["floor.gap_share"].value == 0.0
    assert floor.facts(cpus=[2, 3])["floor.gap_share"].value == 0.1
    why = floor.facts(cpus=[1, 2])["floor.max_ns"].unavailable
    assert why == (
        "CPU 1 is used here and was not measured; measure it with `latlab jitter -r 10 --cpus 1,2`"
    )


@pytest.mark.parametrize(
    ("was", "becomes", "why"),
    [
        ('"kernel": "', '"kernel": "0.', "another machine or kernel"),
        ('"boot": "', '"boot": "0', "before this start of the machine"),
        ('"schema": 2', '"schema": 1', "another version of latlab"),
        ('"cpu": 2', '"cpu": "x"', "is not a floor"),
        ("{", "", "not JSON"),
    ],
)
def test_a_floor_that_does_not_hold_says_why(kept: Path, was: str, becomes: str, why: str) -> None:
    text = floor.remember([core(2)]).read_text()
    assert was in text
    kept.write_text(text.replace(was, becomes, 1))

    assert why in str(floor.facts(cpus=[2])["floor.max_ns"].unavailable)


def ran(**more: Any) -> JitterResult:
    return replace(JitterResult((core(0), core(1)), others_busy=0.02), **more)


def source(layer: str, seconds: float) -> Source:
    return Source("thread", layer, "x", 1, 9, seconds * 1e9, 1e6, 1.0)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (ran(), None),
        (ran(sources=(source("other threads", 0.09),)), None),
        (ran(sources=(source("hypervisor", 5.0),)), None),
        (ran(whole=False), "it was broken off"),
        (ran(cores=(core(0), core(1, seconds=4.9))), "it took 4.9 s, and 5 s are needed"),
        (ran(others_busy=None), "what other processes did meanwhile is not known"),
        (ran(others_busy=0.3), "other processes used 0.3 CPUs meanwhile"),
        (ran(sources=(source("other threads", 0.2),)), "other threads took 2.0 % of CPU 1's time"),
    ],
)
def test_a_run_has_to_earn_it_to_be_the_floor(result: JitterResult, why: str | None) -> None:
    assert floor.refused(result) == why
