"""What makes the slow requests slow: the part by which they differ from the median ones. Pure.

Over 400 lines: each rule by which one part is named before the others is a few lines, and they are one order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import comb

from latlab.model.evidence.requests import NoTail, Occupant, TailPlace
from latlab.model.evidence.said import kind_of, said, values_of
from latlab.model.requests import CommonTrait, PartKind, TailAnswer
from latlab.requests.occupants import OBSERVED
from latlab.requests.parts import PREEMPTED, Spent
from latlab.requests.places import INTERPRETER
from latlab.requests.where import function_of, shortened
from latlab.words import plural, share

__all__ = ["chance_of", "holding", "longest", "others_of", "tail_answer"]

_FEWEST = 5  # slow requests of which something is said
_LONGER = 1.5  # times as long as the median ones, for there to be a tail
_MAIN = 0.5  # of the difference
_AGREE = 0.55  # of those slow ones that are really long
# Or else the largest by far: so much of the difference, so many times the next, the largest in so many.
_LARGEST, _NEXT, _MOSTLY = 0.35, 1.25, 0.75
_USUAL = 0.1  # of the median ones may show the same
_RARE = 1e-3  # p value
_MAKES: tuple[PartKind, ...] = ("running", "fault", "send")  # an answer, and hands it over
_MADE = 0.7  # of the difference
_OFTEN = 3.0  # times as long as usual, that running is a cause
_DIRECT = 0.2  # of the difference, by which a cause is what they themselves do, too
_BEHIND = ("runnable", "receive-queue", "thread")  # are what others do
_TOGETHER = 3
_SHORTER = 4  # steps of `shortened`
_NEARLY_ALL = 0.8
_NAMED, _NO_THREAD = (Occupant.HAD, Occupant.CLIENT, Occupant.NOBODY), "no thread"
_SIZE = "answer's size"
_SLOWEST_NS = 5.0  # a byte of a large answer: 200 MB/s


def tail_answer(
    tail: Sequence[Spent],
    median: Sequence[Spent],
    tail_causes: Sequence[Spent] = (),
    median_causes: Sequence[Spent] = (),
    common: Sequence[CommonTrait] = (),
    held: Sequence[Spent] = (),
    followed: Sequence[Spent] = (),
    tail_through: Sequence[Spent] = (),
    median_through: Sequence[Spent] = (),
    beyond: Sequence[Spent] = (),
    further: Sequence[Spent] = (),
) -> TailAnswer:
    """Which part makes the slow requests longer than the median ones; withheld where no single one does.

    Args:
        tail, median: the parts of each request. tail_causes, median_causes: likewise, by `Account.causes`.
        common: what the slow ones have in common. held, followed: of the slow ones, by
            `Account.held` and `Account.followed`. tail_through, median_through: by `Account.through`.
        beyond, further: of the slow ones, by `Account.beyond` and `Account.further`.
    """
    kept = others_of(tail)
    tail, tail_causes, held, followed, tail_through, beyond, further = (
        [group[at] for at in kept] if group else []
        for group in (tail, tail_causes, held, followed, tail_through, beyond, further)
    )
    tail, median, tail_causes, median_causes, tail_through, median_through = (
        [_unobserved(one) for one in group]
        for group in (tail, median, tail_causes, median_causes, tail_through, median_through)
    )
    answer = replace(_whole(tail, median), common=tuple(common))
    if not answer.of_slow:
        return answer
    caused = _whole(tail_causes, median_causes) if tail_causes else answer
    large = _made(answer, common, _making(tail_causes or tail, median_causes or median))
    if large is not None:
        return large
    synced = _synced(answer, tail, median)
    if synced is not None:
        return synced
    through = _through(answer, tail_through, median_through)
    if answer.kind == "lock" and not answer.withheld:
        # One thread of an interpreter runs at a time, as in an event loop: who waits for its lock waits for
        # what that one does; but that it has no CPU at times is not why it holds the lock.
        does = through if answer.where.startswith(INTERPRETER) else None
        if does is not None and does.kind not in ("lock", "runnable"):
            return replace(does, common=tuple(common))
        return _with_others(answer, held, beyond)
    if answer.kind == "process" and not answer.withheld:
        return _with_others(answer, followed, further)
    if tail_causes and (answer.withheld or answer.kind in _BEHIND):
        # What they wait for behind others is the same thing as what these others do: it has one name.
        enough = caused.kind != "running" or _computes(tail_causes, median_causes)
        if not caused.withheld and caused.where and enough and (
            answer.withheld or answer.kind != "runnable" or caused.kind == "running"
            or kind_of(caused.where) in (TailPlace.BURST, TailPlace.MANY, TailPlace.CROWD)
        ):  # fmt: skip
            direct = dict(answer.candidates).get(caused.kind, 0.0)
            caused = replace(caused, behind=max(0.0, caused.share - direct), common=tuple(common))
            return _with_others(caused, held, beyond) if caused.kind == "lock" else caused
    return replace(through, common=tuple(common)) if answer.withheld and through is not None else answer


def _with_others(answer: TailAnswer, did: Sequence[Spent], further: Sequence[Spent]) -> TailAnswer:
    """With what those did that were waited for; where they waited for a process, what that one did."""
    holder = _holder(did)
    process = holder.partition(" ")[0] == "process"
    return replace(
        answer, holder=holder, further=_holder(further) if process else "",
        ran=_ran(did) if answer.kind == "lock" else "",
    )  # fmt: skip


def _through(answer: TailAnswer, tail: Sequence[Spent], median: Sequence[Spent]) -> TailAnswer | None:
    """What some of them do, while others wait for a lock that somebody has who does it, too: one cause."""
    if not tail:
        return None
    found = _whole(tail, median)
    direct = dict(answer.candidates).get(found.kind, 0.0)
    if found.withheld or direct < _DIRECT:
        return None
    return replace(found, behind=max(0.0, found.share - direct))


def holding(around: TailAnswer, hundredth: TailAnswer) -> TailAnswer:
    """What is said of the requests around p99.9, or of the slowest hundredth where that says more.

    The slowest of all may be those that hold a lock, and do something long meanwhile, for which the others
    wait: then it is the lock. And around p99.9 there may be too few.
    """
    if hundredth.withheld:
        return around
    held = hundredth.kind == "lock" and around.kind == hundredth.holder.partition(" ")[0]
    return hundredth if around.withheld or held else around


def others_of(tail: Sequence[Spent]) -> list[int]:
    """Which of the slow ones are not late by what observes, for most of their time; all where too few are."""
    found = [
        at for at, one in enumerate(tail) if one.get(("runnable", OBSERVED), 0.0) <= sum(one.values()) / 2
    ]
    return found if len(found) >= _FEWEST else list(range(len(tail)))


def _unobserved(one: Spent) -> Spent:
    """Without the time in which what observes had the CPU: it is nobody's cause."""
    return {key: ns for key, ns in one.items() if key != ("runnable", OBSERVED)}


def _computes(tail: Sequence[Spent], median: Sequence[Spent]) -> bool:
    """Whether they run for much longer than usual: that they are preempted on top of that comes of it.

    Who has no CPU for longer than it computes is late by those who have it.
    """

    def mean(group: Sequence[Spent], preempted: bool) -> float:
        total = 0.0
        for one in group:
            total += sum(
                ns
                for (kind, where), ns in one.items()
                if kind == "running" and (where == PREEMPTED) is preempted
            )
        return total / len(group)

    runs, usually = mean(tail, False), mean(median, False)
    return runs >= _OFTEN * usually and runs - usually >= mean(tail, True) - mean(median, True)


def _making(tail: Sequence[Spent], median: Sequence[Spent]) -> float:
    """Of the difference, what making answers and handing them over takes.

    On one machine that is done in interrupts, too, and by a client that has the CPU while it receives.
    """

    def mean(group: Sequence[Spent], all_of_it: bool) -> float:
        return sum(
            ns
            for one in group
            for (kind, where), ns in one.items()
            if all_of_it
            or kind in (*_MAKES, "interrupt")
            or (kind == "runnable" and kind_of(where) is Occupant.CLIENT)
        ) / len(group)  # fmt: skip

    extra = mean(tail, True) - mean(median, True)
    return (mean(tail, False) - mean(median, False)) / extra if extra > 0 else 0.0


def _made(answer: TailAnswer, common: Sequence[CommonTrait], made: float) -> TailAnswer | None:
    """Large answers, where making and sending them is what takes the time: it has several parts."""
    size = next((one for one in common if one.what == _SIZE), None)
    if size is None or made < _MADE or size.slow < _AGREE * size.of_slow:
        return None
    if answer.extra_ns > _SLOWEST_NS * size.amount:
        return None  # so few bytes don't take that long: it is what they are computed from
    return replace(
        answer, withheld="", kind="send", where=said(TailPlace.ANSWERS, size=size.value), share=made,
        where_share=made,
        slow=size.slow, of_slow=size.of_slow, median=size.median, of_median=size.of_median,
        p_value=size.p_value,
    )  # fmt: skip


def _synced(answer: TailAnswer, tail: Sequence[Spent], median: Sequence[Spent]) -> TailAnswer | None:
    """The disk, where the slow ones alone wait for it, in a function that runs beside it for as long.

    Who makes data durable writes it first, and the kernel computes for that: on a fast disk for longer than
    it is waited for.
    """
    share_of = dict(answer.candidates)
    disk, runs = share_of.get("disk", 0.0), share_of.get("running", 0.0)
    undecided = kind_of(answer.withheld) is NoTail.NO_SINGLE if answer.withheld else answer.kind == "running"
    if not undecided or disk < _DIRECT or disk < runs / 2 or disk + runs < _MAIN:
        return None
    usually = sum(_means(median).values())
    least = _USUAL * answer.extra_ns
    has, few = (
        sum(sum(ns for (kind, _), ns in one.items() if kind == "disk") >= least for one in group)
        for group in (_long(tail, usually), median)
    )
    long = len(_long(tail, usually))
    p_value = chance_of(has, long, few, len(median))
    where, _ = _where(tail, median, "disk", disk * answer.extra_ns)
    sync, function = shortened(where, 1), function_of(where)
    if has < max(_FEWEST, _NEARLY_ALL * long) or few > max(1.0, _USUAL * len(median)) or p_value > _RARE:
        return None
    ran = {
        place: ns for (kind, place), ns in _summed(tail).items() if kind == "running" and function_of(place)
    }
    there = sum(ns for place, ns in ran.items() if function_of(place) == function)
    if not function or sync == where or 2 * there <= sum(ran.values()):
        return None
    return replace(
        answer, withheld="", kind="disk", where=said(TailPlace.SYNCED, sync=sync, function=function),
        share=disk + runs, where_share=disk + runs, slow=has, of_slow=long, median=few, p_value=p_value,
    )  # fmt: skip


def _whole(tail: Sequence[Spent], median: Sequence[Spent]) -> TailAnswer:
    """As `_judged`; where nothing decides, pages that were touched first are part of what touched them."""
    answer = _judged(tail, median)
    if not answer.withheld or not any(kind == "fault" for kind, _ in answer.candidates):
        return answer
    computed = _judged([_with_faults(one) for one in tail], [_with_faults(one) for one in median])
    return computed if not computed.withheld and computed.kind == "running" else answer


def _with_faults(one: Spent) -> Spent:
    """Pages that a running thread touched first are told by their usual price: it is time in which it ran."""
    found: Spent = {}
    for (kind, where), ns in one.items():
        key: tuple[PartKind, str] = ("running", "") if kind == "fault" and where else (kind, where)
        found[key] = found.get(key, 0.0) + ns
    return found


def _judged(tail: Sequence[Spent], median: Sequence[Spent]) -> TailAnswer:
    if len(tail) < _FEWEST or len(median) < _FEWEST:
        return TailAnswer(said(NoTail.TOO_FEW, number=len(tail)))
    usual = _means(median)
    means = _means(tail)
    length, usually = sum(means.values()), sum(usual.values())
    if length < _LONGER * usually:
        return TailAnswer(said(NoTail.NO_TAIL))
    extra = length - usually
    more = {kind: means[kind] - usual.get(kind, 0.0) for kind in means}
    ranked = sorted(more, key=lambda kind: -more[kind])
    candidates = tuple((kind, more[kind] / extra) for kind in ranked if more[kind] > 0.05 * extra)
    kind = ranked[0]
    mostly = _agree(tail, kind, usual, usually, extra)
    main = more[kind] >= _MAIN * extra and mostly
    largest = not main and _largest(tail, candidates, usual, usually, extra)
    has = _mostly if main or not largest else _longest
    slow, few = (sum(has(one, kind, usual, usually, extra) for one in group) for group in (tail, median))
    p_value = chance_of(slow, len(tail), few, len(median))
    where, part = _where(tail, median, kind, more[kind])
    if kind == "runnable":
        where, part = _who(tail, median, more[kind], extra)
    withheld = ""
    if kind == "unexplained":
        withheld = said(NoTail.NOT_SEEN)
    elif not (main or largest):
        withheld = said(NoTail.NO_SINGLE)
    elif few > max(1.0, _USUAL * len(median)):  # one of few may be longer by chance
        withheld = said(NoTail.USUAL)
    elif p_value > _RARE:  # as one slow request alone
        withheld = said(NoTail.TOO_FEW, number=len(tail))
    elif kind == "runnable" and _clients(tail, median) > _MAIN * more[kind]:
        # On one machine; it is what was asked with, and no cause in the server.
        withheld = said(NoTail.CLIENTS)
    elif kind == "runnable" and not where:
        # What observes takes CPU time as well, and is nobody's neighbour in the schedule.
        withheld = said(NoTail.NO_CPU)
    return TailAnswer(
        withheld, kind, where, extra, more[kind] / extra,
        slow, len(tail), few, len(median), p_value, candidates, where_share=part / extra,
    )  # fmt: skip


def longest(lengths: Sequence[float], usually: float) -> list[int]:
    """Of the slow ones without those that are hardly longer than the median ones: these decide nothing."""
    extra = sum(lengths) / max(1, len(lengths)) - usually
    return [at for at, length in enumerate(lengths) if length - usually > _MAIN * extra]


def _long(tail: Sequence[Spent], usually: float) -> list[Spent]:
    return [tail[at] for at in longest([sum(one.values()) for one in tail], usually)]


def _agree(
    tail: Sequence[Spent], kind: PartKind, usual: Mapping[PartKind, float], usually: float, extra: float
) -> bool:
    """Whether this part is the main one in most of the long requests, and stays it without the longest."""
    long = _long(tail, usually)
    agreeing = sum(_mostly(one, kind, usual, usually, extra) for one in long)
    rest = sorted(tail, key=lambda one: sum(one.values()))[:-1]
    means = _means(rest)
    remaining = sum(means.values()) - usually
    own = means.get(kind, 0.0) - usual.get(kind, 0.0)
    return agreeing >= _AGREE * len(long) and own >= _MAIN * remaining


def _largest(
    tail: Sequence[Spent],
    candidates: Sequence[tuple[PartKind, float]],
    usual: Mapping[PartKind, float],
    usually: float,
    extra: float,
) -> bool:
    """Whether one part is the largest by far, on average and in nearly each of the long requests."""
    if (
        not candidates
        or candidates[0][1] < _LARGEST
        or (len(candidates) > 1 and candidates[0][1] < _NEXT * candidates[1][1])
    ):
        return False
    long = _long(tail, usually)
    agreeing = sum(_longest(one, candidates[0][0], usual, usually, extra) for one in long)
    return len(long) >= _FEWEST and agreeing >= _MOSTLY * len(long)


def _means(group: Sequence[Spent]) -> dict[PartKind, float]:
    found: dict[PartKind, float] = {}
    for one in group:
        for (kind, _), ns in one.items():
            found[kind] = found.get(kind, 0.0) + ns / len(group)
    return found


def _more(one: Spent, usual: Mapping[PartKind, float]) -> dict[PartKind, float]:
    found = {kind: -ns for kind, ns in usual.items()}
    for (kind, _), ns in one.items():
        found[kind] = found.get(kind, 0.0) + ns
    return found


def _mostly(
    one: Spent, kind: PartKind, usual: Mapping[PartKind, float], usually: float, extra: float
) -> bool:
    """Whether this request is longer than the median ones, and by this part for the most."""
    longer = sum(one.values()) - usually
    # A median request that happens to be a little longer than the others is no slow one.
    return longer > 0.1 * extra and _more(one, usual).get(kind, 0.0) > _MAIN * longer


def _longest(
    one: Spent, kind: PartKind, usual: Mapping[PartKind, float], usually: float, extra: float
) -> bool:
    """Whether this request is longer than the median ones, and by no other part as much as by this."""
    more = _more(one, usual)
    return sum(one.values()) - usually > 0.1 * extra and max(more, key=lambda each: more[each]) == kind


def _where(tail: Sequence[Spent], median: Sequence[Spent], kind: PartKind, more: float) -> tuple[str, float]:
    """The place that makes most of this part's difference, and how much; "" where no single one does."""
    places: dict[str, float] = {}
    for group, sign in ((tail, 1.0), (median, -1.0)):
        for one in group:
            for (part, where), ns in one.items():
                if part == kind:
                    places[where] = places.get(where, 0.0) + sign * ns / len(group)
    preempted = places.pop(PREEMPTED, 0.0)
    # A function's time is sampled: it need not be most of the running, only the most of what has a name.
    least = (_LARGEST if kind == "running" else _MAIN) * (more - preempted)
    for step in range(_SHORTER):  # what was waited for and in which function, or else only the former
        short: dict[str, float] = {}
        for where, ns in places.items():
            less = shortened(where, step)
            short[less] = short.get(less, 0.0) + ns
        best = max((where for where in short if where), key=lambda where: short[where], default="")
        if best and short[best] > least:
            return best, short[best]
    return "", 0.0


def _who(tail: Sequence[Spent], median: Sequence[Spent], more: float, extra: float) -> tuple[str, float]:
    """Who had the CPUs that were waited for: one for nearly all of it, or the first of several.

    With their shares of the difference; "" where it isn't known of too much of it, or none of many has most.
    """
    had: dict[str, float] = {}
    for group, sign in ((tail, 1.0), (median, -1.0)):
        for one in group:
            for (part, where), ns in one.items():
                if part == "runnable":
                    had[where] = had.get(where, 0.0) + sign * ns / len(group)
    unknown = had.pop("", 0.0)
    ranked = sorted((where for where in had if had[where] > 0), key=lambda each: -had[each])
    if not ranked or sum(had[where] for where in ranked) < _MADE * more or unknown > (1 - _MADE) * more:
        return "", 0.0
    first = ranked[0]
    if had[first] >= _NEARLY_ALL * more or (kind_of(first) not in _NAMED and had[first] > _MAIN * more):
        return first, had[first]
    named = [where for where in ranked if kind_of(where) in _NAMED]
    told = [where for where in named[:_TOGETHER] if had[where] > 0.1 * more] or named[:1]
    if not told or sum(had[where] for where in named) < _MADE * more:
        return "", 0.0
    if had[told[0]] < _MAIN * more and sum(had[where] for where in told[:2]) < _NEARLY_ALL * more:
        return "", 0.0  # what else a machine does now and then, by turns
    names = [
        f"{values_of(where).get('name', _NO_THREAD)} {share(had[where] / extra, digits=0)}" for where in told
    ]
    rest = len(named) - len(told)
    if sum(had[where] for where in told) < _NEARLY_ALL * more and rest:
        names.append(plural(rest, "other"))
    if len(names) == 1:
        return first, had[first]
    return said(Occupant.SEVERAL, names=", ".join(names[:-1]), last=names[-1]), more


def _clients(tail: Sequence[Spent], median: Sequence[Spent]) -> float:
    """For how much longer those who ask had the CPU that the slow ones waited for."""

    def mean(group: Sequence[Spent]) -> float:
        had = (ns for one in group for (_, who), ns in one.items() if kind_of(who) is Occupant.CLIENT)
        return sum(had) / len(group)

    return mean(tail) - mean(median)


def _holder(held: Sequence[Spent]) -> str:
    """What those did for most of the time who had a lock that the slow requests waited for.

    Who ran and who was ready to has the same thing to do, whoever had the CPU meanwhile.
    """
    did = _summed(held)
    kinds: dict[PartKind, float] = {}
    for (kind, _), ns in did.items():
        kinds[kind] = kinds.get(kind, 0.0) + ns
    ranked = sorted(kinds, key=lambda kind: -kinds[kind])
    best: PartKind = ranked[0] if ranked else "unexplained"
    at_work = kinds.get("running", 0.0) + kinds.get("runnable", 0.0)
    main = at_work if best in ("running", "runnable") else kinds.get(best, 0.0)
    if best in ("unexplained", "lock") or main < _MAIN * sum(kinds.values()):
        return ""
    where = max((one for one in did if one[0] == best), key=lambda one: did[one])
    return f"{best} ({where[1]})" if where[1] and did[where] >= _MAIN * kinds[best] else best


def _ran(held: Sequence[Spent]) -> str:
    """Where those ran for most of the time that they ran who had a lock; "" where that isn't known."""
    ran = {where: ns for (kind, where), ns in _summed(held).items() if kind == "running"}
    best = max(ran, key=lambda where: ran[where], default="")
    return best if function_of(best) and ran[best] >= _MAIN * sum(ran.values()) else ""


def _summed(spent: Sequence[Spent]) -> Spent:
    found: Spent = {}
    for one in spent:
        for key, ns in one.items():
            found[key] = found.get(key, 0.0) + ns
    return found


def chance_of(hits: int, among: int, others: int, of_others: int) -> float:
    """The chance of at least so many hits among the first group, were they drawn from both alike (Fisher)."""
    every, total = hits + others, among + of_others
    whole = comb(total, among)
    ways = sum(comb(every, k) * comb(total - every, among - k) for k in range(hits, min(every, among) + 1))
    return float(ways / whole) if hits else 1.0
