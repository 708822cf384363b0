"""Processes of a run: started so that they end with it, watched without being reaped, and their CPU time."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import latlab
from latlab import words
from latlab.errors import LatlabError, UnavailableError
from latlab.words import printable

_PR_SET_PDEATHSIG = 1


def native_program(name: str) -> str:
    """The path of one of latlab's own programs.

    Raises:
        UnavailableError: when the installed package has none.
    """
    path = Path(latlab.__file__).parent / "bin" / f"latlab-{name}"
    if not path.is_file():
        raise UnavailableError(f"{path} is missing", remedy="install latlab again")
    return str(path)


def end_with_parent() -> None:
    """Ask the kernel to kill this (child) process when its parent dies, however that happens."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Child:
    """A process of ours: ends with us, and is stopped by `close`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        pass_fds: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
        own_group: bool = False,
        label: str | None = None,
        quiet: bool = False,
        open_stdin: bool = False,
    ) -> None:
        self.name = label or Path(command[0]).name
        said = (
            subprocess.DEVNULL if quiet else subprocess.PIPE
        )  # nobody reads what a server says while it runs
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE if open_stdin else subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=list(pass_fds),
                env=None if environment is None else {**os.environ, **environment},
                cwd=cwd,
                start_new_session=True,  # an interrupt from the terminal is ours: we end what we started
                preexec_fn=end_with_parent,
            )
        except OSError as error:
            raise UnavailableError(f"{command[0]} can't be started: {error.strerror}") from None
        self.pid = self._process.pid
        self._group = own_group

    def expect(self, line: str, seconds: float = 10.0) -> None:
        """Wait for a line on its stdout.

        Raises:
            LatlabError: when it ends instead, or says something else.
        """
        assert self._process.stdout is not None
        ready: Sequence[object] = ()
        for step in moments(seconds):
            ready = select.select([self._process.stdout], [], [], step)[0]
            if ready:
                break
        said = self._process.stdout.readline().decode(errors="replace").strip() if ready else ""
        if said != line:
            ended = self._process.poll() is not None or (ready and not said)
            self.close()
            why = self.complaint() if ended else f"said nothing for {words.seconds(seconds)}"
            raise LatlabError(f"{self.name} did not start: {why or said or 'no reason given'}")

    def complaint(self) -> str:
        """The last line of what it wrote to stderr, once it has ended."""
        if self._process.stderr is None or self._process.stderr.closed:
            return self._said
        return ""

    _said = ""
    last_words = ""
    """The last line of its stdout, once it is closed."""

    def ended(self) -> str | None:
        """How it ended, or None while it lives. It is not reaped, so that its CPU time stays readable."""
        with contextlib.suppress(ChildProcessError):
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                return None
            if found.si_code in (os.CLD_KILLED, os.CLD_DUMPED):
                return f"killed by {signal.Signals(found.si_status).name}"
            return f"ended with status {found.si_status}"
        return "ended"

    def stopped(self) -> bool:
        """Whether it, or what it started, stands still by SIGSTOP."""
        return stopped(self.pid)

    def close(self, seconds: float = 2.0) -> None:
        """End it: politely, then not."""
        process = self._process
        if process.poll() is None:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                process.wait()
        if self._group:  # what it started itself, too
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None and not stream.closed:
                if stream is not process.stdin:
                    os.set_blocking(stream.fileno(), False)
                    lines = (stream.read() or b"").decode(errors="replace").strip().splitlines()
                    last = lines[-1] if lines else ""
                    if stream is process.stderr:
                        self._said = last.removeprefix(f"{self.name}: ")
                    else:
                        self.last_words = last
                stream.close()

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._group:
                os.killpg(self.pid, number)
            else:
                self._process.send_signal(number)


def standstill(stopped: str | None, seconds: float) -> str:
    """Why a run ends that has not got on for this many seconds; `stopped` is who stands still by a signal."""
    if stopped is not None:
        return f"{stopped} is stopped for {words.seconds(seconds)}"
    return f"nothing arrived for {words.seconds(seconds)}; a longer --timeout waits longer"


def cpu_ns(pid: int) -> int | None:
    """CPU time of a process, all its threads also of a zombie; None once it is gone.

    The scheduler's own nanoseconds, not the clock ticks of /proc/PID/stat.
    """
    total = 0
    try:
        with os.scandir(f"/proc/{pid}/task") as tasks:
            for task in tasks:
                with contextlib.suppress(OSError):
                    total += int(Path(task.path, "schedstat").read_text().split()[0])
    except OSError:
        return None
    return total


def thread_name(path: str) -> str:
    """The name of a thread, by a file in its folder of /proc; empty once it is gone."""
    try:
        return printable(Path(path).with_name("comm").read_text(errors="replace").strip())
    except OSError:
        return ""


def descendants(pid: int) -> list[int]:
    """A process and all that it started, now."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{parent}/task") as tasks:
            for task in tasks:
                with contextlib.suppress(OSError):  # a thread that has ended since
                    found += [int(child) for child in Path(task.path, "children").read_text().split()]
    return found


def moments(
    seconds: float, step_s: float = 0.1, now: Callable[[], float] = time.monotonic
) -> Iterator[float]:
    """The steps to wait in, until this process could run for that many seconds.

    Where it was stopped, or the whole machine, those that it waits for could do nothing either.
    """
    left, before = seconds, now()
    while left > 0:
        yield min(left, step_s)
        after = now()
        left -= max(min(after - before, 3 * step_s), 1e-6)
        before = after


def stopped(pid: int) -> bool:
    """Whether a process, or what it started, stands still by SIGSTOP."""
    for one in descendants(pid):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{one}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "T":
                return True
    return False


def signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    """Send each of these processes a signal; one that has gone is none to send to."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def machine_idle_ns() -> int | None:
    """Time that this machine's CPUs stood idle since it booted, summed over them (in steps of 10 ms)."""
    try:
        words = Path("/proc/stat").read_text().splitlines()[0].split()
    except OSError:
        return None
    return (int(words[4]) + int(words[5])) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def idle_state(idle_ns: int | None, elapsed_ns: int) -> dict[str, object]:
    """How idle CPUs sleep here, and which part of its time they did; a quiet machine wakes up more slowly."""
    found: dict[str, object] = {}
    for name, file in (("driver", "current_driver"), ("governor", "current_governor_ro")):
        try:
            found[name] = Path("/sys/devices/system/cpu/cpuidle", file).read_text().strip()
        except OSError:
            found[name] = None
    cpus = os.cpu_count() or 1
    found["idle_share"] = (
        None if idle_ns is None or elapsed_ns <= 0 else min(1.0, idle_ns / elapsed_ns / cpus)
    )
    return found


def machine_busy_ns() -> int | None:
    """CPU time that everybody on this machine used since it booted (in steps of 10 ms)."""
    try:
        words = Path("/proc/stat").read_text().splitlines()[0].split()
    except OSError:
        return None
    user, nice, system, _idle, _wait, irq, softirq = (int(word) for word in words[1:8])
    return (user + nice + system + irq + softirq) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def device_of(address: str) -> str | None:
    """The network device that has this address."""
    import psutil

    for device, addresses in psutil.net_if_addrs().items():
        if any(a.address == address for a in addresses):
            return str(device)
    return None


def device_bytes(device: str | None = "lo") -> tuple[int, int] | None:
    """(received, sent) bytes of a network device so far; None of none."""
    try:
        lines = Path("/proc/net/dev").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, rest = line.partition(":")
        if name.strip() == device:
            words = rest.split()
            return int(words[0]), int(words[8])
    return None


def wait_for_port(host: str, port: int, child: Child, seconds: float) -> None:
    """Wait until a server answers.

    Raises:
        UnavailableError: when it ends first, or takes longer.
    """
    import socket

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=0.5):
            return
        if child.ended() is not None:
            child.close()
            raise UnavailableError(f"{child.name} did not start: {child.complaint() or 'no reason given'}")
        time.sleep(0.02)
    child.close()
    raise UnavailableError(f"{child.name} did not answer on {host}:{port} within {words.seconds(seconds)}")


def free_port() -> int:
    """A TCP port of loopback that nobody listens on now."""
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port
