"""What a program's threads do, on a screen: its roles, who hands work to whom, where in the code."""

from __future__ import annotations

from latlab.model.threads import Edge, Role, ThreadFindings
from latlab.words import count, duration, share, table

__all__ = ["edge_rows", "role_rows", "thread_blocks"]

_MOST_ROLES = 10
_MOST_EDGES = 6
_MOST_LOCKS = 3
_MOST_KINDS = 2
_WORTH = 0.01  # of the time, that an edge or a wait is told
_TITLE = "What its threads do ('limits': of the program's progress; the other shares: of the role's own time)"
_MISSES = 0.02  # of the time, that is missing in a row

ROLE_COLUMNS = ("role", "threads", "limits", "running", "no CPU", "blocked on")
EDGE_COLUMNS = ("from", "to", "by", "a second", "waiting")


def thread_blocks(found: ThreadFindings, styled: bool) -> list[str]:
    """The tables below the finding."""
    blocks = []
    if found.limit.code:
        rows = [[one.told, _place(one.file, one.line), share(one.share)] for one in found.limit.code]
        blocks.append(table(("function", "where", "samples"), rows, title="In the code", styled=styled))
    if found.roles:
        blocks.append(table(ROLE_COLUMNS, role_rows(found.roles[:_MOST_ROLES]), title=_TITLE, styled=styled))
    edges = edge_rows(found.edges)[:_MOST_EDGES]
    if edges:
        blocks.append(table(EDGE_COLUMNS, edges, title="Who ends whose waits", styled=styled))
    locks = [one for one in found.locks if one.share >= _WORTH][:_MOST_LOCKS]
    if locks:
        rows = [
            [one.name, count(one.waits), duration(one.wait_ns / max(1, one.waits)), share(one.share)]
            for one in locks
        ]
        blocks.append(table(("lock", "waits", "mean", "limits"), rows, title="Contended", styled=styled))
    return blocks


def _place(file: str, line: int) -> str:
    return f"{file}:{line}" if line else file


def role_rows(roles: tuple[Role, ...]) -> list[list[str]]:
    """A row for each role."""
    return [
        [
            role.name + (" (spins)" if role.spins else ""),
            count(role.count),
            share(role.limits),
            share(role.running),
            share(role.runnable),
            _blocked(role),
        ]
        for role in roles
    ]


def _blocked(role: Role) -> str:
    """What it is blocked on, and where the rest of its time is: a row's parts sum to the whole."""
    told = [(kind, part) for kind, part in role.blocked.items() if part >= _WORTH][:_MOST_KINDS]
    others = sum(role.blocked.values()) - sum(part for _, part in told)
    missing = 1.0 - role.running - role.runnable - sum(role.blocked.values())
    told += [("others", others)] if others > _MISSES else []
    told += [(_missing(role), missing)] if missing > _MISSES else []
    return ", ".join(f"{kind} {share(part)}" for kind, part in told) or "–"


def _missing(role: Role) -> str:
    """What the time is that no interval tells: Go's own waits and turns lie within those of its threads."""
    if role.name.endswith("Go's scheduler"):
        return "in goroutines"
    return "not seen" if role.threads else "waiting in Go"


def edge_rows(edges: tuple[Edge, ...]) -> list[list[str]]:
    """A row for each edge that somebody waits for."""
    return [
        [edge.source, edge.to, edge.kind, count(round(edge.per_second)), share(edge.waiting)]
        for edge in edges
        if edge.waiting >= _WORTH
    ]
