"""Who hands work to whom, and the roles as measured."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from latlab.model.schedule import SEVERAL, Schedule, Source, State, Wait
from latlab.model.threads import Edge, Role, Slice
from latlab.threads._locks import Word
from latlab.threads._roles import Group
from latlab.threads._tracks import IN_VAIN, LOCKABLE, Track

__all__ = ["Times", "beside", "edges_of", "housekeepers", "roles_of", "slices_of", "times_of"]

_KINDS: dict[int, str] = {
    Wait.FUTEX: "futex",
    Wait.PIPE: "pipe",
    Wait.SOCKET: "socket",
    Wait.POLL: "poll",
    Wait.EVENTFD: "eventfd",
    Wait.CHILD: "child",
    Wait.SIGNAL: "signal",
    Wait.FILE_LOCK: "file lock",
    Wait.SEMAPHORE: "semaphore",
    Wait.SPIN: "spinning",
    Wait.LOOK: "polling",
}
_NAMES: dict[int, str] = {
    Wait.NONE: "unknown",
    Wait.UNKNOWN: "unknown",
    Wait.FUTEX: "futex",
    Wait.PIPE: "pipe",
    Wait.SOCKET: "socket",
    Wait.POLL: "poll",
    Wait.EVENTFD: "eventfd",
    Wait.DISK: "disk",
    Wait.SYNC: "sync",
    Wait.FAULT: "page fault",
    Wait.TIMER: "timer",
    Wait.SIGNAL: "signal",
    Wait.CHILD: "child",
    Wait.STOPPED: "stopped",
    Wait.THROTTLED: "quota",
    Wait.IO_URING: "io_uring",
    Wait.FILE_LOCK: "file lock",
    Wait.SEMAPHORE: "semaphore",
    Wait.SPIN: "spinning",
    Wait.LOOK: "polling",
}
# Plain numbers: to compare with a member of an enumeration takes several times as long.
_RUNNING, _RUNNABLE, _BLOCKED = int(State.RUNNING), int(State.RUNNABLE), int(State.BLOCKED)
_TIMED, _SLEEP = int(Source.TIMER), int(Wait.TIMER)
_OWN = frozenset((Wait.DISK, Wait.SYNC, Wait.FAULT, Wait.THROTTLED, Wait.IO_URING))
_TALKS = frozenset(("poll", "socket", "pipe", "eventfd"))
_BINS = 240
_MOST_SLICES = 40
_ALWAYS = 0.9  # of its life, a thread that computes and waits for nobody
_AS_MUCH = 0.5  # of what it runs, at least, others run that work together
_HARDLY_RUNS = 0.05  # of its life, a housekeeper …
_HARDLY_WAKES = 0.02  # … and after so many of its sleeps it wakes another thread
_TOGETHER = 0.1  # of the observed time, that these wait for each other
_TO_THE_END = 0.95  # of its life: who is joined then has kept nobody waiting for itself alone


@dataclass(slots=True)
class Times:
    """Of one thread, in ns."""

    life: int
    running: int
    runnable: int
    blocked: dict[str, int]
    own: int  # waits that depend on nobody else in the program: disk, quota
    timer: int
    inner: int  # waits that threads of its own role ended
    sleeps: int  # how often it waited for a timer
    ended: dict[tuple[int, str], list[int]]  # (role that ended it, kind) -> [number, ns]
    vain: int = 0  # of `timer`: sleeps, and waits that their time-out ended, of which nothing came
    looks: int = 0  # of `vain`: waits for descriptors, as an event loop does
    spun: int = 0  # that it ran in loops that wait: blocked by `spinning`, and on a CPU

    @property
    def used(self) -> int:
        """What it had of the CPUs."""
        return self.running + self.spun


def times_of(
    schedule: Schedule, tracks: Sequence[Track], role_of: Mapping[int, int], words: Mapping[int, Word]
) -> list[Times]:
    """One for each thread."""
    out = []
    for track in tracks:
        thread = schedule.threads[track.thread]
        life = max(1, thread.ended_ns - thread.began_ns)
        idle, naps = _Idle(schedule, track), 0
        one = Times(life, 0, 0, defaultdict(int), 0, 0, 0, 0, defaultdict(lambda: [0, 0]))
        rows = zip(
            track.state, track.begin, track.end, track.wait, track.source, track.waker, track.object,
            strict=True,
        )  # fmt: skip
        for at, (state, begin, end, wait, source, waker, key) in enumerate(rows):
            time = end - begin
            if state == _RUNNING:
                one.running += time
            elif state == _RUNNABLE:
                one.runnable += time
            elif state == _BLOCKED:
                one.blocked[_NAMES.get(wait, "unknown")] += time
                if wait in _OWN:
                    one.own += time
                elif source == _TIMED or wait == _SLEEP:
                    one.timer += time
                    one.sleeps += 1
                    if idle.after(at, napped=key == -1):
                        one.vain += time
                        one.looks += time if key == SEVERAL or key in schedule.objects else 0
                        naps += time if key == -1 else 0
                elif waker >= 0:
                    word = words.get(key) if wait in LOCKABLE else None
                    kind = "lock" if word is not None and word.lock else _KINDS.get(wait, "other")
                    role = role_of[waker]
                    if role == role_of[track.thread]:
                        one.inner += time
                    cell = one.ended[role, kind]
                    cell[0] += key != IN_VAIN
                    cell[1] += time
        if one.looks or not _TALKS.isdisjoint(one.blocked):
            one.vain -= naps  # who serves others lets them wait while it sleeps, also those that nobody saw
        one.spun = track.spun
        out.append(one)
    return out


class _Idle:
    """Whether nothing came of a wait that its time-out ended: the next one ended in that manner, too, and
    nobody of another process was woken in between; after a plain sleep no other thread at all.
    """

    def __init__(self, schedule: Schedule, track: Track) -> None:
        self._schedule, self._track = schedule, track
        self._woke: tuple[list[int], list[int]] | None = None

    def after(self, at: int, *, napped: bool) -> bool:
        """Of one wait, by its number."""
        track = self._track
        until = next(
            (i for i in range(at + 1, len(track.state)) if track.state[i] == _BLOCKED), len(track.state)
        )
        if until < len(track.state) - 1 and track.source[until] != _TIMED:
            return False
        end = track.begin[until] if until < len(track.state) else track.end[-1]
        woke = self._others()[0 if napped else 1]
        found = bisect_left(woke, track.end[at])
        return found == len(woke) or woke[found] > end

    def _others(self) -> tuple[list[int], list[int]]:
        """When it woke another thread, and when one of another process."""
        if self._woke is None:
            wakes, threads = self._schedule.wakes, self._schedule.threads
            mine = wakes[wakes["waker"] == self._track.thread]
            pid = threads[self._track.thread].pid
            times = mine["time"].tolist()
            apart = [
                time
                for time, wakee in zip(times, mine["wakee"].tolist(), strict=True)
                if wakee < 0 or threads[wakee].pid != pid
            ]
            self._woke = times, apart
        return self._woke


def beside(
    schedule: Schedule, groups: Sequence[Group], role_of: Mapping[int, int], times: Sequence[Times], root: int
) -> frozenset[int]:
    """Threads that compute by themselves beside others that work together: these others' limit is asked for.

    They wait for nobody, and nobody waits for them, but for who joins them when the others end as well. What
    the first thread of the program computes is its own work.

    Args:
        root: its process.
    """
    window = schedule.seconds * 1e9
    waited: dict[int, int] = defaultdict(int)  # role -> waits of other roles that it ended
    for thread, one in enumerate(times):
        for (role, _), (number, _) in one.ended.items():
            waited[role] += number if role != role_of[thread] else 0
    alone: set[int] = set()
    for index, group in enumerate(groups):
        members = [times[thread] for thread in group.threads]
        first = any(schedule.threads[thread].tid == root for thread in group.threads)
        computes = all(one.running + one.runnable >= _ALWAYS * one.life and not one.ended for one in members)
        whole = all(one.life >= _ALWAYS * window for one in members)
        if computes and whole and not first and waited[index] <= len(members):
            alone.update(group.threads)
    rest = [(thread, one) for thread, one in enumerate(times) if thread not in alone]
    ran = sum(one.used for _, one in rest)
    joined = [one for thread, one in rest if schedule.threads[thread].tid != root]
    together = sum(time for one in joined for _, time in one.ended.values())
    ends = max((schedule.threads[thread].ended_ns for thread, one in rest if one in joined), default=0)
    last = max((schedule.threads[thread].ended_ns for thread in alone), default=0) - schedule.began_ns
    enough = ran >= _AS_MUCH * max((times[thread].running for thread in alone), default=0)
    until_end = ends - schedule.began_ns >= _TO_THE_END * last
    return frozenset(alone) if enough and until_end and together >= _TOGETHER * window else frozenset()


def housekeepers(
    schedule: Schedule, groups: Sequence[Group], role_of: Mapping[int, int], times: Sequence[Times], root: int
) -> frozenset[int]:
    """Threads of a server that sleep, look after something, and sleep again: no client waits for that.

    They hardly run, and end next to no wait of anybody else. The server's first thread is none of them.
    """
    ended: dict[int, int] = defaultdict(int)  # role -> waits of other roles that it ended
    for thread, one in enumerate(times):
        for (role, _), (number, _) in one.ended.items():
            ended[role] += number if role != role_of[thread] else 0
    wakes = schedule.wakes
    found: set[int] = set()
    for index, group in enumerate(groups):
        members = [times[thread] for thread in group.threads]
        sleeps, life = sum(one.sleeps for one in members), sum(one.life for one in members)
        if any(schedule.threads[thread].tid == root for thread in group.threads):
            continue
        asleep = sum(one.timer for one in members) >= _ALWAYS * life
        works = sum(one.used for one in members) >= _HARDLY_RUNS * life
        woken = wakes[np.isin(wakes["waker"], group.threads)]
        others = int((~np.isin(woken["wakee"], group.threads)).sum())
        if asleep and not works and max(ended[index], others) <= max(1, _HARDLY_WAKES * sleeps):
            found.update(group.threads)
    return frozenset(found)


def busy_of(one: Times) -> float:
    """Share of a thread's life in which it waits for no other role, and doesn't sleep."""
    return min(1.0, (one.running + one.runnable + one.own + one.inner) / one.life)


def shares_of(members: Sequence[Times], schedule: Schedule) -> tuple[float, float]:
    """Shares of a role's time in which its threads ran, and were runnable without a CPU; as `Role.busy`."""
    life = sum(one.life for one in members)
    whole = max(life, _slots(life, schedule))
    return sum(one.running for one in members) / whole, sum(one.runnable for one in members) / whole


def roles_of(
    schedule: Schedule,
    groups: Sequence[Group],
    times: Sequence[Times],
    limits: Sequence[float],
    spins: frozenset[int],
    paced: frozenset[int] = frozenset(),
    undecided: frozenset[int] = frozenset(),
) -> tuple[Role, ...]:
    """The roles as they are told."""
    out = []
    for group, limit in zip(groups, limits, strict=True):
        life = sum(times[thread].life for thread in group.threads)
        blocked: dict[str, float] = defaultdict(float)
        for thread in group.threads:
            for kind, time in times[thread].blocked.items():
                blocked[kind] += time / life
        members = [times[thread] for thread in group.threads]
        out.append(
            Role(
                name=group.name,
                count=len(group.threads),
                pids=tuple(sorted({schedule.threads[thread].pid for thread in group.threads})),
                running=sum(one.running for one in members) / life,
                runnable=sum(one.runnable for one in members) / life,
                blocked=dict(sorted(blocked.items(), key=lambda item: -item[1])),
                busy=sum(busy_of(one) * one.life for one in members) / max(life, _slots(life, schedule)),
                limits=limit,
                process=group.process,
                entry=group.entry,
                threads=group.threads,
                spins=all(thread in spins for thread in group.threads),
                paced=all(thread in paced for thread in group.threads),
                may_be_due=any(thread in undecided for thread in group.threads),
            )
        )
    return tuple(out)


def _slots(life: int, schedule: Schedule) -> float:
    """The observed time of as many threads as there were at once: threads born and gone share a place."""
    window = schedule.seconds * 1e9
    return max(1, round(life / window)) * window


def edges_of(groups: Sequence[Group], times: Sequence[Times], seconds: float) -> tuple[Edge, ...]:
    """Who ends whose waits."""
    edges = []
    for index, group in enumerate(groups):
        summed: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
        for thread in group.threads:
            for key, (number, time) in times[thread].ended.items():
                summed[key][0] += number
                summed[key][1] += time
        for (source, kind), (number, time) in summed.items():
            if source == index and kind != "lock" and len(group.threads) == 1:
                continue
            waiting = time / 1e9 / seconds / len(group.threads)
            edges.append(Edge(groups[source].name, group.name, kind, number / seconds, waiting))
    return tuple(sorted(edges, key=lambda edge: -edge.waiting))


def slices_of(schedule: Schedule, tracks: Sequence[Track], times: Sequence[Times]) -> tuple[Slice, ...]:
    """The timeline as it is drawn: of the busiest threads, in bins."""
    import numpy as np

    order = sorted(range(len(tracks)), key=lambda i: -(times[i].running + times[i].runnable))
    edges = np.linspace(schedule.began_ns, schedule.ended_ns, _BINS + 1)
    width = max(1.0, float(edges[1] - edges[0]))
    out = []
    for thread in sorted(order[:_MOST_SLICES]):
        track = tracks[thread]
        state = np.asarray(track.state)
        rows = []
        for wanted in (State.RUNNING, State.RUNNABLE):
            mask = state == wanted
            begin = np.asarray(track.begin, np.float64)[mask]
            end = np.asarray(track.end, np.float64)[mask]
            if not begin.size:
                rows.append((0.0,) * _BINS)
                continue
            taken = np.cumsum(end - begin)
            at = np.stack([begin, end], axis=1).ravel()
            value = np.stack([taken - (end - begin), taken], axis=1).ravel()
            until = np.interp(edges, at, value, left=0.0, right=float(taken[-1]))
            rows.append(tuple(np.round(np.minimum(1.0, np.diff(until) / width), 3).tolist()))
        out.append(Slice(thread, rows[0], rows[1]))
    return tuple(out)
