"""Planted truths of the tail: a stage whose CPU a real-time hog takes, and one that waits for a lock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import latlab
from latlab.system.kernel.tracing import unavailable

HOG = """
import os, time
os.sched_setaffinity(0, {CPU})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
print("ready", flush=True)
while True:
    time.sleep(0.3)
    until = time.monotonic() + 0.15
    while time.monotonic() < until:
        pass
"""

# A stage that takes a lock for each event; another thread holds it for 40 ms now and then.
LOCKED = """
#include <latlab/queue.hpp>
#include <latlab/trace.hpp>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

struct Order { std::uint64_t event, push; };

int main(int, char** arguments) {
  using namespace std::chrono_literals;
  auto& file = latlab::CounterFile::process();
  file.set_application("locked");
  latlab::TraceFile traces(arguments[1], 1, 1 << 16, 1);
  latlab::SpscRing<Order> orders(
      1024, {.name = "orders", .source = {"feed", "feed"}, .drain = {"book", "book"}});
  std::mutex ledger;
  file.set_phase(latlab::Phase::running);
  std::puts("ready");
  std::fflush(stdout);
  const auto until = std::chrono::steady_clock::now() + 60s;  // killed before
  const auto over = [&] { return std::chrono::steady_clock::now() >= until; };
  std::thread audit([&] {
    pthread_setname_np(pthread_self(), "audit");
    while (!over()) {
      std::this_thread::sleep_for(150ms);
      const std::lock_guard hold(ledger);
      std::this_thread::sleep_for(40ms);
    }
  });
  std::thread book([&] {
    pthread_setname_np(pthread_self(), "book");
    auto lane = traces.lane(0);
    while (!over()) {
      Order order{};
      if (!orders.try_pop(order)) { std::this_thread::sleep_for(200us); continue; }
      lane.hop(order.event, orders.slot().slot(), order.push, latlab::ticks());
      { const std::lock_guard hold(ledger); }
      lane.end(order.event, latlab::TraceEnd::finished, latlab::ticks());
    }
  });
  for (std::uint64_t event = 1; !over(); ++event) {
    orders.try_push({event, latlab::ticks()});
    std::this_thread::sleep_for(2ms);
  }
  audit.join();
  book.join();
  file.set_phase(latlab::Phase::ended);
}
"""

pytestmark = [
    pytest.mark.rights,
    pytest.mark.skipif(unavailable() is not None, reason=f"scheduler events: {unavailable()}"),
]


def built(folder: Path) -> Path:
    """The program above, built."""
    source, program = folder / "a.cpp", folder / "a"
    source.write_text(LOCKED)
    include = Path(latlab.__file__).parent / "include"
    command = ["g++", "-std=c++20", "-O1", "-pthread", f"-I{include}", str(source), "-o", str(program)]
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        pytest.skip("g++ is not installed")
    return program


def test_a_diagnosis_finds_the_event_traces_of_a_program_and_takes_its_tail_apart(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "latlab", "diagnose", "--no-forecast", "--json", "--seconds", "3"]
    command += ["-o", str(tmp_path / "run"), "--", str(built(tmp_path)), str(tmp_path / "traces")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    answer = json.loads(done.stdout)
    assert answer["end_to_end_ns"]["count"] > 0
    assert answer["budget"]["quantile"] == 0.999
    assert answer["tail"]["events"]
    assert not any("no event traces" in one["what"] for one in answer["unknown"])


def tail_of(run: Path, *options: str) -> Any:
    command = [sys.executable, "-m", "latlab", "queues", "tail", str(run), "--json", *options]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may take a CPU with SCHED_FIFO")
def test_a_stage_whose_cpu_a_real_time_thread_takes_is_told_with_who_took_it(tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    layout = tmp_path / "layout.toml"
    layout.write_text(
        f"[replay]\ndelay_ns = 200_000\n[trace]\nevery = 1\n[stages.strategy]\ncpus = [{cpu}]\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", HOG.replace("CPU", str(cpu))], stdout=subprocess.PIPE, text=True
    ) as hog:
        try:
            assert hog.stdout is not None
            assert hog.stdout.readline() == "ready\n"
            run = tmp_path / "run"
            command = [sys.executable, "-m", "latlab", "demo", "--seconds", "2", "--layout", str(layout)]
            done = subprocess.run(
                [*command, "--scheduler", "-o", str(run)], capture_output=True, text=True, check=False
            )
            assert done.returncode in (0, 3), done.stderr
        finally:
            hog.kill()
    found = tail_of(run, "--quantile", "0.9", "--most", "300")
    assert found["scheduler"] == ""
    stays = [
        share
        for event in found["events"]
        for hop in event["hops"]
        if hop["stage"] == "strategy-0"
        for share in (hop["waiting"], hop["serving"])
        if share is not None and share["run_queue_ns"] > 50_000_000
    ]
    assert any(share["cpu_held_by"].endswith(f"({hog.pid})") for share in stays)


def test_a_stage_that_waits_for_a_lock_is_told_to_sleep_in_a_futex_until_its_holder_wakes_it(
    tmp_path: Path,
) -> None:
    traces, run = (tmp_path / name for name in ("traces", "run"))
    program = built(tmp_path)
    environment = {**os.environ, "LATLAB_COUNTERS": str(tmp_path)}
    with subprocess.Popen(
        [str(program), str(traces)], stdout=subprocess.PIPE, text=True, env=environment
    ) as app:
        assert app.stdout is not None
        assert app.stdout.readline() == "ready\n"
        command = [sys.executable, "-m", "latlab", "queues", "record", str(app.pid), "-o", str(run)]
        command += ["--period", "1ms", "--scheduler", "--traces", str(traces), "--seconds", "2.5"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        app.kill()
        assert done.returncode == 0, done.stderr
    found = tail_of(run, "--quantile", "0.5", "--most", "500")
    blocked = [
        hop["serving"]
        for event in found["events"]
        for hop in event["hops"]
        if hop["serving"] is not None and hop["serving"]["futex_ns"] > 20_000_000
    ]
    assert blocked
    assert any(share["woken_by"].startswith("audit (") for share in blocked)
    assert all(hop["stage"] == "book" for event in found["events"] for hop in event["hops"])
