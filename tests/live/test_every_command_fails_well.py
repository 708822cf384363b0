"""Every command, by a call that works, without something that it needs: one line, and no result lost."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from every_command import CALLABLE, CALLS, make, published, words

from latlab.cli._main import main

_NEW_MOUNTS, _PRIVATE, _READ_ONLY = 0x20000, 0x44000, 1
_CAN_LOCK_MEMORY = 14  # CAP_IPC_LOCK
_LIBC = ctypes.CDLL(None, use_errno=True)
_LONGEST_S = 60.0
# What has no end of its own is interrupted.
ENDLESS = {"dashboard", "queues serve"}
# The kernel's buffers of events are locked memory.
NEEDS_LOCKED = {"stubs capture"}
# A live view has no terminal here, and no plug-in is installed that could be checked.
REFUSED = {"messaging conform", "queues top"}
# Without shared memory nothing publishes, so these have nothing to look at, and say so.
NEEDS_SHARED = {
    "dashboard", "demo", "queues overhead", "queues record", "queues serve", "queues top", "queues watch",
}  # fmt: skip


def nothing() -> None:
    """The call as it is."""


def no_home() -> None:
    os.environ.update(dict.fromkeys(("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), "/proc/none"))
    os.environ["HOME"] = "/proc"


def no_shared_memory() -> None:
    for failed in (
        _LIBC.unshare(_NEW_MOUNTS),
        _LIBC.mount(b"none", b"/", None, _PRIVATE, None),
        _LIBC.mount(b"tmpfs", b"/dev/shm", b"tmpfs", _READ_ONLY, b"size=4k"),
    ):
        if failed:
            os._exit(77)


def no_file_may_grow() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))


def no_locked_memory() -> None:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    head, rights = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    # Root may lock without a limit: so it gives up that right.
    _LIBC.capget(head, rights)
    for index in range(3):
        rights[index] &= ~(1 << _CAN_LOCK_MEMORY)
    _LIBC.capset(head, rights)


# What writes a file or folder of its own; the folder that is not there is then told by its name.
WRITES = [
    command for command in CALLABLE
    if {"OUT", "OUT.csv", "OUT.tar"} & set(CALLS[command].split())
    # The one removes, the other needs a program that may not be there, and the third a revision.
    and command not in ("runs remove", "stubs spec", "bench rev")
]  # fmt: skip
# The others call a wrong place a mistake of the call: 2.
FAILS_BY_1 = {
    "bench accept", "bench compare", "market bars", "market decode", "market generate", "market inside",
    "market lobster", "market receive", "market replay", "market snapshot", "market stats", "market trades",
    "requests show", "runs export", "stubs capture", "stubs compare", "stubs edit", "stubs play",
    "stubs record", "stubs validate",
}  # fmt: skip


class Called:
    """A call in a fork, which runs until `end`: its exit code, and what it printed."""

    def __init__(self, arguments: list[str], fault: Callable[[], None], stdout: int | None = None) -> None:
        (self._out, write), (self._err, write_err) = os.pipe(), os.pipe()
        self._child = os.fork()
        if self._child == 0:
            self._call(arguments, fault, write if stdout is None else stdout, write_err)
        os.close(write)
        os.close(write_err)
        self._endless = " ".join(arguments[: 2 if arguments[0] == "queues" else 1]) in ENDLESS
        self._text: dict[int, str] = {}
        self._spoken = threading.Lock()
        # How long it takes to say where it serves depends on who else computes.
        self._interrupt = threading.Timer(1.0, os.killpg, (self._child, signal.SIGINT))
        self._timers = [threading.Timer(_LONGEST_S, os.killpg, (self._child, signal.SIGKILL))]
        if self._endless:
            self._timers.append(threading.Timer(_LONGEST_S / 2, os.killpg, (self._child, signal.SIGINT)))

    def _drain(self, pipe: int) -> None:
        with os.fdopen(pipe, errors="replace") as said:
            first = said.read(1)
            if self._endless and first and self._spoken.acquire(blocking=False):
                self._interrupt.start()
            self._text[pipe] = first + said.read()

    def end(self) -> Called:
        """Reads what it prints until it ends, and checks what holds whatever was missing."""
        readers = [threading.Thread(target=self._drain, args=(pipe,)) for pipe in (self._out, self._err)]
        for one in (*readers, *self._timers):
            one.start()
        try:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        finally:
            for timer in (*self._timers, self._interrupt):
                timer.cancel()
        for reader in readers:
            reader.join()
        self.out, self.err = self._text[self._out], self._text[self._err]
        self.last = (self.err.splitlines() or [""])[-1]
        return _checked(self)

    @staticmethod
    def _call(arguments: list[str], fault: Callable[[], None], out: int, err: int) -> None:
        code = 99
        try:
            os.setsid()
            nowhere = os.open(os.devnull, os.O_RDONLY)
            for descriptor, place in ((nowhere, 0), (out, 1), (err, 2)):
                os.dup2(descriptor, place)
            os.closerange(3, 256)
            sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - descriptors, not paths
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
            fault()
            main(arguments)
        except SystemExit as left:
            code = int(left.code or 0)
            sys.stdout.flush()  # as the interpreter does at its end
        except BaseException:  # noqa: BLE001 - whatever escapes is the finding
            os.write(2, f"escaped: {traceback.format_exc()}".encode())
        finally:
            os._exit(code)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with published() as live, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))  # of the null control, not ours
        yield {**make(tmp_path_factory.mktemp("made")), "LIVE": live}


def _checked(called: Called) -> Called:
    """Whatever was missing: no trace, no signal, an exit code that means something, and a line of why."""
    assert "Traceback" not in called.err
    assert "escaped" not in called.err
    assert called.code in (0, 1, 2, 3, 4, 130), called.err
    if called.code in (1, 2):
        assert called.last.startswith("latlab"), called.err
    return called


@pytest.mark.side_by_side
@pytest.mark.parametrize("command", CALLABLE)
def test_a_command_without_what_it_needs_says_so_in_one_line_and_loses_no_result(
    command: str, made: dict[str, str], tmp_path: Path
) -> None:
    def call(name: str, fault: Callable[[], None], stdout: int | None = None) -> Called:
        arguments = [*command.split(), *words(CALLS[command], made, str(tmp_path / name))]
        return Called(arguments, fault, stdout)

    usual = call("usual", nothing).end()
    # A call that is refused for its words tests nothing of its command.
    assert (usual.code == 2) == (command in REFUSED), usual.err
    read, gone = os.pipe()
    os.close(read)
    with Path("/dev/full").open("w") as full:
        # At once, since most of them wait longer than they compute; and before any thread is started.
        begun = {
            "full": call("full", lambda: setattr(tempfile, "tempdir", str(tmp_path)), full.fileno()),
            "gone": call("gone", nothing, gone),
            "home": call("home", no_home),
            "memlock": call("memlock", no_locked_memory),
            "files": call("files", few_files),
            "size": call("size", no_file_may_grow),
        }
    os.close(gone)
    if os.geteuid() == 0 and usual.code not in (1, 2):
        begun["shared"] = call("shared", no_shared_memory)
    with ThreadPoolExecutor(len(begun)) as pool:
        ended = dict(zip(begun, pool.map(Called.end, begun.values()), strict=True))

    if usual.out:
        filled = ended["full"]
        assert filled.code == 1
        told = re.fullmatch(
            r".*latlab: the output: No space left on device; what it was to say is in (\S+)", filled.last
        )
        assert told, filled.err
        assert Path(told[1]).read_text(encoding="utf-8") != ""
        assert ended["home"].out != ""
    assert ended["gone"].code in ({0} if usual.out else {usual.code})
    if command in NEEDS_LOCKED:
        assert ended["memlock"].code == 1
    else:
        assert (ended["memlock"].code in (1, 2)) == (usual.code in (1, 2))
    for limited in (ended["files"], ended["size"]):
        assert limited.out != "" or limited.code in (1, 2) or not usual.out
    if "shared" in ended:
        assert ended["shared"].code in ((1,) if command in NEEDS_SHARED else (0, 3, 4))


@pytest.mark.side_by_side
@pytest.mark.parametrize("command", WRITES)
def test_a_place_that_is_not_there_is_one_line_that_names_it_and_the_command_s_exit_code(
    command: str, made: dict[str, str]
) -> None:
    called = Called([*command.split(), *words(CALLS[command], made, "/proc/none/x")], nothing).end()
    assert called.code == (1 if command in FAILS_BY_1 else 2), called.err
    assert called.last.startswith("latlab: /proc/none"), called.err
