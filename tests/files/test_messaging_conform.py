"""What `conform` lays at a Python transport's door, and what it does not."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from latlab.errors import LatlabError, UsageError
from latlab.messaging import Facts, conform
from latlab.messaging.judging import conformity
from latlab.messaging.running.python import prepared, run_python
from latlab.messaging.running.ways.links import attach
from latlab.model.messaging.results import Settings

PLUGINS = """
import contextlib
import socket
import time
from latlab.messaging import Facts, TransportClosed
class Quiet:
    facts = Facts("quiet", "carries nothing", False, False, 1024, "nowhere")
    @classmethod
    def prepare(cls, settings, server): return {}
    def connect(self, role, where): pass
    def send(self, message): pass
    def receive(self, timeout_s): return None
    def close(self): pass
class Leaky(Quiet):
    def connect(self, role, where):
        import tempfile
        tempfile.mkstemp()
class Untidy(Quiet):
    def connect(self, role, where):
        import tempfile
        tempfile.mkstemp(dir=FOLDER)
class Threaded(Quiet):
    def connect(self, role, where):
        import threading
        threading.Thread(target=threading.Event().wait, daemon=True).start()
class Tidy(Quiet):
    def connect(self, role, where):
        import threading
        self.over = threading.Event()
        threading.Thread(target=lambda: self.over.wait() and time.sleep(0.1), daemon=True).start()
    def close(self): self.over.set()
class Unix(Quiet):
    facts = Facts("unix", "over a Unix socket", True, True, 1024, "read")
    kind = socket.SOCK_STREAM
    @classmethod
    def prepare(cls, settings, server): return {"path": f"@{time.monotonic_ns()}"}
    def connect(self, role, where):
        path = where["path"].replace("@", chr(0))
        self.listening, self.line = socket.socket(socket.AF_UNIX, self.kind), None
        if role == "receiver":
            self.listening.bind(path)
            self.listening.listen()
            return
        self.line, self.listening = self.listening, None
        self.line.connect(path)
    def send(self, message): self.line.sendall(bytes(message))
    def ended(self, timeout_s):
        raise TransportClosed("over")
    def receive(self, timeout_s):
        if self.line is None:
            self.listening.settimeout(timeout_s)
            try:
                self.line = self.listening.accept()[0]
            except TimeoutError:
                return None
        self.line.settimeout(timeout_s)
        try:
            return self.line.recv(self.facts.max_bytes) or self.ended(timeout_s)
        except TimeoutError:
            return None
    def close(self):
        for one in (self.line, self.listening):
            if one is not None:
                one.close()
class Swallowing(Unix):
    def ended(self, timeout_s):
        time.sleep(timeout_s)
class Steps(Unix):  # wakes up now and then to see whether to stop
    def receive(self, timeout_s):
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            if (message := self.step()) is not None:
                return message
    def step(self): return super().receive(0.02)
class Looks(Steps):
    def step(self):
        time.sleep(0.02)
        return Unix.receive(self, 0.00001)
class Packets(Swallowing):
    kind = socket.SOCK_SEQPACKET
class Overflowing(Unix):  # what finds no room is gone; a sender that is not the quickest
    facts = Facts("overflowing", "over a Unix socket", True, True, 1024, "read")
    kind = socket.SOCK_SEQPACKET
    room = 4 << 20
    def connect(self, role, where):
        super().connect(role, where)
        if self.line is not None:  # as two TCP sockets have; root alone may
            with contextlib.suppress(PermissionError):
                self.line.setsockopt(socket.SOL_SOCKET, 32, self.room)  # SO_SNDBUFFORCE
    def send(self, message):
        until = time.perf_counter() + 0.0001
        while time.perf_counter() < until:
            pass
        try:
            self.line.send(bytes(message), socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
class Roomy(Overflowing):
    facts = Facts("roomy", "over a Unix socket", True, True, 65536, "read")
    room = 20 << 20
class Unready(Quiet):
    @classmethod
    def prepare(cls, settings, server): raise RuntimeError("no address")
class Unclean(Quiet):
    @classmethod
    def clean_up(cls, where): raise RuntimeError("not mine")
class Secret(Quiet):
    @classmethod
    def prepare(cls, settings, server): return {"key": object()}
class Factless(Quiet):
    facts = {"name": "factless"}
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    shared = tmp_path / "shared"
    shared.mkdir()
    home = tmp_path / "home"
    home.mkdir()
    (home / "own_transports.py").write_text(PLUGINS.replace("FOLDER", repr(str(shared))))
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setenv("PYTHONPATH", str(home))
    monkeypatch.chdir(shared)  # one of the folders that are looked into
    yield __import__("own_transports")
    del sys.modules["own_transports"]


def left(plugins: Any, name: str) -> tuple[str, str | None]:
    kind = getattr(plugins, name)
    settings = Settings(transport=f"own_transports:{name}").with_(size=64)
    return conformity._left_behind(settings.transport, kind, settings, None)[0]


@pytest.mark.parametrize("name", ["Leaky", "Untidy"])
def test_files_that_a_transport_leaves_are_found(plugins: Any, name: str) -> None:
    what, wrong = left(plugins, name)

    assert (what, wrong is not None and "file(s) such as" in wrong) == ("leaves no files behind", True)


@pytest.mark.parametrize(("name", "wrong"), [("Threaded", "4 more run after two more"), ("Tidy", None)])
def test_threads_that_outlive_their_ends_are_found(plugins: Any, name: str, wrong: str | None) -> None:
    settings = Settings(transport=f"own_transports:{name}").with_(size=64)

    found = dict(conformity._left_behind(settings.transport, getattr(plugins, name), settings, None))

    assert (found["ends its threads"] or "")[: len(wrong or "")] == (wrong or "")


@pytest.mark.parametrize(("name", "polls"), [("Steps", False), ("Looks", True)])
def test_an_end_that_waits_in_steps_polls_only_if_what_is_sent_does_not_wake_it(
    plugins: Any, name: str, polls: bool
) -> None:
    kind, settings = getattr(plugins, name), Settings(transport=f"own_transports:{name}").with_(size=64)

    found = dict(conformity._idle_and_over(settings.transport, kind, kind.facts, settings, None))

    wrong = found.pop("sleeps while nothing arrives")
    assert (wrong is not None and "it polls" in wrong) == polls
    assert polls or set(found.values()) == {None}


@pytest.mark.parametrize(("name", "swallows"), [("Unix", False), ("Swallowing", True), ("Packets", True)])
def test_an_end_of_a_unix_socket_that_is_swallowed_is_found(plugins: Any, name: str, swallows: bool) -> None:
    kind, settings = getattr(plugins, name), Settings(transport=f"own_transports:{name}").with_(size=64)

    found = dict(conformity._idle_and_over(settings.transport, kind, kind.facts, settings, None))

    wrong = found["tells, or waits, when its sender has ended"]
    assert (wrong is not None and "the sender's connection is closed" in wrong) == swallows
    assert swallows or wrong is None


@pytest.mark.long
@pytest.mark.parametrize(("name", "largest"), [("Overflowing", 1024), ("Roomy", 65_536)])
def test_what_is_dropped_when_a_queue_is_full_is_found_of_a_slow_sender_and_of_a_large_queue(
    plugins: Any, name: str, largest: int
) -> None:
    target = f"own_transports:{name}"
    facts = Facts(name.lower(), "over a Unix socket", True, True, largest, "read")
    base = Settings(target, topology="direct", warmup=0, timeout_s=10.0, drain_s=0.5)
    found = dict(conformity._carried(lambda load: run_python(load, facts, target), facts, base, "one hop"))
    wrong = found["keeps what a slow receiver has not taken yet, over one hop"]
    assert wrong is not None
    assert wrong.startswith("promises to lose nothing and lost ")


def test_files_of_other_programs_are_not_laid_at_a_transports_door(plugins: Any) -> None:
    over = threading.Event()

    def compile_all_day() -> None:
        while not over.wait(0.01):
            Path(f"cc{time.monotonic_ns()}.s").touch()

    busy = threading.Thread(target=compile_all_day)
    busy.start()
    try:
        what, wrong = left(plugins, "Quiet")
    finally:
        over.set()
        busy.join()

    assert wrong is None
    assert "not checked" in what


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Unready", r"Unready\.prepare\(\) failed: RuntimeError: no address"),
        ("Secret", r"Secret\.prepare\(\) failed: TypeError"),
    ],
)
def test_what_prepare_raises_is_one_line_for_the_user(plugins: Any, name: str, said: str) -> None:
    with pytest.raises(LatlabError, match=said):
        prepared(getattr(plugins, name), Settings(transport="x"), None)


def test_a_clean_up_that_fails_is_a_broken_promise(plugins: Any) -> None:
    settings = Settings(transport="own_transports:Unclean").with_(size=64)

    found = conformity._ends(settings.transport, plugins.Unclean, plugins.Unclean.facts, settings)

    assert [wrong for _, wrong in found if wrong is not None] == [
        "Unclean.clean_up() failed: RuntimeError: not mine; fix the transport"
    ]


def test_facts_of_another_type_are_refused(plugins: Any) -> None:
    assert isinstance(plugins.Quiet.facts, Facts)
    with pytest.raises(UsageError, match="its facts are of type dict"):
        conform(Settings(transport="own_transports:Factless"))


@pytest.mark.parametrize("killed", [False, True])
def test_the_file_of_a_unix_socket_is_taken_away_also_one_that_a_killed_run_left(
    tmp_path: Path, killed: bool
) -> None:
    there, back = str(tmp_path / "there"), str(tmp_path / "back")
    if killed:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gone:
            gone.bind(back)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as program, ExitStack() as rest:
        program.bind(there)
        program.listen()

        def forward() -> None:
            inward, _ = program.accept()
            with inward, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as outward:
                outward.connect(back)
                outward.sendall(inward.recv(1))

        broker = threading.Thread(target=forward)
        broker.start()
        link, _ = attach(Settings(transport="unix", connect=there, listen=back), rest)
        with socket.socket(fileno=link.out_fds[0]) as out, socket.socket(fileno=link.in_fds[0]) as into:
            out.sendall(b"x")
            assert into.recv(1) == b"x"
        broker.join()

    assert not Path(back).exists()


def test_a_unix_socket_at_which_somebody_listens_is_left_alone(tmp_path: Path) -> None:
    taken = str(tmp_path / "taken")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other, ExitStack() as rest:
        other.bind(taken)
        other.listen()
        with pytest.raises(LatlabError, match="Address already in use"):
            attach(Settings(transport="unix", connect=taken, listen=taken), rest)

    assert Path(taken).exists()
