"""A messaging result as plain text."""

from __future__ import annotations

from latlab.model.messaging.results import Facts, Result, Throughput
from latlab.model.statistics.summary import Summary
from latlab.reports.messaging.verdict import cause, verdict
from latlab.words import count, duration, number, plural, rate, relative, share, size, table

__all__ = ["load", "render", "render_facts"]

_COLUMNS = ("p50", "p90", "p99", "p99.9")


def _row(name: str, s: Summary | None) -> list[str]:
    if s is None:
        return [name, *["–"] * 7]
    values = [s.mean, s.robust_deviation, *[s.quantiles.get(q) for q in _COLUMNS], s.maximum]
    return [name, *[duration(value) for value in values]]


def _throughput(name: str, t: Throughput) -> str:
    line = f"{name:<21}{rate(t.messages_per_s, 'messages')}, {rate(t.bytes_per_s, 'B')}"
    if t.windows is not None:
        line += f"; over {t.window} messages: median {rate(t.windows.median, 'messages')}"
    elif t.messages_per_s is not None:
        line += f"; over {t.window} messages: undefined"
    return line


def render(r: Result) -> str:
    """The result for a person: what was measured first, what to make of it last."""
    s = r.settings
    trip = "round trip, " if s.topology == "pingpong" and not s.half else ""
    lines = [
        *verdict(r),
        "",
        f"{r.facts.title}: {plural(s.messages, 'message')} of {_sizes(r)}, {_who(r)}{s.topology}, {load(r)}, "
        f"{_waiting(r)}",
        f"sent {count(r.sent)}, received {count(r.received)}, lost {count(r.lost)}, "
        f"duplicated {count(r.duplicated)}, reordered {count(r.reordered)}, corrupted {count(r.corrupted)}",
        "",
    ]
    rows = [_row(f"latency ({trip}from the actual sending)", r.latency)]
    if r.intended_latency is not None:
        rows.append(_row(f"latency ({trip}from the intended sending)", r.intended_latency))
    for which, group in enumerate(r.groups, 1) if len(r.groups) > 1 else ():
        rows.append(_row(f"group {which}", group.latency))
    if r.confirm_latency is not None:
        rows.append(_row("confirmed to the sender", r.confirm_latency))
    if s.warmup:
        rows.append(_row(f"warm-up ({plural(s.warmup, 'message')})", r.warmup))
    if r.broker_stay is not None:
        rows.append(_row("inside the broker", r.broker_stay))
    if r.wire_to_kernel is not None:
        rows.append(_row("sender to kernel", r.wire_to_kernel))
        rows.append(_row("kernel to application", r.kernel_to_application))
    rows.append(_row(f"sending overhead (M = {s.window})", r.sending_overhead))
    rows.append(_row(f"receiving overhead (M = {s.window})", r.receiving_overhead))
    lines.append(table(("", "average", "robust dev.", *_COLUMNS, "max"), rows))
    lines += ["", _throughput("sending throughput", r.sending_throughput)]
    lines += [_throughput("receiving throughput", r.receiving_throughput)]
    lines += _by_receiver(r)
    if r.unconfirmed:
        lines.append(f"{'unconfirmed':<21}{count(r.unconfirmed)} messages")
    c = r.cpu
    parts = [("sender", c.sender), ("broker", c.broker), ("receiver", c.receiver), ("other", c.other)]
    if c.total is not None:
        shown = ", ".join(f"{name} {duration(value)}" for name, value in parts if value is not None)
        lines.append(f"{'CPU per message':<21}{shown}; total {duration(c.total)}")
    if c.foreign is not None and c.total:
        lines[-1] += f"; other processes {duration(c.foreign)}"
    for name, counter in r.counters.items():
        each = "" if counter.per_message is None else f", {number(counter.per_message)} a message"
        lines.append(f"{name:<21}{count(counter.total)}{each}")
    if r.idle:
        asleep = r.idle.get("idle_share")
        shown = "unknown" if asleep is None else f"{share(asleep, digits=0)} of the time"
        lines.append(f"{'CPUs idle':<21}{shown} ({r.idle.get('driver') or 'no cpuidle driver'})")
    lines.append(_humps(r))
    lines.append(_stability(r))
    for peak in r.peaks:
        many = peak.first != peak.last
        at = f"messages {count(peak.first)} to {count(peak.last)}" if many else f"message {count(peak.first)}"
        lines.append(f"{'peak':<21}{duration(peak.max_ns)} at {at} ({cause(peak)})")
    lines.append(
        f"{'harness':<21}{duration(r.harness_ns[0])} a message in the sender, "
        f"{duration(r.harness_ns[1])} in the receiver (clock {duration(r.harness_ns[2])}), "
        f"{number(r.bytes_per_message)} bytes a message, "
        f"{r.page_faults} page faults"
    )
    lines.append(f"{'received at':<21}{r.facts.received_at}")
    lines += [f"{'planted stall':<21}{duration(made)} at message {n}" for n, made in r.stalls_ns]
    lines += [f"note: {note}" for note in r.notes]
    if r.partial is not None:
        lines.append(f"partial: {r.partial}")
    return "\n".join(lines)


def _sizes(r: Result) -> str:
    s = r.settings
    if not s.sizes:
        return f"{plural(s.size, 'byte')}"
    total = sum(weight for _, weight in s.sizes)
    shown = [f"{size(one)} ({share(weight / total, digits=0)})" for one, weight in s.sizes[:5]]
    return ", ".join([*shown, *(["…"] if len(s.sizes) > 5 else [])])


def _who(r: Result) -> str:
    s = r.settings
    if s.senders == s.receivers == 1:
        return ""
    groups = f" in {plural(s.groups, 'group')}" if s.receivers > 1 else ""
    return f"{plural(s.senders, 'sender')}, {plural(s.receivers, 'receiver')}{groups}, "


def _by_receiver(r: Result) -> list[str]:
    """Which receivers of a group had how many messages, and what was lost on the way to it."""
    found = []
    for which, group in enumerate(r.groups, 1):
        had = ", ".join(count(one) for one in group.received)
        name = f"group {which}" if len(r.groups) > 1 else "each receiver"
        found.append(f"{name:<21}received {had} (warm-up included), lost {count(group.lost)}")
    return found


def load(r: Result) -> str:
    """The load in words."""
    s = r.settings
    if s.load == "max":
        return "as fast as possible"
    if s.load == "bursts":
        return f"bursts of {s.burst} every {duration(s.burst_period_ns)}"
    if s.load == "steps":
        return ", then ".join(f"{rate(hz, 'messages')} for {duration(t * 1e9)}" for hz, t in s.steps)
    if s.load == "file":
        return f"timed as {s.load_file}"
    return f"{rate(s.rate_hz, 'messages')}{', Poisson' if s.load == 'poisson' else ''}"


def _waiting(r: Result) -> str:
    return f"{'polling' if r.wait == 'poll' else 'blocking'} ({r.sleeps_per_message:.2f} sleeps a message)"


def _humps(r: Result) -> str:
    if not r.humps:
        return f"{'humps':<21}none"
    where = ", ".join(f"{duration(h.at_ns)} ({relative(h.weight)})" for h in r.humps)
    sure = "" if r.humps_p_value is None else f" (dip test p = {r.humps_p_value:.2g})"
    few = "; too few messages to tell whether there are more" if r.humps_unsure else ""
    return f"{'humps':<21}{len(r.humps)} at {where}{sure}{few}"


def _stability(r: Result) -> str:
    text = f"{'stability':<21}{r.stability}"
    if r.stability == "rising":
        text += ": a queue grows; percentiles show how long the run was, not how fast the transport is"
    if r.drift is not None:
        text += f" ({duration(r.drift)} a second)"
    signs = r.signs
    named = (("rising", "up"), ("falling", "down"), ("stable", "level"))
    steps = ", ".join(f"{count(signs[sign])} {word}" for sign, word in named)
    return f"{text}; from message to message: {steps}"


_MANY = {
    "": "one sender and one receiver",
    "one": "senders and receivers, each message goes to one of the receivers",
    "all": "senders and receivers, each message goes to all of them (--groups as many as --receivers)",
    "any": "senders and groups of receivers (--senders, --receivers, --groups)",
}


def render_facts(facts: Facts, missing: str | None) -> str:
    """A transport: what it promises, what it takes, and the options of its client."""
    lines = [
        f"{facts.name}: {facts.title}",
        f"{'here':<14}{'available' if missing is None else f'needs: {missing}'}",
        f"{'promises':<14}{'lossless' if facts.lossless else 'may lose messages'}, "
        f"{'in order' if facts.ordered else 'in any order'}, up to {size(facts.max_bytes)} a message",
        f"{'topologies':<14}{', '.join(facts.topologies)}",
        f"{'joins':<14}{_MANY.get(facts.many, facts.many)}",
        f"{'received at':<14}{facts.received_at}",
    ]
    if facts.access:
        lines.append(f"{'server takes':<14}{', '.join(f'--{name}' for name in facts.access)}")
    if facts.driver:
        rows = [(f"--driver {o.name}={'|'.join(o.choices) or 'N'}", o.default, o.help) for o in facts.driver]
        lines += ["", table(("option of the client", "default", ""), rows)]
    return "\n".join(lines)
