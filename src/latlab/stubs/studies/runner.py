"""Runs a system under study in one variant after the other, and keeps what each run took.

Over 400 lines: one run of a system from its start to its end, which an interrupt may end anywhere.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil

from latlab._core import stubs as native
from latlab.errors import LatlabError, UnavailableError, UsageError
from latlab.model.stubs import StudyRun
from latlab.stubs.components import plan as _plan
from latlab.stubs.studies import levels as _levels
from latlab.stubs.studies.question import StudyPlan
from latlab.words import seconds

_INJECT = Path(__file__).parents[1] / "_inject"
# A loop of the gauge (some 80 us), and how many are run before each run that measures the component.
_GAUGE_ITERATIONS = 120_000
_GAUGE_LOOPS = 24
# A component is slowed with the machine where it is slowed by this part of what the gauge is.
_SLOWED = 0.35
# A part of a run: long enough not to be noise, short enough to find the machine fast often.
_PART_NS = 2_000_000
_MOST_PARTS = 100
# A call of a command shorter than this waits for its start-up and for its parent's wake-up alone.
_START_UP_NS = 2_000_000


# A run that takes so many times the longest one, and at least so long, is ended.
_LIMIT, _LEAST_LIMIT_S = 10.0, 20.0
_SHORTEST_LIMIT_S = 5.0  # of a study that is given little time
_LOOK_S = 0.5  # between two looks whether a run has lasted too long
# A run that fails is repeated: of hundreds of runs, two in a row fail where one in ten does.
# Where no run has succeeded yet, the command itself may be wrong: fewer are tried.
ATTEMPTS, _FIRST_ATTEMPTS = 5, 2
WAITS = (
    "does another part of it wait for something that the component does besides its result, such as an event?"
)


class LateError(LatlabError):
    """A run with a stub did not end."""


class _Failed(Exception):
    def __init__(self, what: str, why: str) -> None:
        super().__init__(what)
        self.what, self.why = what, why


@contextmanager
def ended_after(pid: int, seconds: float) -> Iterator[list[int]]:
    """End a process and its children where it lasts longer; then the list holds its number.

    Time in which it is stopped, or latlab is (Ctrl-Z, a suspended machine), isn't counted: one look counts as
    the time between two looks, however late it comes.
    """
    late: list[int] = []
    done = threading.Event()

    def end() -> None:
        left = seconds
        while left > 0:
            look = min(_LOOK_S, left)
            if done.wait(look):
                return
            left -= 0.0 if _is_stopped(pid) else look
        late.append(pid)
        try:
            family = psutil.Process(pid)
            for one in (*family.children(recursive=True), family):
                one.kill()
        except psutil.Error:  # it has ended meanwhile
            return

    thread = threading.Thread(target=end, daemon=True)
    thread.start()
    try:
        yield late
    finally:
        done.set()
        thread.join()


def _is_stopped(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:  # it has ended meanwhile
        return False


@dataclass(frozen=True)
class Unit:
    """The calls of one thread of one process.

    Attributes:
        times: a row a call: busy_ns, blocked_ns.
        first_ns: begin of the first call, on the run's own clock.
        last_ns: end of the last call.
        lost_ns: within its calls, ready without a CPU or taken by the machine: a stub loses as much.
    """

    times: npt.NDArray[np.int64]
    first_ns: int
    last_ns: int
    lost_ns: int = 0

    @property
    def busy_ns(self) -> int:
        """Time in the component, in ns."""
        return int(self.times[:, 0].sum())

    @property
    def blocked_ns(self) -> int:
        """Of it the time that it was blocked, in ns."""
        return int(self.times[:, 1].sum())


Units = Mapping[tuple[str, int], Unit]


@dataclass
class Lab:
    """Runs the command in one variant after the other."""

    command: list[str]
    plan: StudyPlan
    folder: Path
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    original: dict[str, str] = field(default_factory=dict)
    runs: list[StudyRun] = field(default_factory=list)
    gauge_ns: list[int] = field(default_factory=list)
    segments: npt.NDArray[np.int64] | None = None
    failed: list[str] = field(default_factory=list)  # runs that were repeated
    lost: str = ""  # what calls change and a stub can't
    patience_s: float = 0.0  # with a run that does not end, at least; 0 as the study's time has it
    own: bool = True  # it replays what it has recorded itself, and so trusts it

    def __post_init__(self) -> None:
        self.state = self.folder / "state"
        self.state.mkdir()
        found = native.spin_calibration()
        values = (found.ticks_per_ns, found.iterations_per_ns, found.cpu_clock_ns, found.spin_bias_ns)
        # One hash seed for all runs, so that sets are iterated alike; the user's where there is one.
        seed = {"PYTHONHASHSEED": "0"} if self.plan.kind == "python" else {}
        self.original = {**seed, **os.environ}
        self.environment = {
            **self.original,
            _plan.VARIABLE: str(self.folder / "plan"),
            _plan.CALIBRATION: " ".join(map(repr, values)),
        }
        if self.plan.released:
            self.flags = (*self.flags, "released")
        if self.plan.keyed:
            self.flags = (*self.flags, "keyed")
        if self.plan.kind == "python" and self.own:
            self.flags = (*self.flags, "pickles")
        if self.plan.mutates:
            self.flags = (*self.flags, f"mutates={'+'.join(self.plan.mutates)}")
        if self.plan.kind == "python":
            # A folder with latlab alone: a program of another environment needs nothing of ours in its own.
            inject = self.folder / "inject"
            inject.mkdir()
            shutil.copy(_INJECT / "sitecustomize.py", inject)
            (inject / "latlab").symlink_to(_INJECT.parents[1])
            paths = [str(inject), os.environ.get("PYTHONPATH", "")]
            self.environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        elif self.plan.kind == "command":
            shims = self.folder / "shims"
            shims.mkdir()
            (shims / self.plan.component).symlink_to(_shim())
            self.environment["PATH"] = f"{shims}{os.pathsep}{os.environ['PATH']}"

    def prepare(self, mode: str, speedup: float, delay_ns: int, flags: tuple[str, ...] = ()) -> None:
        """Write the plan of the next run."""
        factor = 1 - speedup
        if self.plan.faster != "work" and mode in ("busy", "flat"):
            flags = (*flags, f"wait={float(factor)!r}")
            mode, factor = ("busy", 1.0) if self.plan.faster == "wait" else (mode, factor)
        entry = _plan.Entry(
            mode, self.plan.component, str(self.state), factor, delay_ns, (*self.flags, *flags)
        )
        (self.folder / "plan").write_text(_plan.text([entry]), encoding="utf-8")
        for counter in (*self.state.glob("*.count"), *self.folder.glob("state.d/*.count")):
            counter.unlink()
        (self.state / _plan.FILES).unlink(missing_ok=True)

    def run(
        self,
        mode: str,
        speedup: float = 0.0,
        *,
        delay_ns: int = 0,
        flags: tuple[str, ...] = (),
        round_number: int = -1,
    ) -> StudyRun:
        """One run; `mode` "original" runs the command as it is. One that fails is repeated, and counted.

        Raises:
            LatlabError: the command failed each time, or did not end.
        """
        attempts = ATTEMPTS if self.runs else _FIRST_ATTEMPTS
        for left in reversed(range(attempts)):
            try:
                return self._run(mode, speedup, delay_ns=delay_ns, flags=flags, round_number=round_number)
            except _Failed as error:
                if left == 0 or (mode == "record" and any(self.state.glob("*.error"))):
                    del self.failed[len(self.failed) - (attempts - 1 - left) :]
                    raise LatlabError(error.what, remedy=error.why) from None
                self.failed.append(error.what)
        raise AssertionError  # the last attempt returns or raises

    def _run(
        self, mode: str, speedup: float, *, delay_ns: int, flags: tuple[str, ...], round_number: int
    ) -> StudyRun:
        environment: Mapping[str, str] = self.original
        if mode != "original":
            environment = self.environment
            self.prepare(mode, speedup, delay_ns, flags)
        for old in self.state.glob("*.marks"):
            old.unlink()
        before = time.perf_counter_ns()
        process = subprocess.Popen(
            self.command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        with ended_after(process.pid, self.limit_s()) as late:
            said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter_ns() - before
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
        if late:
            raise LatlabError(self.too_late(mode), remedy=f"{WAITS} {self.lost}".strip())
        if process.returncode != 0:
            last = said.decode(errors="replace").strip().splitlines()[-1:] or ["it printed nothing"]
            what = "as it is" if mode == "original" else f"under the study, {mode}"
            raise _Failed(
                f"the command failed with exit code {process.returncode} ({what}): {last[0]}",
                ""
                if mode == "original"
                else "run 'latlab stubs validate' to see whether the component can be replayed",
            )
        # A delay's length, as a part of the component's time, stands where a stub's speedup does.
        run = StudyRun(
            mode, speedup, round_number, wall, round(usage.ru_utime * 1e9), round(usage.ru_stime * 1e9)
        )
        self.runs.append(run)
        if mode == "record":
            self.require_recorded()
        self.segments = _segments(sorted(self.state.glob("*.marks")), before, before + wall)
        return run

    def limit_s(self) -> float:
        """After how long a run is ended: what waits for something that a stub does not do never ends."""
        known = [run.wall_ns for run in self.runs]
        least = min(_LEAST_LIMIT_S, self.patience_s or max(_SHORTEST_LIMIT_S, self.plan.seconds / 2))
        return max(least, _LIMIT * max(known) / 1e9) if known else math.inf

    def too_late(self, mode: str) -> str:
        """What is said of a run that was ended."""
        what = "as it is" if mode == "original" else f"under the study, {mode}"
        return f"the command did not end within {seconds(round(self.limit_s()))} ({what})"

    @property
    def rows_file(self) -> Path:
        """What the calls of a command leave, a row each; it is not there where none was made."""
        return self.folder / "state.rows"

    def require_recorded(self) -> None:
        """Refuse what could not be recorded, even where the command went on.

        Raises:
            LatlabError: a process kept an error.
        """
        for path in self.state.glob("*.error"):
            raise LatlabError(path.read_text(encoding="utf-8"))

    def files(self) -> list[str]:
        """Files that processes of the last run opened to write, wherever they lie; of Python programs."""
        path = self.state / _plan.FILES
        return path.read_text(encoding="utf-8", errors="surrogateescape").split("\0") if path.exists() else []

    def keeps(self, place: str) -> bool:
        """Whether what calls change there is recorded already."""
        named = next((flag[8:].split("+") for flag in self.flags if flag.startswith("mutates=")), [])
        return place in named or place.partition(".")[0] in named

    def keep_places(self, places: list[str]) -> None:
        """Record what calls change there, from the next recording on."""
        old = next((flag for flag in self.flags if flag.startswith("mutates=")), None)
        named = [*(old[8:].split("+") if old else []), *places]
        self.flags = (*(flag for flag in self.flags if flag != old), f"mutates={'+'.join(named)}")

    def leave_places(self, places: Iterable[str]) -> None:
        """Record no more what calls change there, since it can't be; what the study's file names stays."""
        asked = {str(one) for one in self.plan.mutates}
        old = next((flag for flag in self.flags if flag.startswith("mutates=")), None)
        gone = set(places) - asked
        left = [one for one in (old[8:].split("+") if old else []) if one not in gone]
        self.flags = (
            *(flag for flag in self.flags if flag != old),
            *([f"mutates={'+'.join(left)}"] if left else []),
        )

    def gauge(self) -> None:
        """Take the machine's speed, a few times in a row."""
        self.gauge_ns += native.gauge(_GAUGE_ITERATIONS, _GAUGE_LOOPS)

    def work_per_ns(self) -> float:
        """Iterations of the gauge's loop in the machine's fast mode."""
        return _GAUGE_ITERATIONS / float(np.quantile(self.gauge_ns, 0.05))

    def measure(self) -> Units:
        """Run once, and measure every call of the component; empty where it is never called."""
        for old in (*self.state.glob("*.times"), self.rows_file):
            old.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "state.d", ignore_errors=True)
        self.run("measure")
        if self.plan.kind == "command":
            return _units_of_commands(self.rows_file)
        return self._units("times")

    def spent(self) -> Units:
        """Run the stub at full time once, and measure every call of it as those of the component are."""
        for old in self.state.glob("*.spent"):
            old.unlink()
        self.run("busy", flags=("timed",))
        return self._units("spent")

    def _units(self, suffix: str) -> Units:
        found = {}
        for path in sorted(self.state.glob(f"*.{suffix}")):
            for thread, one in _plan.read_times(str(path)).items():
                rows = np.frombuffer(one.rows, dtype=np.int64).reshape(-1, 2)
                if len(rows):
                    found[path.stem, thread] = Unit(rows, one.first_ns, one.last_ns, one.lost_ns)
        return found

    def keep(
        self, units: Units, steps: Mapping[tuple[str, int], npt.NDArray[np.int64]] | None = None
    ) -> None:
        """Make these the times that stubs simulate; `steps` are rows that stand for a thread's times."""
        steps = steps or {}
        if self.plan.kind == "command":
            for (call, _), unit in units.items():
                meta = self.folder / "state.d" / f"{call}.meta"
                code = meta.read_text(encoding="ascii").split()[2]
                busy, blocked = map(int, unit.times[0])
                meta.write_text(f"{busy} {blocked} {code}\n", encoding="ascii")
            return
        processes: dict[str, dict[int, _plan.ThreadTimes]] = {}
        for (process, thread), unit in units.items():
            rows = steps.get((process, thread), unit.times).astype(np.int64).tobytes()
            processes.setdefault(process, {})[thread] = _plan.ThreadTimes(rows, unit.first_ns, unit.last_ns)
        for process, times in processes.items():
            _plan.write_times(str(self.state / f"{process}.times"), times)

    def function_ns(self) -> float:
        """What the component's function itself cost in the last flat run."""
        if self.plan.kind == "command":
            path = self.folder / "state.flat"
            used = np.fromfile(path, dtype=np.int64) if path.exists() else np.zeros(0)
            path.unlink(missing_ok=True)
            return float(used.sum())
        return float(sum(inside for _, inside, _ in self._outcomes()))

    def left(self) -> int:
        """Recorded results that the last run did not ask for."""
        return sum(left for _, _, left in self._outcomes())

    def _outcomes(self) -> list[tuple[int, int, int]]:
        found = []
        for path in self.state.glob("*.outcome"):
            calls, inside, left = map(int, path.read_text(encoding="ascii").split())
            found.append((calls, inside, left))
        return found


def _units_of_commands(path: Path) -> Units:
    """Calls of a command, in the order in which they ended; each is a process of its own."""
    folder = path.with_name("state.d")
    if not path.exists():
        return {}
    rows = np.fromfile(path, dtype=np.int64).reshape(-1, 4)
    names: dict[tuple[int, int], list[str]] = {}
    for meta in folder.glob("*.meta"):
        busy, blocked, _ = map(int, meta.read_text(encoding="ascii").split())
        names.setdefault((busy, blocked), []).append(meta.stem)
    return {
        (names[int(busy), int(blocked)].pop(), 0): Unit(
            np.array([[busy, blocked if blocked > _START_UP_NS else 0]]), int(begin), int(end)
        )
        for busy, blocked, begin, end in rows
    }


def _segments(paths: list[Path], begin: int, end: int) -> npt.NDArray[np.int64] | None:
    """A run as times that follow each other: to the first call, in it, to the next, ...

    Of a program with several threads only the first call's begin is known, and of several processes the
    earliest one counts.
    """
    known = [marks for marks in (np.fromfile(path, dtype=np.int64) for path in paths) if marks.size]
    if not known:
        return None
    marks = known[0] if len(known) == 1 else np.array([min(marks[0] for marks in known)])
    return np.diff(np.concatenate([[begin], marks, [end]]))


def parts_of(base: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Where the parts begin in which runs are compared, as indices of their segments."""
    typical = np.median(base, axis=0)
    least = max(_PART_NS, float(typical.sum()) / _MOST_PARTS)
    begins = [0]
    length = 0.0
    for index, segment in enumerate(typical):
        if length >= least:
            begins.append(index)
            length = 0.0
        length += segment
    return np.array(begins)


def slowed(measured: list[Units], gauge_ns: list[int]) -> bool:
    """Is the component slowed with the machine, as work is, or does it last until a time of its own?"""
    machine = float(np.mean(gauge_ns)) / float(np.quantile(gauge_ns, 0.05)) - 1
    totals = np.array([sum(unit.busy_ns for unit in one.values()) for one in measured], dtype=np.float64)
    return float(np.mean(totals)) / max(1, fastest(measured)) - 1 > _SLOWED * machine


def fastest(measured: list[Units]) -> int:
    """Busy time of all calls in the machine's fast mode: of each call the least, where runs have the same."""
    totals = [sum(unit.busy_ns for unit in one.values()) for one in measured]
    first = measured[0]
    if not _alike(measured):
        return min(totals)
    return sum(int(np.min([one[key].times[:, 0] for one in measured], axis=0).sum()) for key in first)


def _alike(measured: list[Units]) -> bool:
    """Whether each thread made as many calls in each run."""
    first = measured[0]
    return all(
        one.keys() == first.keys() and all(len(one[key].times) == len(first[key].times) for key in first)
        for one in measured
    )


def check_command(command: list[str]) -> None:
    """Refuse a command that isn't there."""
    if not command or shutil.which(command[0]) is None:
        raise UsageError(f"there is no command '{command[0] if command else ''}'")


def combined(measured: list[Units], gauge_ns: list[int]) -> tuple[Units, bool, bool]:
    """Each call's time in the machine's fast mode, from several measurements.

    Returns:
        The calls; whether each thread made as many in each run (else they are those of the fastest run); and
        whether they are slowed with the machine.
    """
    first = min(measured, key=lambda one: sum(unit.busy_ns for unit in one.values()))
    if not _alike(measured):
        return first, False, False
    works = slowed(measured, gauge_ns)

    def times(key: tuple[str, int]) -> npt.NDArray[np.int64]:
        rows = np.array([one[key].times for one in measured])
        busy = rows[..., 0].min(axis=0) if works else _levels.ranked(rows[..., 0], (1, 4))
        return np.stack([busy, np.median(rows[..., 1], axis=0)], axis=1).astype(np.int64)

    return (
        {
            key: Unit(
                times(key),
                unit.first_ns,
                unit.last_ns,
                int(np.median([one[key].lost_ns for one in measured])),
            )
            for key, unit in first.items()
        },
        True,
        works,
    )


def rows_in_parallel(units: Units, cpus: int) -> tuple[float, int]:
    """Time that the component takes on the busiest CPU without its waits, and its calls there (iter).

    Units that don't overlap in time could have run on one CPU, one after the other; where more overlap than
    there are CPUs, they share them.
    """
    rows: list[tuple[int, float, int]] = []  # until, busy, calls
    for unit in sorted(units.values(), key=lambda one: one.first_ns):
        free = [i for i, (until, _, _) in enumerate(rows) if until <= unit.first_ns]
        if free:
            _, busy, calls = rows[free[0]]
            rows[free[0]] = (unit.last_ns, busy + unit.busy_ns + unit.lost_ns, calls + len(unit.times))
        else:
            rows.append((unit.last_ns, float(unit.busy_ns + unit.lost_ns), len(unit.times)))
    if not rows:
        return 0.0, 0
    _, busy, calls = max(rows, key=lambda row: row[1])
    if len(rows) <= cpus:
        return busy, calls
    total = sum(row[1] for row in rows)
    if total / cpus <= busy:
        return busy, calls
    return total / cpus, -(-sum(row[2] for row in rows) // cpus)


def _shim() -> Path:
    import latlab

    path = Path(latlab.__file__).parent / "bin" / "latlab-stub-command"
    if not path.is_file():
        raise UnavailableError(f"{path} is missing", remedy="install latlab again")
    return path
