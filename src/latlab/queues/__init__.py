"""Queues: observe any application's queues live, and name what limits it.

An application publishes its queues' counts in a counter file (`include/latlab/counters.hpp`, or `instrument`
in Python; `docs/reference/counter-file.md`). `Recorder` samples them from outside into a recording
(`docs/reference/queue-recording.md` has the schema of every series), `load` reads one back into an
`Observation`, and `analyse` names what limits. `fit_model` makes a queueing model of it, and `forecast`
simulates that.
"""

from latlab.queues.count.inject import injected
from latlab.queues.count.instrument import (
    AsyncQueue,
    CountedExecutor,
    Deque,
    LifoQueue,
    MultiprocessingQueue,
    PriorityQueue,
    Queue,
    SimpleQueue,
    instrument,
    set_application,
    set_phase,
)
from latlab.queues.flight import CAUSES, Detector, Flight
from latlab.queues.happenings import Happening, Happenings
from latlab.queues.judge.landmarks import landmarks
from latlab.queues.judge.stalls import stalls
from latlab.queues.judge.verdict import analyse
from latlab.queues.live import Live
from latlab.queues.model.fit import fit_model
from latlab.queues.model.simulate import forecast
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
    "Recorder",
    "RemoteQueue",
    "SimpleQueue",
    "analyse",
    "applications",
    "attach",
    "fit_model",
    "forecast",
    "injected",
    "instrument",
    "keep_traces",
    "landmarks",
    "load",
    "parse_remote_queue",
    "readers_by_address",
    "refused_folder",
    "sample_times",
    "set_application",
    "set_phase",
    "stalls",
    "tail",
    "trace_columns",
    "verify_recording",
]
