"""One run of the trading pipeline: played, observed from outside into a recording, and diagnosed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from latlab import words
from latlab.formats.recording import RecordingWriter
from latlab.lab.judge.foreign_load import Others
from latlab.lab.judge.outcome import Outcome
from latlab.lab.judge.verdict import overloaded
from latlab.lab.judge.watched import Watched, watched
from latlab.lab.trading.plan import RunSettings, plan_text
from latlab.lab.trading.processes import PipelineProcesses
from latlab.lab.trading.traces import trace_files
from latlab.model.diagnosis.layout import STAGES, Layout
from latlab.model.machine.environment import Environment
from latlab.queues import Recorder, load
from latlab.system.scratch import scratch

__all__ = ["KIND", "PipelineRun", "run_pipeline"]

KIND = "queues"


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """All that a run of the pipeline gave.

    Attributes:
        disturbed: who took so much of the machine that the run must not be believed, in words; None where
            nobody did.
        unseen: that was none of the processes that can be seen.
        taken: the share of the machine that processes that can be seen and the hypervisor took.
    """

    watched: Watched
    outcomes: tuple[Outcome, ...]
    disturbed: str | None = None
    unseen: bool = False
    taken: float = 0.0


def run_pipeline(
    layout: Layout,
    feeds: Sequence[Path],
    output: Path,
    *,
    seconds: float,
    environment: Environment,
    seed: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    scheduler: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> PipelineRun:
    """Play the feeds into the pipeline, observe it, diagnose it. Each step's result is saved before the next.

    Args:
        feeds: one ITCH-5.0 file a venue, as `latlab.lab.trading.feeds` lays them out.
        output: the folder of the recording; it must not hold anything yet.
        environment: that the recording states.
        parameters: what the recording states beside the layout.
        scheduler: record what the kernel's scheduler does to the pipeline's threads, too.
        tell: takes a line on each step as it begins.

    Raises:
        LatlabError: the pipeline could not be started; an output that can't be written.
    """
    # Shared memory, for the queue between the processes and the traces: a disk would stall the writers.
    with scratch("run", shared=True) as folder:
        traces, plan = folder / "traces", folder / "plan"
        cpus = sorted(os.sched_getaffinity(0))
        settings = RunSettings(feeds, seconds, folder / "link", traces, cpus=cpus if layout.pinned else ())
        plan.write_text(plan_text(layout, settings))
        stated = {
            "layout": asdict(layout),
            "period_ns": layout.period_ns,
            "seconds": seconds,
            **(parameters or {}),
        }
        with RecordingWriter(output, KIND, parameters=stated, environment=environment, seed=seed) as writer:
            others = Others()
            outcomes = _play(layout, seconds, plan, writer, scheduler, tell)
            others.end()
            writer.put("pipeline", {"schema": 1, "outcomes": [asdict(outcome) for outcome in outcomes]})
            observation = load(output)
            files, lanes = trace_files(traces, layout)
            tell("diagnosing")
            seen = watched(
                writer,
                observation,
                files,
                lanes=lanes,
                stages={stage: layout.instances(stage) for stage in STAGES},
                outcomes=outcomes,
                others=others,
            )
    disturbed = others.took(len(cpus)) if overloaded(others, len(cpus)) else None
    taken = others.seen / len(cpus)
    return PipelineRun(seen, outcomes, disturbed, others.unseen, taken)


def _play(
    layout: Layout,
    seconds: float,
    plan: Path,
    writer: RecordingWriter,
    scheduler: bool,
    tell: Callable[[str], None],
) -> tuple[Outcome, ...]:
    with ExitStack() as stack:
        processes = stack.enter_context(PipelineProcesses(plan))
        tell(f"observing the pipeline from outside for {words.seconds(seconds)}")
        pids = list(processes.pids.values())
        recorder = Recorder(
            pids,
            writer,
            period_ns=layout.period_ns,
            stage_period_ns=10_000_000,
            thread_period_ns=50_000_000,
            scheduler=scheduler,
        )
        if scheduler and recorder.scheduler_missing:
            tell(recorder.scheduler_missing)
        with recorder:
            outcomes = processes.play(seconds, failed=lambda: recorder.failed, tell=tell)
            # The counts of a process that has ended are still mapped: the sampler looks at the last ones.
            time.sleep(max(0.02, 5e-9 * layout.period_ns))
            return outcomes
