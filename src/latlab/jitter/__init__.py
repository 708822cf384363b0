"""How quiet is this machine, and who disturbs it."""

from latlab.jitter._analyse import analyse, name_period
from latlab.jitter._beat import clearest_spectrum, clock_step, find_periods, merge_bursts, spectrum
from latlab.jitter._files import (
    cyclictest_json,
    read_outliers,
    sysjitter_raw,
    write_outliers,
    write_text,
)
from latlab.jitter._hdr import hdr_of, write_hdr
from latlab.jitter._histogram import (
    INFINITE,
    Histogram,
    automatic_range,
    bin_bounds,
    histogram,
    recommendations,
)
from latlab.jitter._measure import allowed_cpus, disturbance_tracer, measure
from latlab.jitter._recorded import Comparison, compare_runs, merge_runs, record_run
from latlab.jitter._study import Study, run_study
from latlab.jitter._task import measure_task, resolve_task
from latlab.jitter._topology import CoreMatrix, core_to_core

__all__ = [
    "INFINITE",
    "Comparison",
    "CoreMatrix",
    "Histogram",
    "Study",
    "allowed_cpus",
    "analyse",
    "automatic_range",
    "bin_bounds",
    "clearest_spectrum",
    "clock_step",
    "compare_runs",
    "core_to_core",
    "cyclictest_json",
    "disturbance_tracer",
    "find_periods",
    "hdr_of",
    "histogram",
    "measure",
    "measure_task",
    "merge_bursts",
    "merge_runs",
    "name_period",
    "read_outliers",
    "recommendations",
    "record_run",
    "resolve_task",
    "run_study",
    "spectrum",
    "sysjitter_raw",
    "write_hdr",
    "write_outliers",
    "write_text",
]
