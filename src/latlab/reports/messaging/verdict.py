"""The verdict on a messaging run, in sentences."""

from __future__ import annotations

from latlab.model.messaging.results import SATURATED, Doubt, Limiting, Peak, Result, SlowPeriod
from latlab.words import count, duration, number, share

__all__ = ["cause", "doubt", "doubts", "finding", "verdict"]

_CAUSES = {
    "planted stall": "the planted stall",
    "standstill": "the whole run stood still",
    "stopped": "a part was stopped by a signal",
    "quota": "a CPU quota stopped the run or the broker",
    "sender late": "it was sent late",
    "sender": "the sender waited for a CPU",
    "broker": "the broker waited for a CPU",
    "receiver": "the receiver waited for a CPU",
    "library": "the library's threads waited for a CPU",
}


def verdict(r: Result) -> list[str]:
    """What was measured, first; then the period in it, and why it isn't trustworthy."""
    lines = [finding(r)]
    if r.verdict.period is not None:
        lines.append(_period(r.verdict.period))
    return [*lines, *doubts(r)]


def finding(r: Result) -> str:
    """What limits the run, in one sentence."""
    v = r.verdict
    named = {name: _name(r, name) for name in ("sender", "broker", "receiver", "library")}
    used = [
        f"{named[name]} used {share(v.shares[name], digits=0)} of a core"
        for name in v.parts
        if name in v.shares
    ]
    match v.limiting:
        case Limiting.NOTHING:
            # What a paced sender uses while it waits for a message to be due is no work.
            busiest = f" The busiest part, the paced sender not counted: {used[0]}." if used else ""
            return f"Nothing is saturated: the load is below the throughput limit.{busiest}"
        case Limiting.PART if r.wait == "poll":
            return {
                "sender": "The sender limits: the receiver waits for messages (the ring is nearly empty).",
                "receiver": "The receiver limits: the sender waits for room (the ring is full).",
                "broker": "The broker limits: the first ring is full and the second nearly empty.",
            }[v.parts[0]]
        case Limiting.PART if len(v.parts) == 1 and v.shares[v.parts[0]] < SATURATED:
            name, got = named[v.parts[0]], share(v.shares[v.parts[0]], digits=0)
            return (
                f"{name[0].upper()}{name[1:]} limits, for want of a CPU: it got {got} of a core and waited "
                "for one nearly all the rest of the time."
            )
        case Limiting.PART:
            if r.facts.loop == "python" and not {"broker", "library"} & set(v.parts):
                return f"You measured the Python client: {_listed(used)}."
            if len(used) > 1:
                return f"Several parts are saturated: {_listed(used)}."
            name = named[v.parts[0]]
            used_part = share(v.shares[v.parts[0]], digits=0)
            return f"{name[0].upper()}{name[1:]} is saturated: it used {used_part} of a core."
        case Limiting.CORE:
            total = min(1.0, sum(v.shares[name] for name in v.parts))
            return (
                f"One core limits: {_listed([named[p] for p in v.parts])} share it and used "
                f"{share(total, digits=0)} of it. --cpus places them apart."
            )
        case Limiting.MACHINE:
            return "The machine limits: all its CPUs were busy."
        case Limiting.QUOTA:
            who = "the broker" if "broker" in v.parts else "this run"
            return f"A CPU quota limits: it stopped {who}."
        case Limiting.ROUND_TRIP:
            return "The round trip limits: one message is under way at a time."
        case Limiting.ELSEWHERE:
            where = "the line" if "line" in v.parts else "the broker, or the line to it,"
            return f"Neither the sender nor the receiver is saturated: {where} limits. {_ends(r)}"
        case Limiting.ASLEEP:
            return (
                "No part is saturated: they wait for one another, for a wake-up, or for a disk. " + _ends(r)
            ).rstrip()
        case Limiting.UNKNOWN:
            return {
                "short": "Cannot tell what limits from such a short run; raise --messages.",
                "poll": "Cannot tell what limits: polling threads are always busy; --wait block shows it.",
            }.get(v.why, f"What limits is not sure. {_ends(r)}")


def doubts(r: Result) -> list[str]:
    """Why the figures can't be trusted: a sentence each."""
    return [f"Not trustworthy: {doubt(d)}" for d in r.verdict.doubts]


def cause(peak: Peak) -> str:
    """What stands behind a peak, in words; where the message stood if nothing is known."""
    if peak.cause is None:
        return peak.where
    return _CAUSES[peak.cause]


def doubt(d: Doubt) -> str:
    """Why the figures can't be trusted, and what to do."""
    amount = d.amount or 0.0
    match d.kind:
        case "clock":
            return f"{count(amount)} time stamps run backwards."
        case "nothing":
            return "nothing arrived."
        case "others":
            used = number(amount)
            return f"other processes used {used} CPUs meanwhile; measure while the machine is quiet."
        case "hypervisor":
            return f"the hypervisor took {number(amount)} CPUs meanwhile; measure on a machine of your own."
        case "standstill":
            return (
                f"for {duration(round(amount * 1e9))} nothing of this run ran: it was stopped by a signal, "
                "or the machine stood still."
            )
        case "quota":
            who = "the broker" if d.who == "broker" else "this run"
            return f"a CPU quota stopped {who} for {share(amount)} of the time."
        case _:
            return (
                "the load is above the throughput limit and a queue grows, so latencies tell how long the "
                "run was; 'latlab messaging find-limit' finds the limit."
            )


def _period(p: SlowPeriod) -> str:
    late = duration(p.late_ns)
    if p.every is None:
        return f"Every {duration(p.time_ns)} a message takes {late} longer ({p.seen} times)."
    return (
        f"Every {_nth(p.every)} message (every {duration(p.time_ns)}) takes {late} longer ({p.seen} times)."
    )


def _nth(n: int) -> str:
    last = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{last}"


def _name(r: Result, part: str) -> str:
    if part == "broker" and r.facts.broker is not None:
        return r.facts.broker
    if part == "library":
        return f"the busiest thread of {'nats.c' if r.facts.library == 'nats' else 'ZeroMQ'}"
    return f"the {part}"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _ends(r: Result) -> str:
    shares = r.verdict.shares
    said = [f"{_name(r, name)} {share(shares[name], digits=0)}" for name in shares]
    return f"Of a core each used: {', '.join(said)}." if said else ""
