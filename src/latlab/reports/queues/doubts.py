"""What contradicts a verdict, in words."""

from __future__ import annotations

from latlab.model.queues.analysis import Doubt, DoubtKind
from latlab.words import count, number, share

__all__ = ["doubt_in_words"]


def doubt_in_words(doubt: Doubt) -> str:
    """One contradiction, and what would settle it, in a sentence without its full stop."""
    where, other = doubt.where, doubt.other
    match doubt.kind:
        case DoubtKind.RARELY_AT_WORK:
            return (
                f"{where} seems slowest, but it had input waiting and was not blocked only "
                f"{share(doubt.value)} of the time: events wait for something that no queue shows; "
                "instrument what it waits for"
            )
        case DoubtKind.ABOVE_WHOLE:
            return (
                f"the counts make {where} busy {share(doubt.value)} of the time: they do not belong "
                f"together; check the names of the queues around it"
            )
        case DoubtKind.ABOVE_CAPACITY:
            return (
                f"{where} held {count(doubt.value)} events most of the time and has room for "
                f"{count(doubt.limit)}: one side of it is not counted; observe all of its processes"
            )
        case DoubtKind.MORE_OUT_THAN_IN:
            return (
                f"{count(doubt.value)} events more came out of {where} than went in: the side that fills it "
                f"is not counted; observe all of its processes"
            )
        case DoubtKind.SWAPPED_ENDS:
            return (
                f"the ends of {where} contradict its threads: the one at the other end is {other} at every "
                f"other queue; check source and drain of {where}"
            )
        case DoubtKind.UNSEEN_QUEUE:
            return (
                f"all events that {where} takes come out of {other}, and no observed queue connects them: "
                f"instrument the queue between {where} and {other}"
            )
        case DoubtKind.BACKED_UP:
            return (
                f"no stage seems slow, but {where} is full {share(doubt.value)} of the time: what "
                f"{other} waits for is not observed; instrument what it uses"
            )
        case DoubtKind.NEVER_STARVED:
            return (
                f"a stage seems slow, but its output {where} held an event {share(doubt.value)} of the "
                f"time, so that {other} behind it is no faster; what the two wait for is not observed"
            )
        case DoubtKind.SOCKET_DROPS:
            reader = f", which {other} reads" if other else ""
            return (
                f"the kernel dropped {count(doubt.value)} datagrams in front of {where}{reader}: something "
                f"behind it is too slow, at least at times; instrument the queues behind the socket"
            )
        case DoubtKind.BUSY_LOOP:
            return (
                f"no queue backs up, but the event loop that runs {where} runs or wants to run "
                f"{share(doubt.value)} of the time: a coroutine computes; run it with PYTHONASYNCIODEBUG=1, "
                f"which names the tasks"
            )
        case DoubtKind.CAME_LATE:
            return (
                f"{where} overflows, but {other or 'a thread at its ends'} had no CPU "
                f"{share(doubt.value)} of the time: whether its input rose or threads came late is not "
                "known; observe on a quieter machine"
            )
        case DoubtKind.SOURCE_AS_SLOW:
            waits = f"only {share(doubt.value)} of the time" if doubt.value else "at no time"
            return (
                f"{where} and {other}, which feeds it, are about equally slow: {other} waits for room "
                f"{waits}, so a faster {where} alone gains little"
            )
        case DoubtKind.NEVER_BEHIND:
            return (
                f"{where} hardly falls behind {other}, which feeds it: {number(doubt.value)} events wait for "
                f"{where} on average, and {other} tells nothing of its own time, so {other} may be as slow"
            )
        case DoubtKind.GOES_ROUND:
            return (
                f"no event comes from outside, {number(doubt.limit)} go round, and no stage is busy for most "
                f"of the time: {where} has {number(doubt.value)} of them in hand on average, so that more "
                f"events under way or less time in {where} would be faster; try either"
            )
        case DoubtKind.SHARED_LOOP:
            return (
                f"{where} and {other} hold the event loop that they share {share(doubt.value)} of the time, "
                f"and neither for longer than the other for sure; observe for longer, or run it with "
                f"PYTHONASYNCIODEBUG=1, which names the tasks"
            )
