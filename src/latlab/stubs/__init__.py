"""What would be gained by making a part faster: dynamic performance stubs.

Names are imported when they are used: `component` stands in programs under study, whose own start must not
change.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from latlab.stubs._actions import Action, Program, check, replace_thread, scale
    from latlab.stubs._actions import load as load_actions
    from latlab.stubs._actions import save as save_actions
    from latlab.stubs._calibrate import calibrate
    from latlab.stubs._capture import capture, from_ctf, from_perf_script
    from latlab.stubs._component import ReplayError, component
    from latlab.stubs._emit import emit
    from latlab.stubs._existing import require_component
    from latlab.stubs._forecast import forecast
    from latlab.stubs._measure import measure
    from latlab.stubs._perform import busy, cache, idle, instructions, io, load, memory, network
    from latlab.stubs._play import play
    from latlab.stubs._session import record, replay
    from latlab.stubs._study import study
    from latlab.stubs._study_plan import StudyPlan
    from latlab.stubs._study_plan import load_plan as load_study
    from latlab.stubs._timeline import compare, to_perfetto
    from latlab.stubs._timeline import load as load_timeline
    from latlab.stubs._timeline import save as save_timeline

__all__ = [
    "Action",
    "Program",
    "ReplayError",
    "StudyPlan",
    "busy",
    "cache",
    "calibrate",
    "capture",
    "check",
    "compare",
    "component",
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
    "Action": "_actions",
    "Program": "_actions",
    "ReplayError": "_component",
    "StudyPlan": "_study_plan",
    "busy": "_perform",
    "cache": "_perform",
    "calibrate": "_calibrate",
    "capture": "_capture",
    "check": "_actions",
    "compare": "_timeline",
    "component": "_component",
    "emit": "_emit",
    "forecast": "_forecast",
    "from_ctf": "_capture",
    "from_perf_script": "_capture",
    "idle": "_perform",
    "instructions": "_perform",
    "io": "_perform",
    "load": "_perform",
    "load_actions": "_actions:load",
    "load_study": "_study_plan:load_plan",
    "load_timeline": "_timeline:load",
    "measure": "_measure",
    "memory": "_perform",
    "network": "_perform",
    "play": "_play",
    "record": "_session",
    "replace_thread": "_actions",
    "replay": "_session",
    "require_component": "_existing",
    "save_actions": "_actions:save",
    "save_timeline": "_timeline:save",
    "scale": "_actions",
    "study": "_study",
    "to_perfetto": "_timeline",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, renamed = _PLACES[name].partition(":")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), renamed or name)
    globals()[name] = value
    return value
