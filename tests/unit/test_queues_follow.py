import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latlab.model.queues.observation import Process
from latlab.queues.sample.recorder import COLUMNS, Memory, paced
from latlab.queues.sample.sockets import SocketFollower
from latlab.queues.sample.window import Window
from latlab.system.kernel.sockets import SocketFill, receive_buffers


def samples(t_ns: Any, queue: Any, came: Any) -> Any:
    count = len(t_ns)
    columns = {name: np.zeros(count, kind) for name, kind in COLUMNS["samples"].items()}
    columns["t_ns"][:] = t_ns
    columns["queue"][:] = queue
    columns["in"][:] = came
    return columns


def sweeps(t_ns: Any) -> Any:
    return {"t_ns": np.array(t_ns), "duration_ns": np.ones(len(t_ns), "u4"), "read": np.ones(len(t_ns), "u4")}


def test_a_window_lets_go_of_what_is_older_and_says_what_it_then_was() -> None:
    window = Window(1.0)
    second = 1_000_000_000
    for at in range(5):
        window.append("samples", samples([at * second], [at % 2], [10 + at]))
        window.append("sweeps", sweeps([at * second]))
    kept = window.columns("samples")
    assert kept["t_ns"].tolist() == [3 * second, 3 * second, 3 * second, 4 * second]
    assert list(zip(kept["queue"].tolist(), kept["in"].tolist(), strict=True)) == [
        (0, 12),
        (1, 11),
        (1, 13),
        (0, 14),
    ]
    assert window.columns("sweeps")["t_ns"].tolist() == [3 * second, 4 * second]


def test_a_window_writes_all_that_it_keeps_to_another_sink() -> None:
    window, sink = Window(10.0), Memory()
    window.append("topology", {"t_ns": np.array([1]), "event": ["added"]})
    window.append("samples", samples([5], [0], [1]))
    window.put("clock", {"hz": 1.0})
    window.write_to(sink)
    assert sink.chunks["topology"][0]["event"] == ["added"]
    assert sink.columns("samples")["in"].tolist() == [1]
    assert sink.documents == {"clock": {"hz": 1.0}}


UDP = """\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  201: 0100007F:2382 00000000:0000 07 00000000:00001E00 00:00000000 00000000     0        0 4242 2 0000000000000000 44
  202: 0100007F:2383 00000000:0000 07 00000000:00000001 00:00000000 00000000     0        0 77 2 0000000000000000 1
"""  # noqa: E501
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:1F90 00000000000000000000000001000000:0050 01 00000000:00000010 00:00000000 00000000     0        0 4243 1 0 20 4 30 10 -1
   1: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 4244 1 0 100 0 0 10 0
"""  # noqa: E501


@pytest.fixture
def proc(tmp_path: Any) -> Any:
    folder = tmp_path / "9" / "net"
    folder.mkdir(parents=True)
    (folder / "udp").write_text(UDP)
    (folder / "tcp6").write_text(TCP6)
    (tmp_path / "9" / "fd").mkdir()
    for number, inode in enumerate((4242, 4243, 4244)):
        (tmp_path / "9" / "fd" / str(number)).symlink_to(f"socket:[{inode}]")
    (tmp_path / "9" / "fd" / "7").symlink_to("/dev/null")
    return tmp_path


def test_the_buffers_of_a_process_are_its_udp_and_its_connected_tcp_sockets(proc: Any) -> None:
    found = receive_buffers(9, proc=proc)
    assert found == [
        SocketFill("udp", "127.0.0.1:9090", "0.0.0.0:0", 4242, 0x1E00, 0, 44),
        SocketFill("tcp6", "[::1]:8080", "[::1]:80", 4243, 16, 0, 0),
    ]


def test_a_process_that_is_gone_has_no_buffers(tmp_path: Any) -> None:
    assert receive_buffers(9, proc=tmp_path) == []


def test_a_full_receive_buffer_shows_its_fill_its_size_and_its_drops() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as feed,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as exchange,
    ):
        feed.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        feed.bind(("127.0.0.1", 0))
        for _ in range(200):
            exchange.sendto(bytes(500), feed.getsockname())
        name = f"127.0.0.1:{feed.getsockname()[1]}"
        mine = next(buffer for buffer in receive_buffers(os.getpid()) if buffer.local == name)
        assert mine.fill_bytes > 0
        assert mine.dropped > 100
        assert mine.capacity_bytes in (0, feed.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))


class Followed:
    """A follower of one process with one queue from `feed` to `book`."""

    def __init__(self, queues: Any = (), stages: Any = ()) -> None:
        self.live_processes = (Process(0, 9, 1, "app"),)
        self.processes = self.live_processes
        self.queues = queues
        self.stages = stages


class Between:
    retired_ns = None
    processes = (0,)

    def __init__(self, source: Any, drain: Any) -> None:
        self.source, self.drain = source, drain


def test_a_socket_stands_in_front_of_the_only_stage_that_drains_no_queue() -> None:
    queues = (Between("feed", "book"), Between("book", "strategy"))
    buffers = [SocketFill("udp", "127.0.0.1:9000", "0.0.0.0:0", 5, 100, 200, 3)]
    followed: Any = Followed(queues)
    follower = SocketFollower(followed, read=lambda pid: buffers, now_ns=lambda: 7)
    events, rows = follower.look()
    assert [(event.event, event.what) for event in events] == [("added", "socket"), ("changed", "socket")]
    assert rows == [(7, 0, 100, 200, 3)]
    assert (follower.sockets[0].name, follower.sockets[0].drain) == ("udp 127.0.0.1:9000", "feed")
    buffers.clear()
    assert [event.event for event in follower.look()[0]] == ["retired"]


def test_where_several_stages_may_read_a_socket_none_is_named() -> None:
    queues = (Between("feed-a", "book"), Between("feed-b", "book"))
    buffers = [SocketFill("udp", "127.0.0.1:9000", "0.0.0.0:0", 5, 0, 0, 0)]
    followed: Any = Followed(queues)
    follower = SocketFollower(followed, read=lambda pid: buffers, now_ns=lambda: 7)
    follower.look()
    assert follower.sockets[0].drain == ""


def named_thread(name: Any, work: Any) -> Any:
    done, go = threading.Event(), threading.Event()

    def run() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name)
        work()
        done.set()
        go.wait(60)

    thread = threading.Thread(target=run)
    thread.start()
    assert done.wait(60)
    return thread, go


def test_blank_ends_are_filled_from_the_threads_that_used_them() -> None:
    from latlab._core import counting
    from latlab.queues.sample.follow import Follower

    slot = counting.Slot(name="blank ends", capacity=8)
    stage = counting.Stage(type="book", name="book-7")

    def consume() -> None:
        stage.set_thread()
        slot.get()

    producer, stop_producer = named_thread("my-feed", slot.put)
    consumer, stop_consumer = named_thread("anything", consume)
    try:
        follower = Follower([os.getpid()])
        follower.refresh()
        found = next(queue for queue in follower.queues if queue.name == "blank ends")
        assert (found.source, found.drain, found.drain_type) == ("my-feed", "book-7", "book")
        assert found.discovered == ("source", "drain")
        slot.set_source(name="given")
        follower.refresh()
        found = next(queue for queue in follower.queues if queue.name == "blank ends")
        assert (found.source, found.discovered) == ("given", ("drain",))
    finally:
        for thread, go in ((producer, stop_producer), (consumer, stop_consumer)):
            go.set()
            thread.join()


def test_the_period_grows_until_a_budget_holds_and_shrinks_when_it_can() -> None:
    # The sampler costs 1 µs a sweep, the recorder 100 µs a step.
    period, step = 100_000.0, 0.02
    for _ in range(6):
        period, step = paced(period, step, (1e3 / period, 1e-4 / step), 0.002)
    assert 1e3 / period + 1e-4 / step <= 0.002 * 1.001
    for _ in range(6):
        period, step = paced(period, step, (1e3 / period, 1e-4 / step), 0.02)
    assert 1e3 / period == pytest.approx(0.02 - 1e-4 / step)
    assert step == 0.02


def test_a_folder_that_others_may_read_is_told_as_the_reason_for_an_empty_list(
    tmp_path: Any, monkeypatch: Any
) -> None:
    from latlab.queues import refused_folder

    monkeypatch.setenv("LATLAB_COUNTERS", str(tmp_path))
    tmp_path.chmod(0o755)
    assert "mode 0700" in refused_folder()
    tmp_path.chmod(0o700)
    assert refused_folder() == ""


def test_what_thousands_of_dead_processes_left_hides_no_living_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from latlab.queues.sample.files import counter_files

    monkeypatch.setenv("LATLAB_COUNTERS", str(tmp_path))
    for number in range(5000):  # no process has such a number: pid_max is 2^22 at most
        (tmp_path / f"{9_000_000 + number}-1-0.counters").touch()
    mine = tmp_path / f"{os.getpid()}-1-0.counters"
    mine.touch()
    found = list(counter_files())
    assert mine in found
    assert len(found) == 4096


def test_a_folder_that_no_application_can_make_is_told_as_the_reason_for_an_empty_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from latlab.queues import refused_folder

    monkeypatch.setenv("LATLAB_COUNTERS", "/proc/none/counters")
    assert refused_folder() == (
        "applications can't publish: /proc/none is not there;"
        " name another folder by LATLAB_COUNTERS, for them too"
    )
    monkeypatch.setenv("LATLAB_COUNTERS", "/proc/sys/counters")
    assert "/proc/sys can't be written" in refused_folder()


def test_a_folder_in_which_nothing_came_or_went_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from latlab.queues.sample import files

    monkeypatch.setenv("LATLAB_COUNTERS", str(tmp_path))
    read: list[str] = []
    listed = files._listed

    def counted(folder: Path) -> list[Path]:
        read.append(str(folder))
        return listed(folder)

    monkeypatch.setattr(files, "_listed", counted)
    look = files.CounterFiles()
    first = tmp_path / "9000001-1-0.counters"
    first.touch()
    assert list(look()) == [first]
    second = tmp_path / "9000002-1-0.counters"
    second.touch()  # perhaps within the tick in which the first came
    assert list(look()) == [first, second]
    before = time.time_ns() - 3_600_000_000_000
    os.utime(tmp_path, ns=(before, before))
    for _ in range(3):
        assert list(look()) == [first, second]
    assert len(read) == 3
    second.unlink()
    assert list(look()) == [first]
