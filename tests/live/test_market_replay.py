from __future__ import annotations

import json
import random
import socket
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from latlab._core.market import Transport
from latlab.errors import InputError, UnavailableError, UsageError
from latlab.market import (
    LiveSource,
    MoldReceiver,
    MoldTarget,
    RequestServer,
    census,
    generate,
    inside,
    read,
    receive,
    replay,
    target_of,
)


@pytest.fixture
def day(tmp_path: Path) -> Path:
    generate(tmp_path / "day.itch", seed=6, messages=1_500, symbols=10)
    return tmp_path / "day.itch"


@pytest.fixture
def damaged(day: Path, tmp_path: Path) -> tuple[Path, int]:
    """The day as a SoupBinTCP stream whose 1,001st packet is of no known type, and that packet's offset."""
    data, out, at, number = day.read_bytes(), bytearray(), 0, 0
    place = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        number += 1
        if number == 1_001:
            place = len(out)
        kind = b"?" if number == 1_001 else b"S"
        out += (size + 1).to_bytes(2, "big") + kind + data[at + 2 : at + 2 + size]
        at += 2 + size
    (tmp_path / "day.soup").write_bytes(out)
    return tmp_path / "day.soup", place


def test_what_stands_before_the_first_damage_is_read_and_nothing_behind_it(
    damaged: tuple[Path, int], tmp_path: Path
) -> None:
    path, place = damaged
    counted = census(path)
    assert (counted.messages, [e.offset for e in counted.errors]) == (1_000, [place])
    assert census(path, lenient=True).messages == 1_499
    batches: list[int] = []
    with pytest.raises(InputError, match=f"offset {place}"):
        batches.extend(sum(map(len, batch.values())) for batch in read(path))
    assert sum(batches) == 1_000
    with pytest.raises(InputError, match=f"offset {place}"):
        replay(path, target_of(str(tmp_path / "copy")))
    assert not (tmp_path / "copy").exists()


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


@pytest.mark.smoke
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


@pytest.mark.side_by_side
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


class Pitch:
    """An ITCH day told as PITCH: a unit a message, three units, a replacement as a modification."""

    def __init__(self, itch: bytes) -> None:
        self.units: list[bytes] = []
        self._numbers: dict[int, int] = {}
        self._second: dict[int, int] = {}
        orders: dict[int, tuple[int, int, bytes]] = {}  # ITCH reference: PITCH reference, shares, symbol
        at = 0
        while at < len(itch):
            m = itch[at + 2 : at + 2 + itch[at + 1]]
            at += 2 + len(m)
            kind, unit = m[:1], int.from_bytes(m[1:3], "big") % 3 + 1
            second, ns = divmod(int.from_bytes(m[5:11], "big"), 1_000_000_000)
            ref = int.from_bytes(m[11:19], "big")
            body = b""
            if kind in b"AF":
                shares, price = struct.unpack(">I8xI", m[20:36])
                orders[ref] = (ref, shares, m[24:32])
                body = struct.pack("<QcI8sQB4s", ref, m[19:20], shares, m[24:32], price, 0, b"")
                head = b"\x28\x2f"
            elif kind == b"P":
                shares, price = struct.unpack(">I8xI", m[20:36])
                body = struct.pack("<QcI8sQQ", ref, m[19:20], shares, m[24:32], price, ref)
                head = b"\x2b\x30"
            elif kind in b"ECXDU" and ref in orders:
                its, standing, symbol = orders.pop(ref)
                shares = standing if kind in b"DU" else int.from_bytes(m[19:23], "big")
                body = {
                    b"E": struct.pack("<QIQ", its, shares, 1),
                    b"C": struct.pack("<QIIQQ", its, shares, standing - shares, 1, 1),
                    b"X": struct.pack("<QI", its, shares),
                    b"D": struct.pack("<Q", its),
                    b"U": struct.pack("<QIQB", its, *struct.unpack(">II", m[27:35].ljust(8, b"0")), 0),
                }[kind]
                head = {
                    b"E": b"\x1a\x23",
                    b"C": b"\x26\x24",
                    b"X": b"\x12\x25",
                    b"D": b"\x0e\x29",
                    b"U": b"\x1b\x27",
                }[kind]
                if kind == b"U":
                    orders[int.from_bytes(m[19:27], "big")] = (its, int.from_bytes(m[27:31], "big"), symbol)
                elif standing > shares:
                    orders[ref] = (its, standing - shares, symbol)
            if body:
                if self._second.get(unit) != second:
                    self._second[unit] = second
                    self._unit(unit, b"\x06\x20" + struct.pack("<I", second))
                self._unit(unit, head + struct.pack("<I", ns) + body)

    def _unit(self, unit: int, message: bytes) -> None:
        sequence = self._numbers[unit] = self._numbers.get(unit, 0) + 1
        self.units.append(struct.pack("<HBBI", 8 + len(message), 1, unit, sequence) + message)


def untold(path: Path) -> list[list[str]]:
    """Lines of the inside without the symbols' numbers, which PITCH has not."""
    return [[at, *rest] for at, _, *rest in (line.split(" ") for line in path.read_text().splitlines())]


def test_a_feed_told_as_pitch_has_the_inside_that_it_has_as_itch(day: Path, tmp_path: Path) -> None:
    told = tmp_path / "day.pitch"
    told.write_bytes(b"".join(Pitch(day.read_bytes()).units))
    inside(day, tmp_path / "itch.txt")
    inside(told, tmp_path / "pitch.txt")
    assert len(untold(tmp_path / "itch.txt")) > 300
    assert untold(tmp_path / "pitch.txt") == untold(tmp_path / "itch.txt")


@pytest.mark.side_by_side
def test_a_pitch_feed_on_two_lines_is_received_once_by_file_and_books(day: Path, tmp_path: Path) -> None:
    told = tmp_path / "day.pitch"
    told.write_bytes(b"".join(Pitch(day.read_bytes()).units))
    feed = f"udp://127.0.0.1:{free_port()},127.0.0.1:{free_port()}?protocol=pitch&idle=1.5"
    listening = threading.Event()

    def started(source: LiveSource) -> None:
        listening.set()

    with ThreadPoolExecutor(1) as pool:
        outputs = {"output": tmp_path / "got.pitch", "changes": tmp_path / "got.txt"}
        found = pool.submit(receive, feed, **outputs, started=started)
        assert listening.wait(10)
        report = replay(told, target_of(feed), fixed_ns=50_000)
        received = found.result()
    assert report.messages == received.messages == census(told).messages
    assert (received.transport["lost"], received.transport["duplicates"]) == (0, received.messages)
    assert (tmp_path / "got.pitch").read_bytes() == told.read_bytes()
    inside(told, tmp_path / "wanted.txt")
    assert (tmp_path / "got.txt").read_bytes() == (tmp_path / "wanted.txt").read_bytes()


def test_shuffled_and_lossy_pitch_lines_are_arbitrated_to_the_whole_of_each_unit(day: Path) -> None:
    units = Pitch(day.read_bytes()).units
    chance = random.Random(4)
    lines = []
    for at, packet in enumerate(units):
        on_the_first = chance.random() < 0.8
        lines += [(at, packet)] if on_the_first else []
        lines += [(at + 6, packet)] if not on_the_first or chance.random() < 0.8 else []
    lines.sort(key=lambda line: line[0] + chance.random() * 4)
    transport = Transport("pitch")
    first = [packet for packet in units if packet[4:8] == b"\x01\0\0\0"]  # a unit is joined where it stands
    for packet in first + [packet for _, packet in lines]:
        transport.feed(np.frombuffer(packet, np.uint8))
    transport.finish()
    whole = transport.take().tobytes()
    got: dict[int, bytes] = {}
    at = 0
    while at < len(whole):
        size = int.from_bytes(whole[at : at + 2], "little")
        got[whole[at + 3]] = got.get(whole[at + 3], b"") + whole[at : at + size]
        at += size
    wanted: dict[int, bytes] = {}
    for packet in units:
        wanted[packet[3]] = wanted.get(packet[3], b"") + packet
    assert got == wanted
    assert transport.counts()["lost"] == 0


def test_what_a_pitch_line_lost_is_counted_and_the_rest_goes_on(day: Path) -> None:
    units = Pitch(day.read_bytes()).units
    transport = Transport("pitch")
    for packet in units[:300] + units[310:]:
        transport.feed(np.frombuffer(packet, np.uint8))
    assert sum(count for _, count in transport.missing()) == 10
    transport.finish()
    assert transport.counts()["lost"] == 10
    assert len(transport.take()) == sum(map(len, units[:300] + units[310:]))


def test_a_target_that_does_not_speak_the_feeds_language_says_so(day: Path, tmp_path: Path) -> None:
    told = tmp_path / "day.pitch"
    told.write_bytes(b"".join(Pitch(day.read_bytes()).units))
    with pytest.raises(UsageError, match="protocol=pitch"):
        replay(told, target_of(f"udp://127.0.0.1:{free_port()}"))
    with pytest.raises(UsageError, match="leave out protocol"):
        replay(day, target_of(f"udp://127.0.0.1:{free_port()}?protocol=pitch"))
    (tmp_path / "lines").write_text("S28800000A00000000000AB000100ZVZZT 0000010000Y\n")
    with pytest.raises(InputError, match="ASCII"):
        replay(tmp_path / "lines", target_of(str(tmp_path / "copy")))


def test_a_replayed_pitch_file_is_the_same_file_again(day: Path, tmp_path: Path) -> None:
    told = tmp_path / "day.pitch"
    told.write_bytes(b"".join(Pitch(day.read_bytes()).units))
    replay(told, target_of(str(tmp_path / "copy")))
    assert (tmp_path / "copy").read_bytes() == told.read_bytes()
