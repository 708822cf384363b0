"""The trading pipeline as an application: its feeds are played, and replayed with a stage stubbed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from latlab.errors import LatlabError
from latlab.formats.recording import RecordingWriter
from latlab.lab.diagnosis.applications.application import CannotReplayError, Observed, Place, Replay, Tell
from latlab.lab.diagnosis.next_commands import forecast_again, of_stages, of_traces
from latlab.lab.diagnosis.question import Question
from latlab.lab.forecast.applied import applied
from latlab.lab.forecast.by_queue_model import modelled
from latlab.lab.forecast.by_stage_stub import STORY_SPEEDUPS, forecast
from latlab.lab.forecast.stage_runs import CannotStubError, Stubbing
from latlab.lab.judge.residence import TraceTable
from latlab.lab.trading.demo import DemoOptions, feeds_for, in_the_users_words
from latlab.lab.trading.feeds import require_file
from latlab.lab.trading.run import PipelineRun, run_pipeline
from latlab.model.diagnosis.answer import Applied, Forecast, Unknown
from latlab.model.diagnosis.layout import STAGES, Layout
from latlab.model.threads import Code

__all__ = ["TradingPipeline"]

_DISTURBED = "disturbed"  # the name of such a look's recording, with its number
_WHOLE = 0.8  # of the seconds that were asked for
_APPLY = 0.25  # of what the forecast has left, for the fix that it speaks of
_OVER = 2.0  # times the budget, beyond it: what was asked for is not left out since a neighbour is busy
_LOOKS = 3  # at a pipeline of which nothing can be said, since the machine was taken away under it


@dataclass
class TradingPipeline:
    """latlab's own pipeline, in the layout that a question names."""

    question: Question
    layout: Layout
    feeds: Sequence[Path] = field(default=(), init=False)

    @property
    def target(self) -> str:
        """The layout's file."""
        return self.question.source or "the trading pipeline with its default layout"

    @property
    def cpus(self) -> list[int]:
        """Those that stages are pinned to; empty where none is."""
        return sorted({cpu for stage in self.layout.stages.values() for cpu in stage.cpus})

    def require(self) -> None:
        """Its input is a file that can be read."""
        if self.question.input is not None:
            require_file(self.question.input, self.question.input_from)

    def observe(self, place: Place) -> Observed:
        """Play the feeds."""
        question = self.question
        options = DemoOptions(
            layout=self.layout,
            seconds=question.seconds,
            output=place.observation,
            input=question.input,
            seed=question.seed,
            symbols=question.symbols,
        )
        self.feeds = feeds_for(options, place.temporary, place.tell)
        run = observe_pipeline(options, self.feeds, place)
        looks = tuple(sorted(path.name for path in place.output.glob(f"{_DISTURBED}-*")))
        return Observed(run.watched, None, None, 0, run.watched.diagnosis.of_run.seconds, looks=looks)

    def traces(self, seen: Observed) -> TraceTable | None:
        """Of one event in so many, as its layout says."""
        return None if seen.queues is None else seen.queues.traces

    def untraced(self, seen: Observed, place: Place) -> Unknown:
        """No traced event reached the end."""
        return Unknown("budget: no traced event reached the end", of_traces(self.question.source))

    def replay(self, stage: str, place: Place, code: Sequence[Code] = ()) -> Replay:
        """The same feeds, with the time stubbed that the layout adds to the stage."""
        question = self.question
        kind = next((kind for kind in STAGES if stage in self.layout.instances(kind)), stage)
        if question.stages and not {stage, kind} & set(question.stages):
            raise CannotReplayError(
                f"{stage} is not among the stages that may be stubbed",
                remedy=of_stages(question.source, stage),
            )
        story = question.apply is not None
        stubbing = Stubbing(self.layout, self.feeds, question.seconds, place.environment, question.seed)
        asked = STORY_SPEEDUPS if story else None

        def measure(deadline: float, writer: RecordingWriter, tell: Tell) -> Forecast:
            keep_s = over_s = 0.0
            if story:
                keep_s, over_s = _APPLY * max(0.0, deadline - time.monotonic()), _OVER * question.budget_s
            try:
                return forecast(
                    stubbing,
                    stage,
                    deadline - keep_s,
                    writer,
                    tell,
                    speedups=asked,
                    applied=question.apply,
                    at_most=deadline + over_s,
                )
            except CannotStubError as error:
                raise CannotReplayError(str(error)) from None

        def apply(
            made: Forecast, speedup: float, deadline: float, writer: RecordingWriter, tell: Tell
        ) -> Applied:
            return applied(stubbing, stage, made, speedup, deadline, writer, tell)

        return Replay(measure, "the runs of each interleaved", forecast_again(question), apply)

    def forecast(self, stage: str, seen: Observed, deadline: float) -> Forecast:
        """By a queueing model of its queues."""
        assert seen.queues is not None
        return modelled(seen.queues.observation, stage, seed=self.question.seed, deadline=deadline)


def observe_pipeline(options: DemoOptions, feeds: Sequence[Path], place: Place) -> PipelineRun:
    """Look once; again where nothing limits but a neighbour on the host, who is gone a moment later.

    A process that can be seen is a finding, and is not waited for.
    """
    for look in range(1, _LOOKS + 1):
        try:
            run = run_pipeline(
                options.layout,
                feeds,
                options.output,
                seconds=options.seconds,
                environment=place.environment,
                seed=options.seed,
                parameters={"symbols": options.symbols, "input": str(options.input or "")},
                tell=place.tell,
            )
        except LatlabError as error:
            raise in_the_users_words(error, options.input) from None
        found = run.watched.diagnosis
        whole = found.of_run.seconds > _WHOLE * options.seconds  # else it was interrupted, or a process died
        passing = run.disturbed is not None and run.unseen and found.limiting_stage is None
        if not (passing and whole) or look == _LOOKS:
            break
        kept = options.output.with_name(f"{_DISTURBED}-{look}")
        place.tell(
            f"{run.disturbed}, and nothing else limits: observing again "
            f"(this observation is kept as {kept.name})"
        )
        options.output.rename(kept)
    return run
