"""Queues: observe any application's queues live, and name what limits it.

An application publishes its queues' counts in a counter file (`include/latlab/counters.hpp`, or `instrument`
in Python; `docs/reference/counter-file.md`). `Recorder` samples them from outside into a recording
(`docs/reference/queue-recording.md` has the schema of every series), `load` reads one back into an
`Observation`, and `analyse` names what limits. `fit_model` makes a queueing model of it, and `forecast`
simulates that.
"""

from __future__ import annotations

TYPE_CHECKING = False  # of typing: an application imports this, and its start must hardly change
if TYPE_CHECKING:
    from typing import Any

    from latlab.queues.count.executor import CountedExecutor
    from latlab.queues.count.inject import injected
    from latlab.queues.count.instrument import instrument, set_application, set_phase
    from latlab.queues.count.processes import MultiprocessingQueue
    from latlab.queues.count.standard import Deque, LifoQueue, PriorityQueue, Queue, SimpleQueue
    from latlab.queues.count.tasks import AsyncQueue
    from latlab.queues.flight import CAUSES, Detector, Flight
    from latlab.queues.happenings import Happening, Happenings
    from latlab.queues.judge.measures.landmarks import landmarks
    from latlab.queues.judge.stalls import stalls
    from latlab.queues.judge.verdict import analyse
    from latlab.queues.live import Live
    from latlab.queues.model.fit import fit_model, served_hz, service_bounds
    from latlab.queues.model.simulate import copies_of, forecast
    from latlab.queues.recorded import RecordedQueues, record
    from latlab.queues.sample.addresses import RemoteQueue, parse_remote_queue, readers_by_address
    from latlab.queues.sample.attach import Attachment, attach
    from latlab.queues.sample.files import Application, applications, refused_folder
    from latlab.queues.sample.load import load
    from latlab.queues.sample.recorder import Memory, Recorder
    from latlab.queues.sample.sample_time import sample_times
    from latlab.queues.trace.tail import tail
    from latlab.queues.trace.traces import keep_traces, trace_columns
    from latlab.queues.trace.verify import verify_recording

__all__ = [
    "CAUSES",
    "Application",
    "AsyncQueue",
    "Attachment",
    "CountedExecutor",
    "Deque",
    "Detector",
    "Flight",
    "Happening",
    "Happenings",
    "LifoQueue",
    "Live",
    "Memory",
    "MultiprocessingQueue",
    "PriorityQueue",
    "Queue",
    "RecordedQueues",
    "Recorder",
    "RemoteQueue",
    "SimpleQueue",
    "analyse",
    "applications",
    "attach",
    "copies_of",
    "fit_model",
    "forecast",
    "injected",
    "instrument",
    "keep_traces",
    "landmarks",
    "load",
    "parse_remote_queue",
    "readers_by_address",
    "record",
    "refused_folder",
    "sample_times",
    "served_hz",
    "service_bounds",
    "set_application",
    "set_phase",
    "stalls",
    "tail",
    "trace_columns",
    "verify_recording",
]

#: Where each name stands. It is loaded when it is asked for: an application that counts its queues needs few
#: modules of ours, and neither numpy nor what analyses.
_MODULES = {
    "count.executor": ("CountedExecutor",),
    "count.inject": ("injected",),
    "count.instrument": ("instrument", "set_application", "set_phase"),
    "count.processes": ("MultiprocessingQueue",),
    "count.standard": ("Deque", "LifoQueue", "PriorityQueue", "Queue", "SimpleQueue"),
    "count.tasks": ("AsyncQueue",),
    "flight": ("CAUSES", "Detector", "Flight"),
    "happenings": ("Happening", "Happenings"),
    "judge.measures.landmarks": ("landmarks",),
    "judge.stalls": ("stalls",),
    "judge.verdict": ("analyse",),
    "live": ("Live",),
    "model.fit": ("fit_model", "served_hz", "service_bounds"),
    "model.simulate": ("copies_of", "forecast"),
    "recorded": ("RecordedQueues", "record"),
    "sample.addresses": ("RemoteQueue", "parse_remote_queue", "readers_by_address"),
    "sample.attach": ("Attachment", "attach"),
    "sample.files": ("Application", "applications", "refused_folder"),
    "sample.load": ("load",),
    "sample.recorder": ("Memory", "Recorder"),
    "sample.sample_time": ("sample_times",),
    "trace.tail": ("tail",),
    "trace.traces": ("keep_traces", "trace_columns"),
    "trace.verify": ("verify_recording",),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'latlab.queues' has no attribute '{name}'")
    import sys

    place = f"latlab.queues.{_PLACES[name]}"
    __import__(place)  # importlib would be one more module of a program's start
    found = getattr(sys.modules[place], name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
