from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from latlab.errors import UnavailableError, UsageError
from latlab.market import (
    MoldReceiver,
    MoldTarget,
    RequestServer,
    census,
    generate,
    inside,
    replay,
    target_of,
)


@pytest.fixture
def day(tmp_path: Path) -> Path:
    generate(tmp_path / "day.itch", seed=6, messages=1_500, symbols=10)
    return tmp_path / "day.itch"


class Clock:
    """Time that passes only when it is asked for or slept."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 100
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)


def test_a_replay_to_a_file_is_the_input(day: Path, tmp_path: Path) -> None:
    report = replay(day, target_of(str(tmp_path / "copy")))
    assert (tmp_path / "copy").read_bytes() == day.read_bytes()
    assert (report.messages, report.dropped) == (1_500, 0)


@pytest.mark.parametrize(
    ("pacing", "seconds"),
    [({"fixed_ns": 10_000}, 0.01499), ({"burst": (100, 1_000_000)}, 0.014), ({"speed": 1000.0}, 61.3)],
)
def test_messages_go_when_they_are_due(
    day: Path, tmp_path: Path, pacing: dict[str, object], seconds: float
) -> None:
    clock = Clock()
    out = target_of(str(tmp_path / "copy"))
    report = replay(day, out, clock=clock, sleep=clock.sleep, **pacing)  # type: ignore[arg-type]
    assert report.seconds == pytest.approx(seconds, rel=0.02)
    assert 0 <= report.error_p50_ns <= 100_000


def test_planted_loss_is_counted(day: Path, tmp_path: Path) -> None:
    report = replay(day, target_of(str(tmp_path / "copy")), loss=0.2, seed=1)
    assert 200 < report.dropped < 400
    assert census(tmp_path / "copy").messages == report.messages


def test_a_receiver_recovers_what_was_lost_on_the_line(day: Path) -> None:
    receiver = MoldReceiver([("127.0.0.1", 0)])
    received: list[bytes] = []
    target = MoldTarget("127.0.0.1", receiver.addresses[0][1])
    with RequestServer(target) as server:
        receiver._requests = server.address
        reader = threading.Thread(
            target=lambda: received.extend(f.tobytes() for f in receiver.frames(idle_s=3.0))
        )
        reader.start()
        report = replay(day, target, fixed_ns=400_000, loss=0.05, seed=2)
        reader.join()
    counts = receiver.counts()
    receiver.close()
    assert report.dropped > 20
    assert counts["lost"] == 0
    assert b"".join(received) == day.read_bytes()


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("groups", [("127.0.0.1", "127.0.0.1"), ("239.77.1.1", "239.77.1.2")])
def test_two_lines_with_losses_and_a_request_server_give_the_whole_feed_to_file_and_books(
    day: Path, tmp_path: Path, groups: tuple[str, str]
) -> None:
    lines = ",".join(f"{group}:{free_port()}" for group in groups)
    requests, interface = f"127.0.0.1:{free_port()}", "interface=127.0.0.1"
    feed = f"udp://{lines}?requests={requests}&{interface}&idle=20"
    command = [sys.executable, "-m", "latlab", "market"]
    outputs = ["-o", str(tmp_path / "got.itch"), "--inside", str(tmp_path / "got.txt")]
    with subprocess.Popen(
        [*command, "receive", feed, *outputs, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as receiver:
        assert receiver.stderr is not None
        told = receiver.stderr.readline()
        if "listening" not in told:
            pytest.skip(f"no multicast here: {told}")
        pacing = ["--fixed", "300", "--loss", "0.1", "--seed", "3", "--requests", requests, "--json"]
        sent = subprocess.run(
            [*command, "replay", str(day), "--to", f"udp://{lines}?{interface}", *pacing],
            capture_output=True,
            text=True,
            check=True,
        )
        out, _ = receiver.communicate(timeout=60)
    found = json.loads(out)
    assert json.loads(sent.stdout)["dropped"] > 0
    assert (found["messages"], found["transport"]["lost"]) == (1_500, 0)
    assert found["transport"]["duplicates"] > 100
    assert (tmp_path / "got.itch").read_bytes() == day.read_bytes()
    inside(day, tmp_path / "wanted.txt")
    assert (tmp_path / "got.txt").read_bytes() == (tmp_path / "wanted.txt").read_bytes()


def test_what_no_line_brought_and_nobody_repeats_is_counted_as_lost(day: Path) -> None:
    receiver = MoldReceiver([("127.0.0.1", 0)], patience_s=0.2)
    target = MoldTarget("127.0.0.1", receiver.addresses[0][1])
    reader = threading.Thread(target=lambda: list(receiver.frames(idle_s=5.0)))
    reader.start()
    report = replay(day, target, fixed_ns=200_000, loss=0.05, seed=2)
    reader.join()
    counts = receiver.counts()
    receiver.close()
    assert counts["lost"] >= report.dropped > 20
    assert counts["gaps"] > 20


@pytest.mark.parametrize(
    "url", ["udp://", "udp://group", "udp://1.2.3.4:99999", "udp://1.2.3.4:1?colour=red"]
)
def test_an_address_that_is_none_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError):
        census(url)


def test_a_silent_feed_is_said_to_be_silent() -> None:
    with pytest.raises(UnavailableError, match="nothing came"):
        census(f"udp://127.0.0.1:{free_port()}?idle=0.2")


def test_what_makes_no_sense_together_is_a_usage_error(day: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        replay(day, target_of(str(tmp_path / "a")), fixed_ns=1, speed=1.0)
    with pytest.raises(UsageError):
        target_of("carrier://pigeon:1")
