"""The flight recorder of `latlab queues record --flight`."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latlab.cli.kit.progress import say
from latlab.errors import ExitCode
from latlab.reports.json import dumps
from latlab.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from latlab.formats.recording import RecordingWriter
    from latlab.queues import Detector, Recorder


def fly(
    recorder: Recorder,
    detector: Detector,
    output: Path,
    parameters: dict[str, Any],
    *,
    keep_seconds: float,
    after_seconds: float,
    times: int,
    seconds: float | None,
    stop: threading.Event,
    as_json: bool,
    take_traces: Callable[[Path, RecordingWriter], str],
) -> ExitCode:
    """Keep the last seconds, and write them each time that something happens.

    It ends after `times` recordings or `seconds`, at `stop`, or with the application.

    Args:
        take_traces: adds the event traces to what was written, or says why it can't.
    """
    from latlab.formats.recording import RecordingWriter
    from latlab.queues import Flight
    from latlab.system.environment import capture

    flight = Flight(keep_seconds, detector, lambda: recorder.queues, after_seconds=after_seconds)
    recorder.sink = flight
    environment = capture()
    written = 0
    with recorder:
        until = None if seconds is None else time.monotonic() + seconds
        say(f"keeping the last {duration(1e9 * keep_seconds)} until something happens")
        while written < times:
            over = stop.wait(0.05) or recorder.failed or not recorder.anyone_alive
            over = over or (until is not None and time.monotonic() >= until)
            trigger = flight.trigger
            if trigger is not None and (over or flight.ready.is_set()):
                written += 1
                path = output if written == 1 else output.with_name(f"{output.name}-{written}")
                with RecordingWriter(path, "queues", parameters=parameters, environment=environment) as to:
                    flight.write_to(to)
                    trouble = take_traces(path, to)
                if trouble:
                    click.echo(f"latlab: {trouble}", err=True)
                if as_json:
                    said = {"schema": 1, "recording": str(path), "cause": trigger.cause}
                    print(dumps({**said, "queue": trigger.name, "value": trigger.value}), flush=True)
                else:
                    print(f"{trigger}: {path}", flush=True)
                flight.arm()
            if over:
                break
    if not written:
        click.echo("latlab: nothing happened, so nothing was written", err=True)
    return ExitCode.OK
