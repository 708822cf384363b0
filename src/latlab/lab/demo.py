"""The demonstration: a trading pipeline on market data, observed from outside and diagnosed."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from latlab.errors import InputError, LatlabError
from latlab.formats.recording import RecordingWriter, open_recording
from latlab.lab._diagnosis import diagnose
from latlab.lab._feeds import generated_feeds, given_feeds
from latlab.lab._plan import RunSettings, plan_text
from latlab.lab._processes import Outcome, PipelineProcesses
from latlab.lab._residence import Residence, residence
from latlab.lab._traces import keep_traces
from latlab.model.diagnosis import Diagnosis
from latlab.model.layout import STAGES, Layout
from latlab.model.queues import Observation
from latlab.queues import Recorder, analyse, load
from latlab.system.environment import capture

__all__ = ["DemoOptions", "DemoRun", "run_demo"]

KIND = "queues"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """One run of the demonstration.

    Attributes:
        layout: of the pipeline.
        seconds: for which the feeds are played.
        output: the folder of the recording; it must not hold anything yet.
        input: an ITCH-5.0 file; None: generated feeds.
        seed: of the generated feeds.
        symbols: of the generated feeds.
    """

    layout: Layout
    seconds: float
    output: Path
    input: Path | None = None
    seed: int = 1
    symbols: int = 200


@dataclass(frozen=True, slots=True)
class DemoRun:
    """All that a run gave."""

    options: DemoOptions
    observation: Observation
    residence: Residence
    diagnosis: Diagnosis
    outcomes: tuple[Outcome, ...]
    feeds: Mapping[str, Any] = field(default_factory=dict)


def run_demo(options: DemoOptions, tell: Callable[[str], None]) -> DemoRun:
    """Run, observe, diagnose. Each step's result is saved before the next one begins.

    Args:
        tell: takes a line on each step as it begins.

    Raises:
        InputError: an input that is no ITCH-5.0 file; an output that can't be written.
        LatlabError: the pipeline could not be started.
    """
    layout = options.layout
    with tempfile.TemporaryDirectory(prefix="latlab-demo-") as temporary:
        folder = Path(temporary)
        if options.input is not None:
            tell(f"reading {options.input}")
            feeds = given_feeds(options.input, folder)
        else:
            tell(f"generating two venues' feeds (seed {options.seed}, {options.symbols} symbols)")
            feeds = generated_feeds(
                layout, folder, seconds=options.seconds, seed=options.seed, symbols=options.symbols
            )
        # Shared memory, for the queue between the processes and the traces: a disk would stall the writers.
        with tempfile.TemporaryDirectory(prefix="latlab-demo-", dir=_shared_memory()) as shared:
            link, traces = Path(shared) / "link", Path(shared) / "traces"
            plan = folder / "plan"
            plan.write_text(plan_text(layout, RunSettings(feeds, options.seconds, link, traces)))
            parameters = {
                "layout": asdict(layout),
                "period_ns": layout.period_ns,
                "symbols": options.symbols,
                "seconds": options.seconds,
                "input": str(options.input or ""),
            }
            writer = RecordingWriter(
                options.output, KIND, parameters=parameters, environment=capture(), seed=options.seed
            )
            with writer:
                before = _busy_s()
                outcomes = _play(options, plan, writer, tell)
                busy_s = _busy_s() - before
                writer.put("pipeline", {"schema": 1, "outcomes": [asdict(outcome) for outcome in outcomes]})
                observation = load(options.output)
                table = keep_traces(traces, observation, layout, writer)
                stages = {stage: layout.instances(stage) for stage in STAGES}
                times = residence(table, stages)
                tell("diagnosing")
                found = diagnose(
                    observation,
                    analyse(observation),
                    times,
                    table,
                    stages,
                    outcomes,
                    open_recording(writer.path).document("sampler"),
                    len(os.sched_getaffinity(0)),
                    busy_s,
                )
                writer.put("diagnosis", found.to_json())
    return DemoRun(options, observation, times, found, outcomes)


def _busy_s() -> float:
    """CPU time that everything but this process has used on this machine, with what the hypervisor stole."""
    import psutil

    times = psutil.cpu_times()
    return (
        float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice) - time.process_time()
    )


def _shared_memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _play(
    options: DemoOptions, plan: Path, writer: RecordingWriter, tell: Callable[[str], None]
) -> tuple[Outcome, ...]:
    with ExitStack() as stack:
        try:
            processes = stack.enter_context(PipelineProcesses(plan))
        except LatlabError as error:
            raise _in_the_users_words(error, options) from None
        tell(f"observing the pipeline from outside for {options.seconds:g} s")
        pids = list(processes.pids.values())
        with Recorder(
            pids,
            writer,
            period_ns=options.layout.period_ns,
            stage_period_ns=10_000_000,
            thread_period_ns=50_000_000,
        ) as recorder:
            processes.go()
            give_up = time.monotonic() + options.seconds + 30
            try:
                while processes.running():
                    time.sleep(0.02)
                    if processes.execution_died() or recorder.failed or time.monotonic() > give_up:
                        processes.stop()
                        break
            except KeyboardInterrupt:
                # What was measured so far is diagnosed: stop the feeds, and go on as at the end.
                tell("interrupted: diagnosing what was observed so far")
                processes.stop()
            outcomes = processes.outcomes()
            # The counts of a process that has ended are still mapped: the sampler looks at the last ones.
            time.sleep(max(0.05, 5e-9 * options.layout.period_ns))
            return outcomes


def _in_the_users_words(error: LatlabError, options: DemoOptions) -> LatlabError:
    """The program speaks of the file that it maps; the user gave another, or none."""
    if options.input is None:
        return error
    text = error.what
    for mapped in (str(options.input), "input.itch"):
        at = text.find(mapped)
        if at >= 0:
            place, _, what = text[at + len(mapped) :].removeprefix(": ").rpartition(": ")
            remedy = "give an ITCH-5.0 file in BinaryFILE framing, plain or .gz"
            return InputError(options.input, what, place=place or None, remedy=remedy)
    return error
