from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from latlab.model.machine.environment import Environment, differences
from latlab.model.machine.jitter import CoreJitter
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


def test_the_floor_of_the_last_jitter_run_stands_in_every_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(floor, "floor_files", lambda root=None: [tmp_path / "latlab" / "jitter-floor.json"])
    absent = capture(directory=tmp_path)
    assert "measure it with `latlab jitter`" in absent.floor()
    core = CoreJitter(
        cpu=3, deltas=100, wall_ticks=10**9, pure_ticks=9 * 10**8, bridge_ticks=0, gap_ticks=10**8,
        paused_ticks=0, threshold_ticks=1000, counter_hz=1e9, quantum_ticks=1, start_ns=0,
        values_ticks=np.array([10, 5000]), counts=np.array([99, 1]), outliers=20, max_ticks=5000,
        gap_start_ns=np.zeros(0), gap_each_ns=np.zeros(0), preempted=np.zeros(0, np.uint8),
    )  # fmt: skip
    path = floor.remember([core])
    found = capture(directory=tmp_path)
    assert (found.get("floor.max_ns"), found.get("floor.gap_share"), found.get("floor.gaps_hz")) == (
        5000.0,
        0.1,
        20.0,
    )
    assert found.get("floor.cores") == ["CPU 3: p50 10 ns, p99.9 5 µs, max 5 µs, 20 gaps/s"]
    assert "longest 5 µs" in found.floor()
    assert [one for one in differences(absent, found) if one.name.startswith("floor")] == []
    path.write_text(path.read_text().replace('"kernel": "', '"kernel": "0.'))
    assert "another machine or kernel" in capture(directory=tmp_path).floor()
    path.write_text("{")
    assert "not JSON" in capture(directory=tmp_path).floor()
