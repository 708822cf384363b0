"""The method, automated: what a component's optimisation would buy, measured before anyone writes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from latlab._core import stubs as native
from latlab.errors import InputError, LatlabError, NotTrustworthyError, UnavailableError, UsageError
from latlab.model.stubs import StudyResult
from latlab.stubs import _forecast, _plan

KINDS = ("python", "c++", "command")
# Fewer rounds than this give no interval.
LEAST_ROUNDS = 4
_INJECT = Path(__file__).parent / "_inject"


@dataclass(frozen=True)
class StudyPlan:
    """What STUDY.toml says.

    Attributes:
        component: ``module:function`` or the name given to the decorator (python), the name given to
            `latlab::stub::component` (c++), or a program's name (command).
        kind: "python", "c++" or "command".
        seconds: time for the repetitions.
        rounds: most repetitions of each variant.
        released: the component works without Python's global lock.
        suspicion: first check, by a growing delay in front of the component, that it is a bottleneck at all.
    """

    component: str
    kind: str = "python"
    seconds: float = 25.0
    rounds: int = 40
    released: bool = False
    suspicion: bool = False
    seed: int = 1


def load_plan(path: str | Path) -> StudyPlan:
    """Read STUDY.toml.

    Raises:
        InputError: it isn't TOML, or a key is unknown, missing or of another type.
    """
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(path, f"can't be read as TOML ({error})") from error
    kinds: dict[str, type | tuple[type, ...]] = {
        "component": str, "kind": str, "seconds": (int, float), "rounds": int, "released": bool,
        "suspicion": bool, "seed": int,
    }  # fmt: skip
    for key, value in document.items():
        if key not in kinds:
            raise InputError(path, f"there is no key '{key}'", place=key, remedy=f"one of {', '.join(kinds)}")
        if not isinstance(value, kinds[key]) or (isinstance(value, bool) and kinds[key] is not bool):
            raise InputError(path, f"is {value!r}", place=key)
    if "component" not in document:
        raise InputError(path, "names no component", place="component")
    plan = StudyPlan(**document)
    if plan.kind not in KINDS:
        raise InputError(path, f"is '{plan.kind}'", place="kind", remedy=f"one of {', '.join(KINDS)}")
    if plan.seconds <= 0 or plan.rounds < LEAST_ROUNDS:
        raise InputError(path, f"needs more than 0 seconds and {LEAST_ROUNDS} rounds", place="seconds")
    return plan


@dataclass(frozen=True)
class Run:
    """One run of the system under study."""

    variant: str
    factor: float
    wall_ns: int
    user_ns: int
    system_ns: int


@dataclass
class _Lab:
    """Runs the command in one variant after the other."""

    command: list[str]
    plan: StudyPlan
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = self.folder / "state"
        found = native.spin_calibration()
        values = (found.ticks_per_ns, found.iterations_per_ns, found.cpu_clock_ns, found.spin_bias_ns)
        self.environment = {
            **os.environ,
            _plan.VARIABLE: str(self.folder / "plan"),
            _plan.CALIBRATION: " ".join(map(repr, values)),
        }
        if self.plan.kind == "python":
            paths = [str(_INJECT), os.environ.get("PYTHONPATH", "")]
            self.environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        elif self.plan.kind == "command":
            shims = self.folder / "shims"
            shims.mkdir()
            (shims / self.plan.component).symlink_to(_shim())
            self.environment["PATH"] = f"{shims}{os.pathsep}{os.environ['PATH']}"

    def run(self, mode: str, factor: float = 1.0, delay_ns: int = 0) -> Run:
        """One run; `mode` "original" runs the command as it is."""
        environment = dict(os.environ)
        if mode != "original":
            environment = self.environment
            entry = _plan.Entry(
                mode, self.plan.component, str(self.state), factor, delay_ns, self.plan.released
            )
            (self.folder / "plan").write_text(_plan.text([entry]), encoding="utf-8")
            for counter in self.folder.glob("state.d/*.count"):
                counter.unlink()
        before = time.perf_counter_ns()
        process = subprocess.Popen(
            self.command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter_ns() - before
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
        if process.returncode != 0:
            last = said.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise LatlabError(
                f"the command failed with exit code {process.returncode} ({mode} stub): {last[0]}",
                remedy="run 'latlab stubs validate' to see whether the component can be replayed",
            )
        run = Run(mode, factor, wall, round(usage.ru_utime * 1e9), round(usage.ru_stime * 1e9))
        self.runs.append(run)
        return run


def _shim() -> Path:
    import latlab

    path = Path(latlab.__file__).parent / "bin" / "latlab-stub-command"
    if not path.is_file():
        raise UnavailableError(f"{path} is missing", remedy="install latlab again")
    return path


def _system(command: Sequence[str]) -> dict[str, float]:
    """Busy, ready and blocked time of the unchanged system, where tracing is allowed."""
    from latlab.stubs import _capture

    try:
        with tempfile.TemporaryDirectory() as folder:
            timeline, _ = _capture.capture(command, folder, quiet=True)
    except (UnavailableError, InputError):
        return {}
    return {
        "busy_ns": float(sum(thread.run_ns for thread in timeline.threads)),
        "ready_ns": float(sum(thread.ready_ns for thread in timeline.threads)),
        "blocked_ns": float(sum(thread.blocked_ns for thread in timeline.threads)),
        "threads": float(len(timeline.threads)),
    }


def study(
    plan: StudyPlan,
    command: Sequence[str],
    *,
    output: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> StudyResult:
    """Forecast what a faster component buys.

    Args:
        plan: what STUDY.toml says; see `load_plan`.
        command: the system under study; it must end by itself, and do the same in each run.
        output: folder for the recording of the whole study.
        progress: told what is being done.

    Raises:
        LatlabError: the command fails, or the component can't be recorded and replayed.
        NotTrustworthyError: the machine was so disturbed that nothing can be said.
        UsageError: there is no such command, or the component is never called.
    """
    if not command or shutil.which(command[0]) is None:
        raise UsageError(f"there is no command '{command[0] if command else ''}'")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="latlab-study-") as scratch:
        lab = _Lab(list(command), plan, Path(scratch))
        progress("measuring the component")
        lab.run("original")
        times = _measure_component(lab)
        if plan.kind != "command":
            lab.run("record")
        system = _system(command)
        progress(f"{len(times)} calls; repeating the stubs, interleaved")
        rounds, extra = _repeat(lab, begin + plan.seconds, progress)
        suspicion = _suspicion(lab, times) if plan.suspicion else None
        result = _conclude(lab, times, rounds, extra, system, suspicion, time.monotonic() - begin)
        if output is not None:
            _save(lab, result, output, command)
    return result


def _measure_component(lab: _Lab) -> list[tuple[int, int]]:
    lab.run("measure")
    path = f"{lab.state}.times"
    if lab.plan.kind == "command" and not Path(path).exists():
        times: list[tuple[int, int]] = []
    else:
        times = _plan.read_times(path) if Path(path).exists() else []
    if not times:
        hint = {
            "python": "is its module imported so? A function of the script itself needs the decorator",
            "c++": "does the program include <latlab/stub.hpp> and name it so?",
            "command": "is it found through PATH?",
        }[lab.plan.kind]
        raise UsageError(f"'{lab.plan.component}' is never called by the command", remedy=hint)
    return times


def _repeat(
    lab: _Lab, until: float, progress: Callable[[str], None]
) -> tuple[list[dict[float, float]], list[dict[str, float]]]:
    """Rounds of every variant, in an order of their own each; the baseline stands in every round."""
    random = np.random.default_rng(lab.plan.seed)
    rounds: list[dict[float, float]] = []
    extra: list[dict[str, float]] = []
    more: tuple[float, ...] = ()
    longest = 0.0
    while len(rounds) < lab.plan.rounds:
        start = time.monotonic()
        if len(rounds) >= LEAST_ROUNDS and start + longest > until:
            break
        variants: list[tuple[str, float]] = [("busy", 1 - s) for s in (*_forecast.SPEEDUPS[:-1], *more)]
        variants += [("flat", 0.0), ("idle", 1.0), ("original", 1.0), ("off", 1.0)]
        random.shuffle(variants)
        factors: dict[float, float] = {}
        others: dict[str, float] = {}
        for mode, factor in variants:
            wall = float(lab.run(mode, factor).wall_ns)
            if mode in ("busy", "flat"):
                factors[round(1 - factor, 4)] = wall
            else:
                others[mode] = wall
        rounds.append(factors)
        extra.append(others)
        longest = max(longest, time.monotonic() - start)
        if len(rounds) >= LEAST_ROUNDS:
            more = _forecast.refinements(rounds, [one["off"] for one in extra])
        progress(f"round {len(rounds)}")
    return rounds, extra


def _suspicion(lab: _Lab, times: list[tuple[int, int]]) -> str:
    """Step 2: a delay in front of each call; does the system's time grow with it at once?"""
    mean = max(1000, int(np.mean([busy for busy, _ in times])))
    factors = (0.0, 0.25, 0.5, 1.0)
    walls = [min(lab.run("delay", 1.0, int(mean * f)).wall_ns for _ in range(3)) for f in factors]
    added = mean * len(times)
    ratio = (walls[1] - walls[0]) / (0.25 * added)
    whole = (walls[-1] - walls[0]) / added
    if ratio > 0.5:
        return "a delay in front of it lengthens the run at once: it is a bottleneck"
    if whole > 0.25:
        return "a small delay in front of it costs nothing, a larger one does: it is near a bottleneck"
    return "a delay in front of it costs nothing: it is no bottleneck yet"


def _conclude(
    lab: _Lab,
    times: list[tuple[int, int]],
    rounds: list[dict[float, float]],
    extra: list[dict[str, float]],
    system: dict[str, float],
    suspicion: str | None,
    seconds: float,
) -> StudyResult:
    original = [one["original"] for one in extra]
    base = _location(original)
    busy = sum(one for one, _ in times)
    blocked = sum(one for _, one in times)
    unchanged = [one["off"] for one in extra]
    # Against the original with the same start: what the laboratory itself loads is the same in every variant.
    found = _forecast.forecast(rounds, baseline=unchanged, name=lab.plan.component)
    simulated = _location([one[0.0] for one in rounds])
    flat = _location([one[1.0] for one in rounds])
    idle = _location([one["idle"] for one in extra])
    scatter = float(np.median(np.abs(np.array(original) - np.median(original)))) / base
    steps = _steps(busy, base, simulated, flat, idle, suspicion)
    warnings = list(found.warnings)
    if scatter > 0.05:
        warnings.append(f"the runs scatter by {scatter:.0%} (median deviation): not steady")
    if scatter > 0.5:
        raise NotTrustworthyError(
            f"the original's runs scatter by {scatter:.0%}", remedy="quiet the machine; see 'latlab jitter'"
        )
    share = _location(unchanged) / base  # gains are of the original's time, without the laboratory's start
    curve = tuple(
        replace(
            point,
            gain=point.gain * share,
            interval=(point.interval[0] * share, point.interval[1] * share),
            value=base * (1 - point.gain * share),
        )
        for point in found.curve
    )
    least = [base * (1 - gain) for gain in curve[-1].interval]
    return StudyResult(
        component=lab.plan.component,
        component_class=found.component_class,
        t_cus_ns=busy,
        t_cus_blocked_ns=blocked,
        t_sut_ns=round(base),
        t_limit=found.t_limit,
        t_limit_interval=found.t_limit_interval,
        t_min_sut_ns=round(curve[-1].value),
        t_min_interval_ns=(round(least[1]), round(least[0])),
        drift=found.drift,
        calls=len(times),
        pays=found.pays * base / busy if busy else 0.0,
        curve=curve,
        sentence=found.sentence,
        steps=tuple(steps),
        system=system,
        validated=False,
        warnings=tuple(warnings),
        seconds=seconds,
    )


def _location(values: Sequence[float]) -> float:
    """The mean of the faster half: a run is only ever disturbed to be longer."""
    ordered = sorted(values)
    return float(np.mean(ordered[: max(1, (len(ordered) + 1) // 2)]))


def _steps(
    busy: int, base: float, simulated: float, flat: float, idle: float, suspicion: str | None
) -> list[str]:
    """What each step of the method says, in words; differences below 2 % of the system's time are none."""
    small = 0.02 * base
    reduced = simulated - flat
    steps = [f"the component is busy for {busy / 1e6:.3f} ms of the system's {base / 1e6:.3f} ms"]
    if suspicion is not None:
        steps.append(suspicion)
    if abs(reduced - busy) <= max(small, 0.05 * busy):
        steps.append("without its work the system is faster by all of it: nothing runs beside it")
    elif reduced < busy:
        steps.append(
            f"without its work ({busy / 1e6:.3f} ms) the system is faster by {reduced / 1e6:.3f} ms: it runs "
            "beside other parts, or they wait for something else"
        )
    else:
        steps.append(
            f"ANOMALY: without its work ({busy / 1e6:.3f} ms) the system is faster by "
            f"{reduced / 1e6:.3f} ms, more than the component takes: it also disturbs others (caches, locks)"
        )
    if idle < simulated - small:
        steps.append("when it leaves the CPU others use it: another CPU, or less work in it, helps")
    elif idle > simulated + small:
        steps.append("ANOMALY: the system is slower when the component sleeps instead of working")
    else:
        steps.append("when it leaves the CPU nobody uses it: another CPU buys nothing")
    return steps


def _save(lab: _Lab, result: StudyResult, output: str | Path, command: Sequence[str]) -> None:
    from latlab.formats.recording import RecordingWriter
    from latlab.system import environment

    parameters = {"component": lab.plan.component, "kind": lab.plan.kind, "command": list(command)}
    with RecordingWriter(
        Path(output), "stubs-study", parameters=parameters, environment=environment.capture(),
        seed=lab.plan.seed, command=sys.argv,
    ) as writer:  # fmt: skip
        writer.append(
            "runs",
            {
                "factor": np.array([run.factor for run in lab.runs]),
                "wall_ns": np.array([run.wall_ns for run in lab.runs]),
                "user_ns": np.array([run.user_ns for run in lab.runs]),
                "system_ns": np.array([run.system_ns for run in lab.runs]),
                "variant": np.array([_plan.MODES.index(r.variant) if r.variant != "original" else -1
                                     for r in lab.runs]),
            },
        )  # fmt: skip
        writer.put("study", result.as_json())
