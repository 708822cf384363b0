"""What an application does now, with what limits it: a snapshot, and the analysis of the last seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from latlab.errors import NotTrustworthyError
from latlab.model.queues.analysis import Verdict
from latlab.model.queues.live import Snapshot
from latlab.queues.sample.attach import Attachment
from latlab.queues.sample.follow import Target
from latlab.queues.sample.recorder import Recorder
from latlab.queues.sample.window import Window
from latlab.queues.trace.latency import EndToEnd

__all__ = ["Live"]

# Of a CPU, what judging may take: an application of many queues is judged less often.
_JUDGING = 0.01
# What is sampled for a judgement need not be at hand sooner than the next look.
_STEP_S = 0.1
# How often the kernel is asked for what threads and sockets did: a judgement is over seconds.
_THREADS_NS = 500_000_000


class Live:
    """A view from outside that also judges: an attachment, and a recorder that keeps the last seconds.

    A context manager; `look` as often as wanted, from one thread.

    Args:
        targets: process ids, names of applications, or both.
        window_seconds: that the judgement is over.
        period_ns: of the sampling behind the judgement.
        every_seconds: between two judgements, at least.
        exclude: names of queues that count for nothing.

    Raises:
        InputError: when no running application matches; it says which there are.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        *,
        window_seconds: float = 5.0,
        period_ns: int = 1_000_000,
        every_seconds: float = 2.0,
        exclude: tuple[str, ...] = (),
    ) -> None:
        self._attachment = Attachment(targets, exclude=exclude)
        self._recorder = Recorder(
            targets,
            Window(window_seconds),
            period_ns=period_ns,
            step_seconds=_STEP_S,
            thread_period_ns=_THREADS_NS,
        )
        self._every_seconds = every_seconds
        self._exclude = exclude
        self._next = time.monotonic() + min(1.0, every_seconds)
        self._end_to_end = EndToEnd(window_seconds)
        self._judged: tuple[str | None, str, float] = (None, "", 0.0)

    def __enter__(self) -> Self:
        self._recorder.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorder.__exit__(kind, error, trace)

    @property
    def alive(self) -> bool:
        """At least one of its processes lives."""
        return self._attachment.alive

    def look(self) -> Snapshot:
        """What every queue and stage is now, what limited, and how long events took over the last seconds."""
        snapshot = self._attachment.look()
        if time.monotonic() >= self._next:
            began = time.thread_time()
            self._judge()
            pause = max(self._every_seconds, (time.thread_time() - began) / _JUDGING)
            self._next = time.monotonic() + pause
        stage, verdict, confidence = self._judged
        latency = self._end_to_end.look(self._attachment.pids)
        return replace(
            snapshot, limiting_stage=stage, verdict=verdict, confidence=confidence, latency=latency
        )

    def _judge(self) -> None:
        from latlab.queues.judge.verdict import analyse

        try:
            result = analyse(self._recorder.observation(), exclude=self._exclude, over_time=False)
        except NotTrustworthyError:
            self._judged = (None, str(Verdict.UNKNOWN), 0.0)
            return
        self._judged = (result.limiting_stage, str(result.verdict), result.confidence)
