"""Names that an application chose to harm who looks at it, through every command and page that shows them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.side_by_side  # what is shown is read, not how fast

LATLAB = [sys.executable, "-m", "latlab"]
EXPORTS = ("csv", "gnuplot", "perfetto", "graphviz", "mermaid")
# They clear the screen, set the title, have the terminal answer, turn the text around; and are markup.
PLANT = """
import ctypes, sys, threading, time
from latlab._core import counting
EVIL = "\\x1b[2J\\x1b]0;own\\x07\\x9b5n\\u202e<img src=x onerror=alert(1)>"
libc = ctypes.CDLL(None)

def named(text):
    libc.prctl(15, text, 0, 0, 0)

def work():
    named(b"\\x1b[2J\\x07<b>evil")
    slots = [counting.Slot(name=f"q{i}{EVIL}", capacity=100, source_name=f"s{i}{EVIL}",
                           drain_name=f"s{i + 1}{EVIL}") for i in range(2)]
    print("ready", flush=True)
    while True:
        for slot in slots:
            slot.put(3)
        end = time.monotonic() + 0.002
        while time.monotonic() < end:
            pass
        for slot in slots:
            slot.get(3)
        time.sleep(0.003)

named(b"\\x1b[31mx\\x9b<i>")
counting.set_application(EVIL)
exec(compile(f"def evil():\\n    work()", "/tmp/\\x1b[2Jevil<img src=x>.py", "exec"))
threading.Thread(target=evil, daemon=True).start()
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def evil() -> Iterator[int]:
    """An application whose names are all planted; its process id."""
    with subprocess.Popen(
        [sys.executable, "-c", PLANT, "\x1b[2J<img src=x onerror=alert(2)>"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as application:
        assert application.stdout is not None
        assert application.stdout.readline() == "ready\n"
        yield application.pid
        application.kill()


def said(*arguments: str, seconds: float | None = None) -> str:
    """What a command prints to both, without styles; one that goes on is interrupted after so long."""
    process = subprocess.Popen(
        [*LATLAB, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "NO_COLOR": "1"},
    )
    try:
        out, _ = process.communicate(timeout=seconds or 120)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    text = out.decode()
    assert "Traceback" not in text
    return text


def steering(text: str) -> list[str]:
    """What a terminal would obey."""
    return [one for one in text if not one.isprintable() and one not in "\n\t"]


@pytest.fixture(scope="module")
def recording(evil: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the application's queues."""
    folder = tmp_path_factory.mktemp("planted") / "run"
    assert steering(said("queues", "record", str(evil), "--seconds", "2", "-o", str(folder))) == []
    return folder


def harmless(page: str) -> None:
    """No tag of theirs stands in a page: escaped in its text, and no script of its data ends early."""
    outside = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "<img src=x" not in outside
    assert "<b>evil" not in outside
    assert [one for one in outside if not one.isprintable() and one not in "\n\t\r"] == []
    assert page.count("<script") == page.count("</script>")


@pytest.mark.parametrize(
    "command",
    [
        ("queues", "list"),
        ("queues", "list", "--json"),
        ("system", "check"),
        ("jitter", "-r", "1"),
        ("jitter", "-r", "1", "--json"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("evil")
def test_names_of_an_application_steer_no_terminal(command: tuple[str, ...]) -> None:
    assert steering(said(*command)) == []


@pytest.mark.parametrize("command", ["watch", "top"])
def test_names_that_are_followed_steer_no_terminal(command: str, evil: int) -> None:
    text = said("queues", command, str(evil), seconds=4.0)
    assert steering(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text) if command == "top" else text) == []


@pytest.mark.parametrize(
    "command",
    [
        ("queues", "analyse", "RUN"),
        ("queues", "analyse", "RUN", "--json"),
        ("queues", "compare", "RUN", "RUN"),
        ("queues", "tail", "RUN"),
        ("queues", "model", "RUN"),
        ("queues", "verify", "RUN"),
        *(
            ("queues", "export", "RUN", "--to", to)
            for to in ("csv", "gnuplot", "perfetto", "graphviz", "mermaid")
        ),
        ("show", "RUN"),
        ("show", "RUN", "--json"),
        ("runs", "show", "RUN"),
        ("runs", "list", "FOLDER"),
    ],
    ids=" ".join,
)
def test_names_in_a_recording_steer_no_terminal(command: tuple[str, ...], recording: Path) -> None:
    places = {"RUN": str(recording), "FOLDER": str(recording.parent)}
    assert steering(said(*(places.get(one, one) for one in command))) == []


def test_names_in_the_page_of_a_recording_are_text(recording: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert steering(said("queues", "report", str(recording), "-o", str(page))) == []
    harmless(page.read_text())


def test_names_in_a_diagnosis_are_text(evil: int, tmp_path: Path) -> None:
    text = said("diagnose", "--pid", str(evil), "--seconds", "3", "-o", str(tmp_path / "run"))
    assert steering(text) == []
    pages = list((tmp_path / "run").rglob("*.html"))
    assert pages, text
    for page in pages:
        harmless(page.read_text())


def test_names_on_the_live_pages_are_text(evil: int) -> None:
    for command, path in (("dashboard", "/"), ("serve", "/metrics")):
        group = [] if command == "dashboard" else ["queues"]
        with subprocess.Popen(
            [*LATLAB, *group, command, str(evil), "--port", "0", "--token", "t"],
            stderr=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stderr is not None
            try:
                line = server.stderr.readline()
                assert steering(line) == []
                found = re.search(r":(\d+)/", line)
                assert found is not None, line
                with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}{path}?token=t") as answer:
                    page = answer.read().decode()
                if command == "dashboard":
                    harmless(page)
                else:
                    assert steering(page) == []
            finally:
                server.terminate()
