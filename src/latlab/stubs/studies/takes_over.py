"""What limits once the component takes no time: looked for in a run with the flat stub."""

from __future__ import annotations

import tempfile
from pathlib import Path

from latlab.errors import InputError, UnavailableError
from latlab.model.evidence.said import said
from latlab.model.evidence.studies import Speedup
from latlab.stubs.components import profile as _profile
from latlab.stubs.studies import runner as _lab

# What runs for less than this part of the run doesn't limit it: the system waits.
_LEAST_BUSY = 0.4


def takes_over(lab: _lab.Lab) -> str | None:
    """The function (python), thread or program that then runs most, or what is waited in; None: not known."""
    if lab.plan.kind == "python":
        return _function(lab)
    return _thread(lab)


def _function(lab: _lab.Lab) -> str | None:
    run = lab.run("flat", 1.0, flags=("profile",))
    cpu: dict[str, int] = {}
    samples: dict[str, int] = {}
    for path in lab.state.glob("*.profile"):
        for line in path.read_text(encoding="utf-8").splitlines():
            used, seen, name = line.split(" ", 2)
            cpu[name] = cpu.get(name, 0) + int(used)
            samples[name] = samples.get(name, 0) + int(seen)
        path.unlink()
    component = lab.plan.component
    for found in (cpu, samples):
        found.pop("the interpreter", None)
        found.pop(component, None)
    if not cpu:
        return None
    busiest = max(cpu, key=lambda name: cpu[name])
    if cpu[busiest] >= _LEAST_BUSY * run.wall_ns:
        return _short(busiest)
    waiting = [name for name in samples if not name.endswith(":<module>")] or list(samples)
    longest = max(waiting, key=lambda name: samples[name])
    # On a loaded machine the sampler comes late: then the part of its samples says more than their number.
    waited = samples[longest] * _profile.PERIOD_S * 1e9 / run.wall_ns
    part = samples[longest] / sum(samples.values())
    if waited < _LEAST_BUSY and part < _LEAST_BUSY:
        # A script's own level is where it called a library (an event loop, say): no part that one could name.
        return None if busiest.endswith(":<module>") else _short(busiest)
    return f"waiting in {_short(longest)}"


def _short(name: str) -> str:
    return name.replace(".<locals>", "").removeprefix("__main__:")


def _thread(lab: _lab.Lab) -> str | None:
    from latlab.stubs.timelines import capture as _capture

    lab.prepare("flat", 1.0, 0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            timeline, _ = _capture.capture(lab.command, Path(folder), quiet=True, environment=lab.environment)
    except (UnavailableError, InputError):
        return None
    # A shell that waits for its children, and the stub itself, limit nothing.
    threads = [thread for thread in timeline.threads if thread.name != lab.plan.component]
    if not threads:
        return None
    busiest = max(threads, key=lambda thread: thread.run_ns)
    if busiest.run_ns < _LEAST_BUSY * timeline.total_ns:
        return "waiting"
    alike = [thread for thread in threads if thread.name == busiest.name]
    if len(alike) == 1:
        return busiest.name
    return said(Speedup.THREAD_OF, thread=busiest.name, number=busiest.id, threads=len(threads))
