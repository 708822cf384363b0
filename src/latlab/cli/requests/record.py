"""`latlab requests record`, `latlab requests show` and `latlab requests compare`."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from latlab.cli.kit.options import JSON, Seconds, Share, output
from latlab.cli.kit.progress import clock, say
from latlab.errors import ExitCode, InputError, UsageError

if TYPE_CHECKING:
    from latlab.formats.recording import Recording
    from latlab.model.requests import Requests

KIND = "requests"
_DOCUMENT = "requests"
_NAMES = "names"  # of the kinds and connections that the series' numbers stand for


@contextlib.contextmanager
def _told_to_end(of_process: bool) -> Iterator[threading.Event]:
    """The first Ctrl-C ends the observation of a process, and what was seen is told; the next ends all."""
    told = threading.Event()
    if not of_process:  # a command is ended with latlab
        yield told
        return

    def end(number: int, frame: FrameType | None) -> None:
        if told.is_set():
            signal.default_int_handler(number, frame)
        told.set()

    before = signal.signal(signal.SIGINT, end)
    try:
        yield told
    finally:
        signal.signal(signal.SIGINT, before)


@click.command(context_settings={"ignore_unknown_options": False})
@click.option(
    "--pid",
    "pids",
    type=click.IntRange(1),
    multiple=True,
    help="Process id of a running server; its children are included.",
)
@click.option("--seconds", type=Seconds(), default=10.0, help="Time to observe; a command ends with it.")
@output("Folder for the recording.", name="folder")
@JSON
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def record(
    pids: tuple[int, ...], seconds: float, folder: Path | None, as_json: bool, command: tuple[str, ...]
) -> ExitCode:
    """Observe a server's requests: of a running one (--pid), or of COMMAND after `--`."""
    from latlab.formats.recording import RecordingWriter
    from latlab.requests import record as observe
    from latlab.system.environment import capture

    if bool(pids) == bool(command):
        raise UsageError("give either --pid or a command", remedy="such as --pid 4711, or -- redis-server")
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", remedy="give another folder with -o")
    with clock("recording", seconds), _told_to_end(bool(pids)) as told:
        found, result = observe(pids, command, seconds, stop=told.is_set, forecast=True)
    if folder is not None:
        asked = {"pids": list(pids), "command": list(command), "seconds": seconds}
        writer = RecordingWriter(folder, KIND, parameters=asked, environment=capture(), command=sys.argv)
        with writer:
            if len(found.rows):
                writer.append(
                    "requests", {name: found.rows[name].copy() for name in found.rows.dtype.names or ()}
                )
            writer.put(_NAMES, {"schema": 1, "kinds": found.kinds, "connections": found.connections})
            writer.put(_DOCUMENT, result.to_json())
        say(f"latlab requests: recorded in {folder}")
    return _tell(result, as_json)


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--html", type=click.Path(path_type=Path), help="Write a self-contained page.")
@click.option("--perfetto", type=click.Path(path_type=Path), help="Write the slowest for ui.perfetto.dev.")
@click.option(
    "--hlog", type=click.Path(path_type=Path), help="Write an HdrHistogram log, an interval a second."
)
@JSON
def show(run: Path, html: Path | None, perfetto: Path | None, hlog: Path | None, as_json: bool) -> ExitCode:
    """Print the requests that were recorded in RUN."""
    recording = _opened(run)
    result = _read(recording.document(_DOCUMENT))
    if html is not None:
        from latlab.reports.requests.html import report

        report(result, recording.environment, recording.command).write(html)
        say(f"latlab requests: wrote {html}")
    if perfetto is not None:
        from latlab.formats.documents import write_text
        from latlab.reports.requests.perfetto import trace

        write_text(perfetto, trace(result))
        say(f"latlab requests: wrote {perfetto}")
    if hlog is not None:
        _write_log(recording, result, hlog)
        say(f"latlab requests: wrote {hlog}")
    return _tell(result, as_json)


@click.command()
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--effect", type=Share(), default=0.05, show_default="5%", help="Smallest change that matters.")
@JSON
def compare(runs: tuple[Path, ...], effect: float, as_json: bool) -> ExitCode:
    """Judge recordings after a change against those before it.

    RUNS come in pairs: before, after, before, after, best recorded in turn. One pair shows a change; a
    verdict takes several, since recordings of one server differ: each is given once.
    """
    from latlab.reports.json import dumps
    from latlab.reports.requests.text import comparison_lines
    from latlab.requests import compare as judge

    if len(runs) % 2:
        raise UsageError("recordings come in pairs", remedy="give before, after, before, after …")
    read = [_read(_opened(run).document(_DOCUMENT)) for run in runs]
    for at, run in enumerate(runs):
        # Also a copy elsewhere: no two recordings are alike in all they saw.
        if read[at] in read[:at]:
            raise UsageError(
                f"{run} is the same recording as {runs[read.index(read[at])]}: it counts once",
                remedy="record before and after again for each pair",
            )
    for run, one in zip(runs, read, strict=True):
        if not one.requests:
            raise InputError(run, "has no requests", remedy="record while the server is loaded")
    result = judge(list(zip(read[::2], read[1::2], strict=True)), effect)
    click.echo(dumps(result.to_json(), indent=2) if as_json else "\n".join(comparison_lines(result)))
    return ExitCode.REGRESSION if result.verdict in ("slower", "mixed") else ExitCode.OK


def _write_log(recording: Recording, result: Requests, path: Path) -> None:
    from datetime import datetime

    from latlab.requests import write_log

    if _NAMES not in recording.documents() or "requests" not in recording.names():
        raise InputError(recording.path, "has no requests for a log", remedy="record again, under load")
    table = recording.series("requests")
    columns = {name: table[name] for name in ("arrived", "sent", "kind")}
    seen = (result.began_ns, result.began_ns + round(result.seconds * 1e9))
    ended_s = datetime.fromisoformat(recording.started_at).timestamp()  # it is written when all is over
    names = [str(one) for one in recording.document(_NAMES)["kinds"]]
    write_log(path, columns, names, seen, ended_s - result.seconds)


def _opened(run: Path) -> Recording:
    from latlab.formats.recording import open_recording

    recording = open_recording(run)
    if recording.kind != KIND or _DOCUMENT not in recording.documents():
        raise InputError(
            run, "isn't a recording of requests", remedy="make one with latlab requests record -o RUN"
        )
    return recording


def _tell(result: Requests, as_json: bool) -> ExitCode:
    from latlab.reports.json import dumps
    from latlab.reports.requests.text import requests_lines

    click.echo(dumps(result.to_json(), indent=2) if as_json else "\n".join(requests_lines(result)))
    for reason in result.distrust:
        click.echo(f"latlab requests: not trustworthy: {reason}", err=True)
    return ExitCode.NOT_TRUSTWORTHY if result.distrust else ExitCode.OK


def _read(document: dict[str, Any]) -> Requests:
    from latlab.model import requests as of

    def slow(one: dict[str, Any]) -> of.SlowRequest:
        spans = tuple(of.RequestSpan(**span) for span in one.get("timeline", ()))
        wakes = tuple(of.RequestWake(**wake) for wake in one.get("wakes", ()))
        return of.SlowRequest(**{**one, "parts": parts(one["parts"]), "timeline": spans, "wakes": wakes})

    def parts(key: list[dict[str, Any]]) -> tuple[of.RequestPart, ...]:
        return tuple(of.RequestPart(**one) for one in key)

    given = {key: value for key, value in document.items() if key not in ("schema", "trustworthy")}
    given["kinds"] = tuple(
        of.RequestKind(**{**one, "at_least": tuple(one.get("at_least", ()))}) for one in given["kinds"]
    )
    given["parts"], given["median_parts"] = parts(given["parts"]), parts(given["median_parts"])
    given["slowest"] = tuple(slow(one) for one in given["slowest"])
    for key in ("distrust", "at_least"):
        given[key] = tuple(given.get(key, ()))
    given["over_time"] = tuple(of.TimeSlice(**one) for one in given.get("over_time", ()))
    given["forecasts"] = tuple(
        of.RequestForecast(
            **{**one, "quantiles": tuple(of.QuantileForecast(**each) for each in one["quantiles"])}
        )
        for one in given.get("forecasts", ())
    )
    if "answer" in given:
        said = tuple((kind, share) for kind, share in given["answer"]["candidates"])
        common = tuple(of.CommonTrait(**one) for one in given["answer"].get("common", ()))
        own = parts(given["answer"].get("parts", []))
        given["answer"] = of.TailAnswer(
            **{**given["answer"], "candidates": said, "common": common, "parts": own}
        )
    return of.Requests(**given)
