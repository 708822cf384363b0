"""What would be gained by making a part faster: dynamic performance stubs.

Names are imported when they are used: `component` stands in programs under study, whose own start must not
change.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from latlab.stubs.components.hook import ReplayError
    from latlab.stubs.components.registry import component
    from latlab.stubs.components.session import record, replay
    from latlab.stubs.loads.calibrate import calibrate
    from latlab.stubs.loads.perform import busy, cache, idle, instructions, io, load, memory, network
    from latlab.stubs.scopes import measure
    from latlab.stubs.studies.existing import require_component
    from latlab.stubs.studies.forecast import forecast
    from latlab.stubs.studies.question import StudyPlan
    from latlab.stubs.studies.question import load_plan as load_study
    from latlab.stubs.studies.study import study
    from latlab.stubs.timelines.actions import Action, Program, check, replace_thread, scale
    from latlab.stubs.timelines.actions import load as load_actions
    from latlab.stubs.timelines.actions import save as save_actions
    from latlab.stubs.timelines.capture import capture, capture_pid, from_ctf, from_perf_script
    from latlab.stubs.timelines.edit import edited
    from latlab.stubs.timelines.emit import emit
    from latlab.stubs.timelines.play import play
    from latlab.stubs.timelines.timeline import FILE as TIMELINE_FILE
    from latlab.stubs.timelines.timeline import compare, to_perfetto
    from latlab.stubs.timelines.timeline import load as load_timeline
    from latlab.stubs.timelines.timeline import save as save_timeline

__all__ = [
    "TIMELINE_FILE",
    "Action",
    "Program",
    "ReplayError",
    "StudyPlan",
    "busy",
    "cache",
    "calibrate",
    "capture",
    "capture_pid",
    "check",
    "compare",
    "component",
    "edited",
    "emit",
    "forecast",
    "from_ctf",
    "from_perf_script",
    "idle",
    "instructions",
    "io",
    "load",
    "load_actions",
    "load_study",
    "load_timeline",
    "measure",
    "memory",
    "network",
    "play",
    "record",
    "replace_thread",
    "replay",
    "require_component",
    "save_actions",
    "save_timeline",
    "scale",
    "study",
    "to_perfetto",
]

_PLACES = {
    "Action": "timelines.actions",
    "Program": "timelines.actions",
    "ReplayError": "components.hook",
    "StudyPlan": "studies.question",
    "TIMELINE_FILE": "timelines.timeline:FILE",
    "busy": "loads.perform",
    "cache": "loads.perform",
    "calibrate": "loads.calibrate",
    "capture": "timelines.capture",
    "capture_pid": "timelines.capture",
    "check": "timelines.actions",
    "compare": "timelines.timeline",
    "component": "components.registry",
    "edited": "timelines.edit",
    "emit": "timelines.emit",
    "forecast": "studies.forecast",
    "from_ctf": "timelines.capture",
    "from_perf_script": "timelines.capture",
    "idle": "loads.perform",
    "instructions": "loads.perform",
    "io": "loads.perform",
    "load": "loads.perform",
    "load_actions": "timelines.actions:load",
    "load_study": "studies.question:load_plan",
    "load_timeline": "timelines.timeline:load",
    "measure": "scopes",
    "memory": "loads.perform",
    "network": "loads.perform",
    "play": "timelines.play",
    "record": "components.session",
    "replace_thread": "timelines.actions",
    "replay": "components.session",
    "require_component": "studies.existing",
    "save_actions": "timelines.actions:save",
    "save_timeline": "timelines.timeline:save",
    "scale": "timelines.actions",
    "study": "studies.study",
    "to_perfetto": "timelines.timeline",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, renamed = _PLACES[name].partition(":")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), renamed or name)
    globals()[name] = value
    return value
