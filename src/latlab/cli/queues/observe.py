"""`latlab queues list` and `latlab queues record`."""

from __future__ import annotations

import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from latlab.cli.kit.offered import APPLICATIONS
from latlab.cli.kit.options import ALL_USERS, CPUS, DURATION_NS, JSON, Seconds, Share, renamed
from latlab.cli.kit.progress import clock, say
from latlab.cli.queues._flight import fly
from latlab.errors import ExitCode, InputError, UsageError
from latlab.reports.json import dumps
from latlab.words import duration

if TYPE_CHECKING:
    from latlab.formats.recording import RecordingWriter
    from latlab.queues import Detector


def targets(texts: tuple[str, ...]) -> list[int | str]:
    """Process ids are numbers, all else are names."""
    return [int(text) if text.isdecimal() else text for text in texts]


@click.command("list")
@JSON
@ALL_USERS
@click.option("--remove-dead", is_flag=True, help="Remove the files that dead processes left.")
def list_(as_json: bool, remove_dead: bool) -> None:
    """List applications that publish counters, live or dead."""
    from latlab.queues import applications, refused_folder

    found = applications()
    if remove_dead:
        dead = [application for application in found if application.state in ("dead", "other boot")]
        for application in dead:
            Path(application.path).unlink(missing_ok=True)
        click.echo(f"removed the counter files of {len(dead)} dead processes, listed here", err=True)
    if as_json:
        print(dumps({"schema": 1, "applications": [a.to_json() for a in found]}, indent=2))
        return
    if not found:
        click.echo(refused_folder() or "no application publishes counters", err=True)
        return
    print(f"{'PID':>8}  {'APPLICATION':20}  {'STATE':10}  {'PHASE':9}  {'QUEUES':>6}  {'STAGES':>6}")
    for a in found:
        state = "live" if a.live else a.state
        print(f"{a.pid:>8}  {a.application:20}  {state:10}  {a.phase:9}  {a.queues:>6}  {a.stages:>6}")


@click.command("record")
@click.argument("target", nargs=-1, required=True, shell_complete=APPLICATIONS)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The recording's folder."
)
@click.option("--period", type=DURATION_NS, default="100us", help="Time between two sweeps.")
@click.option("--seconds", type=Seconds(), help="Stop after this time.")
@click.option(
    "--flight", type=DURATION_NS, help="Keep only this much time in memory; write it when something happens."
)
@click.option("--on", "causes", multiple=True, type=click.Choice(("drop", "full", "latency")),
              help="With --flight: what triggers a recording [default: any of them].")  # fmt: skip
@click.option(
    "--objective", type=DURATION_NS, help="With --flight: longest time that an event may wait in a queue."
)
@click.option("--after", type=DURATION_NS, default="1s", help="With --flight: time recorded after the event.")
@click.option("--times", type=click.IntRange(min=1), default=1,
              help="With --flight: end after this number of recordings.")  # fmt: skip
@click.option("--exclude", multiple=True, metavar="QUEUE", help="With --flight: never trigger on this queue.")
@ALL_USERS
@click.option("--scheduler", is_flag=True,
              help="Record the threads' scheduler events, too, for 'latlab queues tail'.")  # fmt: skip
@click.option("--traces", "trace_paths", multiple=True, type=click.Path(path_type=Path),
              help="Folder of the event traces that the application writes; repeatable.")  # fmt: skip
@renamed(
    "--cpu-share",
    "--budget",
    "budget",
    type=Share(),
    help="Largest share of one CPU for the sampler; beyond it queues are sampled less often.",
)
@click.option("--cpus", type=CPUS, help="Pin the sampler, which is one thread, to this CPU.")
@click.option(
    "--queue", "addressed", multiple=True, metavar="'NAME in=PLACE out=PLACE …'",
    help="A queue of a program that publishes nothing, by the address of its indices; repeatable. PLACE is "
    "SYMBOL+OFFSET, *POINTER+OFFSET, LIBRARY.so:SYMBOL or 0xADDRESS; more: bytes=4, modulus=N, capacity=N, "
    "source=S, drain=S.",
)  # fmt: skip
@click.option("--priority", type=click.IntRange(1, 99), help="SCHED_FIFO priority of the sampler.")
@JSON
def record_(
    target: tuple[str, ...],
    output: Path,
    period: int,
    seconds: float | None,
    flight: int | None,
    causes: tuple[str, ...],
    objective: int | None,
    after: int,
    times: int,
    exclude: tuple[str, ...],
    scheduler: bool,
    trace_paths: tuple[Path, ...],
    budget: float | None,
    cpus: tuple[int, ...] | None,
    addressed: tuple[str, ...],
    priority: int | None,
    as_json: bool,
) -> None:
    """Record the queues of TARGET (process ids or application names) from outside.

    It ends after --seconds, at an interrupt, or when every process that it follows has ended.
    """
    from latlab.formats.recording import RecordingWriter
    from latlab.queues import Recorder, parse_remote_queue, readers_by_address
    from latlab.system.environment import capture

    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    if len(cpus or ()) > 1:
        raise UsageError("--cpus: the sampler is one thread", remedy="name one CPU")
    cpu = cpus[0] if cpus else None
    names = targets(target)
    parameters = {"targets": names, "period_ns": period, "budget": budget, "cpu": cpu, "priority": priority}
    readers = []
    if addressed:
        if len(names) != 1 or not isinstance(names[0], int):
            raise UsageError("--queue needs one process id as TARGET")
        readers = [readers_by_address(names[0], [parse_remote_queue(text) for text in addressed])]
        parameters["queues"] = list(addressed)
    recorder = Recorder(
        names,
        readers=readers,
        period_ns=period,
        longest_skip=0 if budget is None else 31,
        budget=budget,
        scheduler=scheduler,
        cpu=-1 if cpu is None else cpu,
        priority=priority or 0,
    )
    if scheduler and recorder.scheduler_missing:
        click.echo(f"latlab: {recorder.scheduler_missing}", err=True)
    recorder.look()
    for missing in recorder.unmatched:
        click.echo(f"latlab: nothing matches {missing} yet; it is followed when it starts", err=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    if flight is not None:
        parameters["flight_ns"] = flight
        detector = _detector(causes, objective, exclude)
        sys.exit(
            fly(
                recorder,
                detector,
                output,
                parameters,
                keep_seconds=flight / 1e9,
                after_seconds=after / 1e9,
                times=times,
                seconds=seconds,
                stop=stop,
                as_json=as_json,
                take_traces=partial(_take_traces, trace_paths, of_window=True),
            )
        )
    with RecordingWriter(output, "queues", parameters=parameters, environment=capture()) as writer:
        recorder.sink = writer
        with recorder, clock("recording", seconds):
            until = None if seconds is None else time.monotonic() + seconds
            say(f"recording {', '.join(target)} into {output}")
            step = 0.05 if budget is None else 0.25
            while not stop.wait(step if until is None else max(0.0, min(step, until - time.monotonic()))):
                over = until is not None and time.monotonic() >= until
                if over or recorder.failed or not recorder.anyone_alive:
                    break
        trouble = _take_traces(trace_paths, output, writer)
    for name, count in recorder.socket_drops.items():
        click.echo(f"latlab: {name}: the kernel dropped {count} datagrams, which no queue saw", err=True)
    if trouble:
        click.echo(f"latlab: {trouble}", err=True)
    said = {**recorder.statistics, "socket_drops": recorder.socket_drops}
    sys.exit(_tell(said, recorder.achieved, period, output, as_json))


def _take_traces(
    paths: tuple[Path, ...], output: Path, writer: RecordingWriter, *, of_window: bool = False
) -> str:
    """Write the traces into the recording; where that can't be, why: what was sampled is kept.

    Args:
        of_window: only of events that were under way within the recording.
    """
    from latlab.formats.recording import open_recording
    from latlab.queues import keep_traces, load

    if not paths:
        return ""
    try:
        seen = load(output)
        since = int(seen.sweeps["t_ns"][0]) if of_window and len(seen.sweeps["t_ns"]) else 0
        keep_traces(paths, seen, open_recording(output).document("clock"), writer, since_ns=since)
    except InputError as error:
        return f"no traces were taken over: {error}"
    return ""


def _detector(causes: tuple[str, ...], objective: int | None, exclude: tuple[str, ...]) -> Detector:
    from latlab.queues import Detector

    if "latency" in causes and objective is None:
        raise UsageError("--on latency needs --objective", remedy="such as --objective 5ms")
    wanted = causes or ("drop", "full", "latency")
    return Detector(wanted, objective_ns=objective or 0, exclude=exclude)


def _tell(
    statistics: dict[str, Any], achieved: dict[str, float], period: int, output: Path, as_json: bool
) -> ExitCode:
    if as_json:
        document = {"schema": 1, "recording": str(output), "period_ns": period, **achieved, **statistics}
        print(dumps(document, indent=2))
    else:
        p50, p99 = duration(achieved["period_p50_ns"]), duration(achieved["period_p99_ns"])
        print(f"{statistics['sweeps']} sweeps, {statistics['samples']} samples")
        print(f"period {duration(period)} asked, p50 {p50}, p99 {p99}")
        print(f"timer slack {duration(statistics['timer_slack_ns'])}")
        print(f"{statistics['missed_periods']} periods missed, {statistics['lost_periods']} without room")
    if statistics["trouble"]:
        click.echo(f"latlab: {statistics['trouble']}", err=True)
    if statistics["lost_periods"]:
        click.echo("latlab: the recorder could not write fast enough; use a longer --period", err=True)
        return ExitCode.NOT_TRUSTWORTHY
    return ExitCode.OK
