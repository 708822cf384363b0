"""Observes a server, running or started, and hands on its requests and the schedule beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from latlab.model.requests import Requests
from latlab.model.schedule import Schedule
from latlab.requests.connections import Found, find_requests
from latlab.requests.faults import Faults, cost_of_a_fault_ns
from latlab.requests.judging.summary import summarise
from latlab.schedule import Transfers, capture_command, capture_pids

__all__ = ["of_transfers", "record"]


def record(
    pids: Sequence[int] = (),
    command: Sequence[str] = (),
    seconds: float = 10.0,
    *,
    stop: Callable[[], bool] = lambda: False,
    stacks: bool = True,
    forecast: bool = False,
) -> tuple[Found, Requests]:
    """Observe processes, or a command, with their children.

    Args:
        stop: asked several times a second; True ends the observation of processes.
        stacks: sample in which functions they run.
        forecast: simulate what changes would buy.

    Returns:
        every request, and what they say.

    Raises:
        InputError: no such process. UsageError: no such command. UnavailableError: BPF isn't allowed.
    """
    seen: list[Transfers] = []
    if command:
        schedule = capture_command(command, seconds, stacks=stacks, transfers=seen.append)
    else:
        schedule = capture_pids(pids, seconds, stop=stop, stacks=stacks, transfers=seen.append)
    return of_transfers(seen[0], schedule, forecast=forecast)


def of_transfers(
    moved: Transfers, schedule: Schedule, *, found: Found | None = None, forecast: bool = False
) -> tuple[Found, Requests]:
    """The requests in what was moved (`found`, where somebody has looked for them), and what they say."""
    found = find_requests(moved, schedule) if found is None else found
    faults = Faults(moved.faults, cost_of_a_fault_ns()) if moved.faults else None
    return found, summarise(found, schedule, moved.lost, moved.sampled_share, faults, forecast=forecast)
