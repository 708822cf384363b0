"""`latlab queues verify`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from latlab.cli.kit.options import JSON
from latlab.cli.queues._exclude import tell_unknown
from latlab.errors import ExitCode, InputError, UsageError
from latlab.reports.json import dumps
from latlab.words import duration, share

if TYPE_CHECKING:
    from latlab.queues.trace.verify import Verification


@click.command("verify")
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--traces", type=click.Path(path_type=Path), help="Text: a line 'push,pop' for each event.")
@click.option("--samples", type=click.Path(path_type=Path), help="Text: blocks of 'key = value' lines.")
@click.option(
    "--queue", "queue_id", type=int, help="Queue (queueId) of the samples that the traces belong to."
)
@click.option("--exclude", multiple=True, metavar="QUEUE", help="Leave this queue of RUN out; repeatable.")
@click.option(
    "--control-events", type=click.IntRange(min=0), default=0, show_default=False,
    help="Events that are counted but never traced: subtracted in the sums.",
)  # fmt: skip
@JSON
def verify_(
    run: Path | None,
    traces: Path | None,
    samples: Path | None,
    queue_id: int | None,
    exclude: tuple[str, ...],
    control_events: int,
    as_json: bool,
) -> None:
    """Check samples against event traces: those of RUN, or of two text files.

    The text output is the traditional one: for each traced event that a sample missed its push and its
    'pop = duration', then 'T sampled traced' of that sample; and a summary line.
    """
    from latlab.queues.trace.verify import verify_recording

    if run is not None and (traces is not None or samples is not None):
        raise UsageError("give a recording, or --traces and --samples, not both")
    if run is not None:
        from latlab.formats.recording import open_recording
        from latlab.queues import load

        recording = open_recording(run)
        if "traces" not in recording.names():
            raise InputError(run, "holds no event traces", remedy="trace events while they are recorded")
        table = recording.series("traces")
        columns = {name: table[name] for name in ("queue", "push_ns", "pop_ns")}
        every = 0
        if "traces-summary" in recording.documents():
            summary = recording.document("traces-summary")
            # Where records found no room, a sample may well show more events than are traced.
            every = 0 if summary.get("lost") else int(summary.get("every", 0))
        seen = load(run, exclude=exclude)
        tell_unknown([seen], exclude)
        result = verify_recording(seen, columns, every=every, control_events=control_events)
    elif traces is not None and samples is not None:
        result = _verify_texts(traces, samples, queue_id, control_events)
    else:
        raise UsageError("nothing to verify", remedy="give a recording, or both --traces and --samples")
    if as_json:
        print(dumps(result.to_json(), indent=2))
    else:
        for found in result.found:
            for push, pop in found.events:
                print(push)
                print(f"{pop} = {pop - push}")
            low, high = found.sampled
            sampled = str(low) if low == high else f"{low}..{high}"
            print(f"{found.t_ns} {sampled} {found.traced}{f' {found.queue}' if found.queue else ''}")
        mean, discrepant = result.mean_residence_ns, result.mean_residence_of_discrepant_ns
        low, high = result.sum_sampled
        sums = str(low) if low == high else f"{low}..{high}"
        print(
            f"{result.traces} traces, {result.samples} samples, {result.discrepancies} discrepancies "
            f"({share(result.rate, digits=4)}), {result.ties} ties; sums: sampled {sums}, "
            f"traced {result.sum_traced}; mean residence {duration(mean)}, of discrepant events "
            f"{duration(discrepant)}"
        )
    if not result.traces or not result.samples:
        what = "samples" if result.traces else "traces"
        click.echo(f"latlab: there are no {what}, so nothing was checked", err=True)
        sys.exit(ExitCode.NOT_TRUSTWORTHY)


def _verify_texts(traces: Path, samples: Path, queue_id: int | None, control_events: int) -> Verification:
    import numpy as np

    from latlab.formats.event_traces.texts import read_pairs, read_sample_blocks
    from latlab.queues.trace.verify import QueueSamples, verify

    push, pop = read_pairs(traces)
    blocks = read_sample_blocks(samples)
    ids = [int(i) for i in np.unique(blocks["queueId"])]
    if queue_id is None and len(ids) > 1:
        raise UsageError(
            f"{samples} has samples of several queues ({', '.join(map(str, ids))})",
            remedy="name one with --queue",
        )
    mine = np.ones(len(blocks["queueId"]), bool) if queue_id is None else blocks["queueId"] == queue_id
    if queue_id is not None and queue_id not in ids:
        raise UsageError(f"{samples} has no samples of queue {queue_id}", remedy=f"there are: {ids}")
    order = np.argsort(blocks["timestamp"][mine], kind="stable")
    at, came, went = (blocks[key][mine][order] for key in ("timestamp", "inCount", "outCount"))
    fill = came - went
    counted = int(came.max()) if len(came) else 0
    return verify(push, pop, QueueSamples(at, at, fill, fill, counted), control_events=control_events)
