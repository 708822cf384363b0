"""Runs the pipeline's two processes, and says what became of each."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import latlab
from latlab.errors import InputError, LatlabError
from latlab.lab.judge.outcome import Outcome
from latlab.words import seconds

__all__ = ["PipelineProcesses", "pipeline_program"]

_START_S = 60.0  # a large feed file is read through before the pipeline is ready
_DRAIN_S = 10.0  # what is left in the queues after the feeds have stopped


def pipeline_program() -> Path:
    """The pipeline's program, which the package brings along."""
    return Path(latlab.__file__).parent / "bin" / "latlab-pipeline"


class PipelineProcesses:
    """The trading process and the execution process of one run.

    A context manager: on leaving, no process of the run is left.
    """

    def __init__(self, plan: Path) -> None:
        self._plan = plan
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._output: dict[str, str] = {}

    def __enter__(self) -> PipelineProcesses:
        for role in ("execution", "trading"):
            arguments = [str(pipeline_program()), str(self._plan)]
            if role == "execution":
                arguments.append("execution")
            self._processes[role] = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            self._output[role] = ""
        try:
            for role in self._processes:
                self._await_ready(role)
        except BaseException:
            self._end_all()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end_all()

    @property
    def pids(self) -> dict[str, int]:
        """The processes, by role."""
        return {role: process.pid for role, process in self._processes.items()}

    def _await_ready(self, role: str) -> None:
        process = self._processes[role]
        for line in self._lines(role, time.monotonic() + _START_S):
            if line == "ready":
                return
        others = [other for other in self._processes.values() if other is not process]
        if process.poll() is None and all(other.poll() is None for other in others):
            raise LatlabError(
                f"the {role} process was not ready within {seconds(_START_S)}", remedy="try a smaller input"
            )
        # The one that ended on its own knows why; the other only waited for it.
        culprit = next((p for p in self._processes.values() if p.poll() not in (None, 0)), process)
        _, error = culprit.communicate()
        text = error.strip().splitlines()[-1] if error.strip() else f"ended with status {culprit.returncode}"
        raise InputError(
            self._plan, f"the pipeline did not start: {text.removeprefix(str(self._plan) + ': ')}"
        )

    def _lines(self, role: str, until: float) -> Iterator[str]:
        """Lines of a process's output as they come, until its end, or the time."""
        stream = self._processes[role].stdout
        assert stream is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while (left := until - time.monotonic()) > 0 and all(
                p.poll() in (None, 0) for p in self._processes.values()
            ):
                if not selector.select(min(left, 0.1)):
                    continue
                chunk = os.read(stream.fileno(), 65536).decode()
                if not chunk:
                    return
                self._output[role] += chunk
                while "\n" in self._output[role]:
                    line, _, self._output[role] = self._output[role].partition("\n")
                    yield line

    def go(self) -> None:
        """Let both processes run."""
        for process in self._processes.values():
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it died meanwhile: its outcome says so
                process.stdin.write("\n")
                process.stdin.close()

    def play(
        self,
        seconds: float,
        *,
        failed: Callable[[], bool] = lambda: False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> tuple[Outcome, ...]:
        """Let both run, wait until they have ended, and tell how.

        Args:
            seconds: that the feeds are played; 30 s later they are stopped.
            failed: the observer can't go on: the feeds are stopped.
            tell: takes a line at an interrupt, which stops the feeds too, so that what was measured is kept.
        """
        self.go()
        give_up = time.monotonic() + seconds + 30
        try:
            while self.running():
                time.sleep(0.01)
                if self.execution_died() or failed() or time.monotonic() > give_up:
                    self.stop()
                    break
        except KeyboardInterrupt:
            tell("interrupted: diagnosing what was observed until now")
            self.stop()
        return self.outcomes()

    def running(self) -> bool:
        """True while the trading process runs."""
        return self._processes["trading"].poll() is None

    def execution_died(self) -> bool:
        """True when the execution process has ended before the trading process."""
        return self._processes["execution"].poll() is not None and self.running()

    def stop(self) -> None:
        """Ask both to stop their feeds, drain and end."""
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)

    def outcomes(self) -> tuple[Outcome, ...]:
        """Wait for both and tell how they ended; one that does not end is killed."""
        return tuple(self._outcome(role) for role in ("trading", "execution"))

    def _outcome(self, role: str) -> Outcome:
        process = self._processes[role]
        assert process.stdout is not None
        try:
            process.wait(_DRAIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        text = self._output[role] + process.stdout.read()
        summary = None
        for line in text.splitlines():
            if line.startswith("{"):
                summary = json.loads(line)
        status = process.returncode
        killed = signal.Signals(-status).name if status < 0 else None
        return Outcome(role, process.pid, summary, killed, max(status, -1))

    def _end_all(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None and not stream.closed:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
