"""How fast is a piece of code, and did a change help."""

from latlab.bench.comparing import Compared, compare
from latlab.bench.judging.compare import (
    between_runs,
    compare_results,
    environment_differences,
    judge_unpaired,
)
from latlab.bench.judging.levels import accept, accepted, history
from latlab.bench.measuring.conditions import FACTORS, hogs
from latlab.bench.measuring.conditions_study import study
from latlab.bench.measuring.control import remember
from latlab.bench.measuring.experiment import (
    Asked,
    Comparison,
    run_aa,
    run_ab,
    run_suite,
)
from latlab.bench.measuring.inprocess import measure_call, measure_rounds
from latlab.bench.measuring.plain import costs_of, default_settings, run
from latlab.bench.measuring.revisions import installed, rebuilding, revisions, uncommitted
from latlab.bench.results import baseline
from latlab.bench.results.advice import of_baseline, of_more_runs
from latlab.bench.results.api import (
    carry_over,
    couples,
    couples_of,
    expand,
    judge_again,
    read_any,
    settle,
    with_discovery_rate,
)
from latlab.bench.results.imports import Results, load
from latlab.bench.results.raw import Raw
from latlab.bench.results.raw import write as write_raw
from latlab.bench.results.recorder import Recorder
from latlab.bench.results.targets import Target, of_command, parse
from latlab.model.bench import Settings

__all__ = [
    "FACTORS",
    "Asked",
    "Compared",
    "Comparison",
    "Raw",
    "Recorder",
    "Results",
    "Settings",
    "Target",
    "accept",
    "accepted",
    "baseline",
    "between_runs",
    "carry_over",
    "compare",
    "compare_results",
    "costs_of",
    "couples",
    "couples_of",
    "default_settings",
    "environment_differences",
    "expand",
    "history",
    "hogs",
    "installed",
    "judge_again",
    "judge_unpaired",
    "load",
    "measure_call",
    "measure_rounds",
    "of_baseline",
    "of_command",
    "of_more_runs",
    "parse",
    "read_any",
    "rebuilding",
    "remember",
    "revisions",
    "run",
    "run_aa",
    "run_ab",
    "run_suite",
    "settle",
    "study",
    "uncommitted",
    "with_discovery_rate",
    "write_raw",
]
