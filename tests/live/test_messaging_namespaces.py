"""Lines in network namespaces: their devices, and the boxes between them, are the whole machine's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.files.messaging_runs import child_of, run

from latlab.messaging.running.ways.network import sweep


def namespaces() -> bool:
    done = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return done.returncode == 0 and os.access("/dev/net/tun", os.W_OK)


@pytest.mark.rights
@pytest.mark.parametrize("name", ["tcp", "udp"])
def test_a_line_in_a_namespace_delays_both_hops_and_is_gone_afterwards(name: str) -> None:
    if not namespaces():
        pytest.skip("network namespaces did not run: needs root and /dev/net/tun")
    arguments = ["--network", "namespace", "--delay", "5ms", "--rate", "1gbit", "--rate", "200"]
    document = run("--transport", name, "--messages", "100", "--warmup", "5", *arguments)
    assert document["received"] + document["lost"] == 100
    assert document["latency_ns"]["min"] >= 10_000_000
    assert "latlab" not in subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout


@pytest.mark.rights
@pytest.mark.parametrize("line", [["--delay", "1ms", "--rate", "1gbit"], ["--rate", "1gbit"]])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_takes_its_namespace_and_its_line_down(
    number: signal.Signals, line: list[str]
) -> None:
    if not namespaces():
        pytest.skip("network namespaces did not run: needs root and /dev/net/tun")
    before = subprocess.run(["pgrep", "-x", "latlab-box"], capture_output=True, text=True, check=False).stdout
    command = [sys.executable, "-m", "latlab", "messaging", "run", "--transport", "tcp", "--messages", "100k"]
    process = subprocess.Popen(
        [*command, "--rate", "1000", "--network", "namespace", *line],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    device = f"latlab{process.pid}"
    try:
        child_of(process.pid, "latlab-broker")
        assert Path("/sys/class/net", device).exists()
    finally:
        process.send_signal(number)
        process.wait()
    for _ in range(500):
        boxes = subprocess.run(["pgrep", "-x", "latlab-box"], capture_output=True, text=True, check=False)
        if not Path("/sys/class/net", device).exists() and set(boxes.stdout.split()) <= set(before.split()):
            return
        time.sleep(0.02)
    raise AssertionError(f"{device} or its box is still there")


@pytest.mark.rights
def test_the_near_end_of_a_pair_whose_run_has_gone_is_taken_down_by_the_next_run() -> None:
    if not namespaces():
        pytest.skip("network namespaces did not run: needs root and /dev/net/tun")
    gone = subprocess.Popen(["true"])
    gone.wait()
    device = f"latlab{gone.pid}"
    made = subprocess.run(
        ["ip", "link", "add", device, "type", "veth"], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"a veth pair did not come up: {made.stderr.strip()}")
    sweep()
    assert not Path("/sys/class/net", device).exists()


@pytest.mark.rights
def test_a_line_holds_a_stream_to_its_rate() -> None:
    if not namespaces():
        pytest.skip("network namespaces did not run: needs root and /dev/net/tun")
    for more in ([], ["--delay", "1ms"]):
        document = run(
            "--transport", "tcp", "--size", "1000", "--messages", "3000", "--network", "namespace",
            "--rate", "20mbit", *more,
        )  # fmt: skip
        # 3 MB in 1000-byte messages; headers go over the line as well, a burst goes over it at once.
        assert document["receiving_throughput"]["bytes_per_s"] * 8 < 1.15 * 20e6
        assert document["network_bytes"]["sent"] >= 3_000_000


@pytest.mark.rights
def test_without_a_token_bucket_the_box_holds_the_line_to_its_rate(tmp_path: Path) -> None:
    if not namespaces():
        pytest.skip("network namespaces did not run: needs root and /dev/net/tun")
    for program in ("ip", "nsenter", "unshare", "sh", "sleep"):  # and no tc
        place = shutil.which(program)
        assert place is not None
        (tmp_path / program).symlink_to(place)
    command = [sys.executable, "-m", "latlab", "messaging", "run", "--json", "--transport", "tcp"]
    command += ["--size", "1000", "--messages", "2000", "--network", "namespace", "--rate", "20mbit"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PATH": str(tmp_path)},
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert any("a box between TUN devices (tc is not installed)" in note for note in document["notes"])
    assert document["receiving_throughput"]["bytes_per_s"] * 8 < 1.15 * 20e6


@pytest.mark.side_by_side
@pytest.mark.rights
def test_without_the_rights_to_a_namespace_one_line_says_which_ones() -> None:
    if shutil.which("setpriv") is None or os.geteuid() != 0:
        pytest.skip("dropping rights did not run: needs root and setpriv (apt install util-linux)")
    command = [sys.executable, "-m", "latlab", "messaging", "run", "--transport", "tcp"]
    command += ["--messages", "100", "--network", "namespace"]
    drop = ["setpriv", "--bounding-set", "-sys_admin,-net_admin", "--inh-caps", "-sys_admin,-net_admin"]
    done = subprocess.run([*drop, *command], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "run as root" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.side_by_side
@pytest.mark.rights
def test_a_line_that_loses_is_counted_and_not_averaged() -> None:
    if not namespaces():
        pytest.skip("network namespaces did not run: needs root and /dev/net/tun")
    arguments = ["--network", "namespace", "--loss", "10%", "--rate", "2000"]
    document = run("--transport", "udp", "--messages", "1000", *arguments)
    assert 100 < document["lost"] < 300  # 19 % of them, over two hops
