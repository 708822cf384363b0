"""What making a part of any program faster would buy, by a simulation of the schedule that was captured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from latlab.errors import LatlabError
from latlab.lab.forecast.what_limits import with_limits
from latlab.model.diagnosis.answer import Forecast, ForecastPoint, Interval
from latlab.model.evidence.forecast import ForecastSaid, Withheld
from latlab.model.evidence.said import kind_of, said
from latlab.model.evidence.threads import ThreadReason
from latlab.model.schedule import Schedule, State, Wait
from latlab.model.simulation import Scenario, ScheduleForecast, Simulated
from latlab.model.threads import LimitKind, Role, ThreadFindings
from latlab.schedule.simulation.forecast import forecast
from latlab.schedule.simulation.part import stretch_of
from latlab.schedule.simulation.steps import word_of
from latlab.threads import SHORTEST_S
from latlab.words import duration

__all__ = ["by_schedule", "scenarios_of"]

_WORTH = 0.03  # of the time of the observation: a part that takes less is not asked
_BUSY = 0.2  # of a thread's time: that to make it faster does not help is worth saying
_MOST_ROLES = 2
_OF_THREADS = (LimitKind.THREAD, LimitKind.PROCESS)
_MOST_PROGRESS = 0.6  # of it waited for what limits: without that the program would end earlier
_IN_LOOPS = {"spinning": Withheld.SPINS, "polling": Withheld.LOOKS}
_SPUN = 0.05  # of the time of a role
_OWN_SLEEP = 0.5  # of the time, in one sleep of the thread with which the program ends …
_MEANWHILE = 0.05  # … while others ran for so much of it
_NEXT_TO_NOTHING = 0.01  # of the time, without the part
_WAITS = 0.02  # of its time: who waits less has always work …
_HANDS_ON = 0.02  # … from one that works between its sleeps …
_HELD_UP = 0.05  # … and waits for nobody else for longer
_OF_PYTHON = "GIL"
_BESIDE = 0.5  # of what a role still runs: with more of the others' work beside it the lock is held too often
_HARDLY = 0.05  # of a CPU, for which others want that lock: as little as not at all
_MEETS = 0.15  # of a role's time, that it waits for a lock which another role holds
_MOST_FUNCTION = 0.95  # of its role: who is nearly all of it is told as the role


def by_schedule(
    schedule: Schedule,
    found: ThreadFindings,
    tell: Callable[[str], None],
    over: Callable[[], bool] = lambda: False,
) -> tuple[tuple[Forecast, ...], str]:
    """Forecasts that can be trusted, what limits first; and why there are none, or not all.

    Args:
        over: whether the time for them is over: what is not done by then is left out.
    """
    if schedule.left_out_ns:
        return (), f"of all that happened only the last {duration(1e9 * schedule.seconds)} are analysed"
    if schedule.seconds < SHORTEST_S:
        return (), said(ThreadReason.TOO_SHORT, ns=schedule.seconds * 1e9)
    if found.apart:
        return (), said(Withheld.APART)
    for kind, reason in _IN_LOOPS.items():
        part, name = max(((one.blocked.get(kind, 0.0), one.name) for one in found.roles), default=(0.0, ""))
        if part > _SPUN:
            return (), said(reason, name=name, part=part)
    if (slept := _ends_by_itself(schedule)) > 0:
        return (), said(Withheld.OWN_END, ns=slept)
    if any(kind_of(why) is ThreadReason.SWITCH_INTERVALS for why in found.limit.why_not):
        return (), found.limit.why_not[0]  # waits for the interpreter's lock would be simulated as sleeps
    if source := _source_of_its_own_pace(found):
        return (), said(Withheld.OWN_PACE, name=found.limit.name, source=source)
    if _sleep_apart(found):
        return (), said(Withheld.SLEEP_APART, names=found.limit.name)
    asked = scenarios_of(schedule, found)
    if not asked and found.limit.kind is LimitKind.PROCESS:
        return (), said(Withheld.ELSEWHERE, name=found.limit.name)
    if not asked and any(role.paced and role.name == found.limit.name for role in found.roles):
        return (), said(Withheld.PACED, name=found.limit.name)
    if not asked and (due := [role.name for role in found.roles if _hides_its_work(role)]):
        return (), said(Withheld.MAY_BE_DUE, name=due[0])
    if not asked:
        named = found.role(found.limit.name)
        busy = named is not None and named.running * named.count > _WORTH
        return (), said(Withheld.NOT_ASKED, name=named.name) if busy and named else said(
            Withheld.NOTHING_TO_ASK
        )
    tell("simulating what its threads did, unchanged and with parts of it faster")
    # Of more turns than can be simulated those in the middle, where they are like all others.
    stretch = stretch_of(schedule) or schedule
    locks = {word_of(lock.address) for lock in found.locks if lock.address and lock.name != _OF_PYTHON}
    try:
        base, made = forecast(stretch, asked, locks=locks, over=over)
    except LatlabError as error:
        return (), error.what
    if stretch is not schedule:
        longer = schedule.seconds / stretch.seconds
        base, made = _scaled(base, longer), tuple(_of_the_whole(one, longer) for one in made)
    bad = [f"{one.scenario.name}: {one.withheld}" for one in made if one.withheld]
    why = base.withheld or "; ".join(bad)
    if found.limit.kind in _OF_THREADS:
        own = [one for one in made if _is_of(one.scenario, found.limit.name)]
        # What others would buy says nothing where what limits can't be told.
        if not own:
            return (), base.withheld or said(Withheld.NOT_ASKED, name=found.limit.name)
        if own[0].withheld:
            return (), why
        if own[0].kind == "none" and found.limit.share >= _MOST_PROGRESS:
            return (), said(Withheld.NO_GAIN, name=found.limit.name, part=found.limit.share)
    if found.limit.kind is LimitKind.LOCK and any(one.kind == "none" for one in made):
        # Who holds the lock for which all wait would help by being faster: the simulation misses the lock.
        return (), said(Withheld.LOCK_MISSED, name=found.limit.name)
    for one in made:
        if met := _meets(one, found):
            why = why or said(Withheld.MEETS_OTHERS, name=one.scenario.name, who=met[0], part=met[1])
    made = tuple(_until_the_lock(one, found) for one in made if not (one.withheld or _meets(one, found)))
    if shared := [one.scenario.name for one in made if not one.points]:
        why = why or said(Withheld.OF_THE_LOCK, name=shared[0])
    made = tuple(one for one in made if one.points)
    news = [one for one in made if not _of_no_news(one, base, found)]
    if made and not news:
        return (), why or said(Withheld.NO_ONE_HELPS)
    return tuple(_told(one, base, schedule, found) for one in news), why


def _scaled(base: Simulated, longer: float) -> Simulated:
    times = round(base.recorded_ns * longer), round(base.simulated_ns * longer)
    return replace(base, recorded_ns=times[0], simulated_ns=times[1])


def _of_the_whole(one: ScheduleForecast, longer: float) -> ScheduleForecast:
    """What a stretch tells of all of the program, which is `longer` times as long."""
    points = tuple(replace(point, time_ns=_longer(point.time_ns, longer)) for point in one.points)
    baseline = None if one.baseline is None else _longer(one.baseline, longer)
    return replace(one, points=points, baseline=baseline, spent_ns=one.spent_ns * longer)


def _longer(time: Interval, longer: float) -> Interval:
    low, high = (None if end is None else end * longer for end in (time.low, time.high))
    return Interval(time.value * longer, low, high)


def scenarios_of(schedule: Schedule, found: ThreadFindings) -> list[Scenario]:
    """What is asked: the parts that the program's progress waited for."""
    asked: list[Scenario] = []
    for lock in found.locks:
        # Of a monitor, a file's lock or a set of semaphores no one word is waited for.
        if found.limit.kind is LimitKind.LOCK and lock.name == found.limit.name and lock.address:
            asked.append(Scenario("lock", f"the work under {lock.name}", object=word_of(lock.address)))
    # Who is paced by due times would only sleep for longer.
    roles = [one for one in found.roles if not (one.spins or one.paced) and _own(schedule, one)]
    roles = [one for one in roles if not _runs_others(one, found)]
    for role in roles[:_MOST_ROLES]:
        if role.asleep:
            asked.append(Scenario("timer", f"the sleeps of {role.name}", role.threads))
        elif _hides_its_work(role):
            continue
        elif found.alone in role.threads:
            asked.append(Scenario("role", found.limit.name, (found.alone,)))
        elif role.running * role.count > _WORTH and (role.limits > _WORTH or role.running > _BUSY):
            asked.append(Scenario("role", role.name, role.threads))
            # Whether a function's time is spent under the lock or outside of it, the samples don't tell.
            asked += _hottest(role) if found.limit.kind is not LimitKind.LOCK else []
    if _disk_ns(schedule) > _WORTH * (schedule.ended_ns - schedule.began_ns):
        asked.append(Scenario("disk", "the disk"))
    return asked


def _hides_its_work(role: Role) -> bool:
    """Whether a faster role may only sleep for longer, for all that one run tells."""
    return role.may_be_due and not role.asleep and role.limits > _WORTH


def _is_of(scenario: Scenario, name: str) -> bool:
    return scenario.kind in ("role", "timer") and scenario.name in (name, f"the sleeps of {name}")


def _own(schedule: Schedule, role: Role) -> bool:
    return bool(role.threads) and not any(schedule.threads[one].peer for one in role.threads)


def _runs_others(role: Role, found: ThreadFindings) -> bool:
    """Whether its threads run what other roles do, as those of Go's scheduler run goroutines.

    It is the threads that are simulated: what they ran is the others' work.
    """
    made_up = [other for other in found.roles if other.entry and not other.threads]
    return any(set(other.pids) & set(role.pids) for other in made_up)


def _hottest(role: Role) -> list[Scenario]:
    """Its hottest function, where it is a part of the role's work."""
    code = role.code[0] if role.code and not role.asleep else None
    if code is None or not code.function or not _WORTH < code.share < _MOST_FUNCTION:
        return []
    if code.function in (role.name, role.entry):
        return []  # what else it does, it calls
    return [
        Scenario("function", f"{code.function} in {role.name}", role.threads, function=code.function),
    ]


def _ends_by_itself(schedule: Schedule) -> int:
    """The sleep of a main thread that lets others work for a while, and then ends the program; 0 without one.

    How long such a program takes says nothing of how much it does.
    """
    main = next((at for at, one in enumerate(schedule.threads) if one.tid == one.pid and not one.peer), -1)
    rows = schedule.of_thread(main) if main >= 0 else schedule.intervals[:0]
    sleeps = rows[(rows["state"] == State.BLOCKED) & (rows["wait"] == Wait.TIMER)]
    if not sleeps.size:
        return 0
    longest = sleeps[np.argmax(sleeps["end"] - sleeps["begin"])]
    begin, end = int(longest["begin"]), int(longest["end"])
    if schedule.exit_code is None or end - begin < _OWN_SLEEP * (schedule.ended_ns - schedule.began_ns):
        return 0
    ran = schedule.intervals[
        (schedule.intervals["state"] == State.RUNNING) & (schedule.intervals["thread"] != main)
    ]
    own = [at for at, one in enumerate(schedule.threads) if not one.peer]
    ran = ran[np.isin(ran["thread"], own)]
    inside = np.minimum(ran["end"], end) - np.maximum(ran["begin"], begin)
    return end - begin if int(np.maximum(inside, 0).sum()) >= _MEANWHILE * (end - begin) else 0


def _source_of_its_own_pace(found: ThreadFindings) -> str:
    """A role that sleeps between pieces of work, beside one that limits and never waits; "" without one.

    Where nothing holds the sleeper up (datagrams are dropped, a queue grows), the time of the program may be
    the sleeper's: what limits would only lose less, or have less before it.
    """
    limit = found.role(found.limit.name) if found.limit.kind in _OF_THREADS else None
    if limit is None or sum(limit.blocked.values()) > _WAITS:
        return ""
    for role in found.roles:
        others = sum(part for what, part in role.blocked.items() if what != "timer")
        works = role.running >= _HANDS_ON and role.limits > _WORTH
        if role.name != limit.name and role.asleep and works and others <= _HELD_UP:
            return role.name
    return ""


def _sleep_apart(found: ThreadFindings) -> bool:
    """Whether the limit is the sleeps of several, none of which wakes another: they may share memory."""
    names = set(found.limit.name.split(", "))
    if found.limit.kind is not LimitKind.TIMER or len(names) < 2:
        return False
    return not any({edge.source, edge.to} <= names and edge.source != edge.to for edge in found.edges)


def _meets(one: ScheduleForecast, found: ThreadFindings) -> tuple[str, float] | None:
    """Who mostly holds a lock for which the asked role waits, and the share of its time that it does so.

    In the simulation it meets the holder as often as it did. Who works less between two tries may meet it
    more often, or less: with a lock that readers share even the sign of the change is not known.
    """
    role = next((role for role in found.roles if role.threads == one.scenario.threads), None)
    if role is None or one.scenario.kind not in ("role", "function"):
        return None
    met = [edge for edge in found.edges if edge.to == role.name and edge.source != role.name]
    met = [edge for edge in met if edge.kind == "lock"]
    part = sum(edge.waiting for edge in met)
    return (max(met, key=lambda edge: edge.waiting).source, part) if part >= _MEETS else None


def _until_the_lock(one: ScheduleForecast, found: ThreadFindings) -> ScheduleForecast:
    """The same up to where others that want the interpreter's lock are as little beside it as they are now.

    Who has less work comes back for the lock sooner, and finds it held more often: what is played is how
    long each waited for it in rounds that were longer.
    """
    role = next((role for role in found.roles if role.threads == one.scenario.threads), None)
    locks = [{*lock.waiters, *lock.holders} for lock in found.locks if lock.name == _OF_PYTHON]
    wanting = set[str]().union(*locks)
    if role is None or role.name not in wanting or one.kind == "none":
        return one
    others = sum(
        other.running * other.count
        for other in found.roles
        if other is not role and other.name in wanting and set(other.pids) & set(role.pids)
    )
    works = role.running * role.count
    kept = tuple(
        point for point in one.points if others <= max(_HARDLY, _BESIDE * works * (1 - point.speedup))
    )
    if len(kept) == len(one.points):
        return one
    return replace(one, points=kept, kind="open", knee=None, takes_over=None)


def _of_no_news(one: ScheduleForecast, base: Simulated, found: ThreadFindings) -> bool:
    """That what takes hardly any time and does not limit does not help; or one alone, where none is named."""
    if one.kind != "none" or _is_of(one.scenario, found.limit.name):
        return False
    return found.limit.kind is LimitKind.UNKNOWN or one.spent_ns < _WORTH * base.recorded_ns


def _disk_ns(schedule: Schedule) -> float:
    rows = schedule.intervals
    waits = rows[(rows["state"] == State.BLOCKED) & np.isin(rows["wait"], (Wait.DISK, Wait.SYNC))]
    return float((waits["end"] - waits["begin"]).sum())


def _told(one: ScheduleForecast, base: Simulated, schedule: Schedule, found: ThreadFindings) -> Forecast:
    assert one.kind is not None
    takes_over = _name(one.takes_over, found)
    knee = None if one.knee is None else Interval(one.knee)
    points = tuple(ForecastPoint(point.speedup, None, 0, time_ns=point.time_ns) for point in one.points)
    told = Forecast(
        method="schedule",
        stage=one.scenario.name,
        kind=one.kind,
        service_ns=one.spent_ns,
        flat_ns=None,
        baseline=ForecastPoint(None, None, 0, time_ns=Interval(float(base.recorded_ns))),
        points=points,
        knee=knee,
        takes_over=takes_over,
        drift=Interval(base.error),
        rounds=0,
        sentence=_sentence(one, base, takes_over),
    )
    if one.scenario.kind == "timer" and one.kind != "none":
        # Sleeps may be a wait, or the pace of what ends at a time of the clock: one run doesn't tell which.
        told = replace(told, sentence=said(ForecastSaid.AS_OFTEN, sentence=told.sentence))
    return with_limits(told)


def _name(who: int | str | None, found: ThreadFindings) -> str | None:
    if who is None or who == "cpus":
        return None if who is None else "the CPUs"
    return next((role.name for role in found.roles if who in role.threads), None)


def _sentence(one: ScheduleForecast, base: Simulated, takes_over: str | None) -> str:
    name, own, least = one.scenario.name, float(base.recorded_ns), one.points[-1].time_ns.value
    if one.kind == "none":
        return said(ForecastSaid.PART_USELESS, part=name, without_ns=least)
    if one.kind == "open":
        gain = {"faster_ns": least, "base_ns": own, "saved": max(0.0, 1.0 - least / own)}
        return said(ForecastSaid.PART_OPEN, part=name, faster=one.points[-1].speedup, **gain)
    gain = {"without_ns": least, "base_ns": own, "saved": max(0.0, 1.0 - least / own)}
    if one.kind == "total" and least < _NEXT_TO_NOTHING * own:
        return said(ForecastSaid.PART_ALL, part=name)
    if one.kind == "total":
        return said(ForecastSaid.PART_PAYS, part=name, **gain)
    alone = takes_over is None or takes_over == name
    then = "" if alone else said(ForecastSaid.THEN_LIMITS, who=takes_over)
    return said(ForecastSaid.PART_PAYS_UP_TO, part=name, knee=one.knee or 1.0, then=then, **gain)
