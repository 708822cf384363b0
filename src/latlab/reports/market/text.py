"""Market results as plain text."""

from __future__ import annotations

from latlab.model.market import Census, Depth
from latlab.words import plural, share


def census_text(census: Census) -> str:
    """One line a message type, then what was wrong."""
    lines = [
        f"{census.dialect} ({census.framing}): {census.messages:,} messages of {census.symbols:,} symbols, "
        f"{clock(census.first_ns)} to {clock(census.last_ns)}"
    ]
    for kind, count in sorted(census.by_type.items(), key=lambda item: -item[1]):
        lines.append(f"  {kind:<5}{count:>14,}  {share(count / max(census.messages, 1), digits=2):>8}")
    facts = {"unknown type": census.unknown, "empty frames": census.empty, "malformed": census.malformed}
    facts |= {"go back in time": census.out_of_order}
    facts |= {f"book: {kind}": n for kind, n in census.anomalies.items()}
    facts |= {f"transport: {kind}": n for kind, n in census.transport.items()}
    lines += [f"  {name.replace('_', ' ')}: {n:,}" for name, n in facts.items() if n]
    lines += [f"  error at offset {error.offset}: {error.what}" for error in census.errors[:10]]
    return "\n".join(lines)


def depth_text(depth: Depth) -> str:
    """Both distributions, a quantile a column."""
    names = list(depth.event_depth)
    lines = [f"{depth.events:,} book events", " " * 24 + "".join(f"{name:>12}" for name in names)]
    for title, row in (
        ("ticks from the inside", depth.event_depth),
        ("levels of the side", depth.book_depth),
    ):
        lines.append(f"{title:<24}" + "".join(f"{row[name]:>12,}" for name in names))
    return "\n".join(lines)


def unchecked_text(census: Census) -> str | None:
    """What the input's compression leaves open; None: nothing."""
    if not census.unchecked:
        return None
    return f"the {census.unchecked} file carries no checksum: damage inside it can go unseen"


def damage_text(census: Census, *, books: bool) -> list[str]:
    """What was skipped, lost or could not be applied: a sentence each, nothing is absorbed silently."""
    lines = []
    parts = [f"{n:,} {kind.replace('_', ' ')}" for kind, n in census.anomalies.items() if n]
    if parts:
        lines.append(f"the books could not apply as they came: {', '.join(parts)}")
    if census.malformed:
        jumped = f" and {plural(census.jumped, 'byte')} skipped" if census.jumped else ""
        lines.append(f"{census.malformed:,} malformed messages{jumped}; `census --json` lists them")
    if census.unknown:
        lines.append(f"{census.unknown:,} messages of unknown type were skipped")
    if census.early_ends:
        lines.append(
            f"{census.early_ends:,} zero lengths, which end a session, are followed by other messages"
        )
    transport = census.transport
    if transport.get("lost"):
        lines.append(f"{transport['lost']:,} messages were lost in gaps")
    if transport.get("late"):
        lines.append(f"{transport['late']:,} messages came too late: later ones had already been read")
    if census.absent:
        lines.append(f"no symbol {', '.join(census.absent)} in the input")
    if census.out_of_order:
        lines.append(f"{census.out_of_order:,} messages go back in time")
    if len(census.errors) > census.malformed:
        last = census.errors[-1]
        lines.append(f"{len(census.errors):,} errors in all; the last at offset {last.offset}: {last.what}")
    if census.damage(books=books):
        lines.append("the input is damaged or not whole: do not trust the result (exit code 3)")
    return lines


def clock(ns: int) -> str:
    """ns since midnight as HH:MM:SS and the fraction."""
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:09}"
