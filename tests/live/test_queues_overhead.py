from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from latlab.formats.recording import open_recording


def test_overhead_compares_observed_runs_with_unobserved_ones(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "latlab", "queues", "overhead", "--rounds", "1", "--seconds", "0.4"]
    command += ["--period", "2ms", "--period", "1ms", "--json", "-o", str(tmp_path / "kept")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    found = json.loads(done.stdout)
    assert [one["period_ns"] for one in found["watched"]] == [0, 2_000_000, 1_000_000]
    unobserved, *observed = found["watched"]
    names = {cost["queue"] for cost in unobserved["queues"]}
    assert names >= {"", "feed-a", "book-0.strategy-0", "orders-0"}
    for one in observed:
        assert {cost["queue"] for cost in one["queues"]} == names
        assert all(cost["slowdown"] is not None and cost["p1_ns"] <= cost["p99_ns"] for cost in one["queues"])
    looks = {item["queue"]: item for item in found["sample_times"]}
    assert looks["orders-0"]["parts"] == 2  # of two processes
    assert looks["feed-a"]["offset_bytes"] < looks["feed-b"]["offset_bytes"]
    table = open_recording(tmp_path / "kept").series("runs").to_pydict()
    assert set(table["period_ns"]) == {0, 1_000_000, 2_000_000}
