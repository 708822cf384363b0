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
from latlab.messaging.running.python import prepared
from latlab.messaging.running.ways.links import attach
from latlab.model.messaging.results import Settings

PLUGINS = """
from latlab.messaging import Facts
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
