"""How fast is a piece of code, and did a change help."""

from latlab.bench._api import carry_over, couples, expand, read_any, settle, with_discovery_rate
from latlab.bench._control import remember
from latlab.bench._experiment import Asked, Recorder, default_settings, run, run_aa, run_ab
from latlab.bench._raw import write as write_raw
from latlab.bench._targets import Target, of_command, parse

__all__ = [
    "Asked",
    "Recorder",
    "Target",
    "carry_over",
    "couples",
    "default_settings",
    "expand",
    "of_command",
    "parse",
    "read_any",
    "remember",
    "run",
    "run_aa",
    "run_ab",
    "settle",
    "with_discovery_rate",
    "write_raw",
]
