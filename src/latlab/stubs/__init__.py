"""What would be gained by making a part faster: dynamic performance stubs."""

from latlab.stubs._actions import Action, Program, check, scale
from latlab.stubs._actions import load as load_actions
from latlab.stubs._actions import save as save_actions
from latlab.stubs._calibrate import calibrate
from latlab.stubs._capture import capture, from_perf_script
from latlab.stubs._emit import emit
from latlab.stubs._play import play
from latlab.stubs._timeline import compare, to_perfetto
from latlab.stubs._timeline import load as load_timeline
from latlab.stubs._timeline import save as save_timeline

__all__ = [
    "Action",
    "Program",
    "calibrate",
    "capture",
    "check",
    "compare",
    "emit",
    "from_perf_script",
    "load_actions",
    "load_timeline",
    "play",
    "save_actions",
    "save_timeline",
    "scale",
    "to_perfetto",
]
