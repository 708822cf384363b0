"""What a whole run of an application adds to what its queues tell."""

from __future__ import annotations

from latlab.model.evidence.said import Kind

__all__ = ["Disturbance", "Loss", "OverheadDoubt", "RateSaid", "RunDoubt", "RunEvidence", "RunFinding"]


class RunEvidence(Kind):
    """What traces and threads add."""

    OVERSUBSCRIBED = (
        "CPUs were oversubscribed; from median service times {first} needs {needs:number} CPUs, {second} "
        "{other:number}"
    )
    TYPE_ALIKE = (
        "all {number} stages of type {type} need about as long for an event: {least_ns:duration} to "
        "{most_ns:duration} (p50, traced)"
    )
    HELD_UP = (
        "{stage} has work, but used only {cpu:share0} of a CPU and wanted none more: it waited for a "
        "lock; {busiest} used {busiest_cpu:share0} of a CPU, and all stages together {total:number}"
    )
    SERVICE = (
        "{stage} serves an event in {p50_ns:duration} (p50, traced): at most {most:number} events/s "
        "with a core of its own; it took {rate:number}/s"
    )
    LONGEST_SERVICE = (
        "nothing limits, but an event is served longest at {type}: {p50_ns:duration} (p50, traced), "
        "at most {others_ns:duration} elsewhere"
    )
    LONGEST_WAIT = "events wait longest in {queue}: {p50_ns:duration} (p50, traced)"
    QUEUES_NAME = "its queues alone name {stage}, which waited for other threads {waits:share} of the time"
    QUEUES_ALONE = "its queues alone do not tell: {sentence}"
    AT_DISK = "by its queues {stage} limits, which waits for it {waits:share} of its time"
    ITS_OWN_LOCK = "by its queues {stage} limits, whose threads keep it from one another"


class RunDoubt(Kind):
    """Why a run must not be believed as it stands; each with what to do, where something helps."""

    MOVES = "no stage limits all of the time: {stretches}; observe each of these parts by itself"
    UNKNOWN = "the bottleneck is unknown{why}; observe for longer, or under more load"
    UNCOUNTED = "the exchange offered {offered:count} messages, and its queues counted {counted:count}"
    DIED = "the {role} process died {how}: what it had counted until then is shown"
    STARVED = (
        "the sampler was starved: it looked every {achieved_ns:duration} (p99) instead of every "
        "{period_ns:duration}; give it a core of its own, or a longer --period"
    )
    MOSTLY_MISSED = "the sampler was starved: it missed {missed:count} of {attempts:count} periods"
    MISSED = "the sampler missed {missed:count} of {attempts:count} periods; give it a longer --period"
    OVERLOADED = (
        "the machine is overloaded: {others} during the run; 'latlab system check' shows what else runs"
    )
    ENDED = "the command ended with status {status}"
    FAILED = "The command ended with status {status} after {ns:duration}. Until then: {sentence}"
    NO_LIMIT = "no limit is named: {why}"
    NOT_SHORT = (
        "its queues say that CPUs are short; what its threads do does not agree: they were without one "
        "{waits:share} of the time that its progress took"
    )
    SOMETIMES_SHORT = (
        "CPUs were short for {waits:share} of the time that its progress took: too long to name a stage, and "
        "not long enough to be what limits"
    )
    STOPPED_OR_WAITED = (
        "{stage} took nothing until the end, but its thread was runnable without a CPU "
        "{runnable:share}: it may have waited for one"
    )
    WAITS_FOR_OTHERS = (
        "its queues name {stage}, but its threads waited for others {waits:share} of the time, and did "
        "not work"
    )
    NOT_LOAD = (
        "none of its queues' stages is busy for most of the time, and yet the program hardly waits for load: "
        "{part:share} of the time that its progress took, its own threads worked or slept; the table of its "
        "threads shows which"
    )
    WAITS_FOR_LOCK = (
        "{stage} is busiest by its queues, and waits for the interpreter lock (GIL) most of that time"
    )


class Loss(Kind):
    """Queues that overran."""

    KERNEL = "the kernel dropped {dropped:count} datagrams in front of {socket}{since}"
    DROPPED = (
        "{part:share} of {queue}'s messages were dropped{since} ({dropped:count} of {offered:count}): "
        "latencies are those of delivered messages only"
    )
    CANNOT_KEEP_UP = " because {stage} cannot keep up"


class Disturbance(Kind):
    """What disturbed a run."""

    STOOD_STILL = (
        "{stage} stood still for {ns:duration}, {begin_ns:duration} into the run, with up to {fill:count} "
        "events waiting in {queue} ({why})"
    )
    NOT_KNOWN = "why is not known"
    NO_CPU = "it was ready and had no CPU {part:share0} of that time"
    DID_NOT_ASK = "it did not ask for a CPU: it was stopped, or waited for something outside of its queues"
    BURST = (
        "the largest burst filled {queue} to {height:count} events for {ns:duration}, {begin_ns:duration} "
        "into the run{after}"
    )
    WENT_ON = ", and went on to {queues}"
    HAD_NO_CPU = "{stage} was ready and had no CPU {part:share} of the time, while {others}"
    FOREIGN = "{who} took {taken:number} of {cpus} CPUs{most}"
    MOST = " ({name}, process {pid}, {cpus:number})"


class RunFinding(Kind):
    """What limits; `tail` is END_TO_END, or empty."""

    CONTRADICTS = "What was observed contradicts itself: no verdict."
    MAY_BE_AS_SLOW = (
        "Cannot name one bottleneck: {other}, which feeds {one} and never gets ahead of it, may be as slow."
    )
    GOES_ROUND = "No stage limits by itself: {events:number} events go round, and no more are ever under way."
    STOPPED = "{stage} has stopped: {why}."
    POOL = "Bottleneck: {pool}, a pool: {why}."
    END_TO_END = " End to end an event takes {p50_ns:duration} (p50) to {p99_ns:duration} (p99)."
    NAMED = "Bottleneck: {stage}.{tail}"
    NAMED_SINCE = "Bottleneck: {stage}: {why}.{tail}"
    WORKS = (
        "Bottleneck: {stage}. It had input waiting and was not blocked downstream {ready:share} of "
        "the time{service}.{tail}"
    )
    MOVES = "The bottleneck moves: {stretches}. For the longest time it is {longest}.{tail}"
    CPUS = "Bottleneck: the CPUs, no single stage{amount}{busiest}.{tail}"
    DISTURBED = "No stage limits, but {disturbed}{busiest}.{tail}"
    KEPT_FROM = "Bottleneck: the CPUs. {stage} limits, since it is kept from running.{tail}"
    SCHEDULER = "Bottleneck: the scheduler, no stage. Runnable threads waited for a CPU{busiest}.{tail}"
    BURSTS = "No stage limits on average, but bursts are larger than a buffer{busiest}.{tail}"
    ALIKE = (
        "Cannot tell what limits: {one} and {other} are about equally slow, so a faster one alone "
        "gains little{busiest}.{tail}"
    )
    UNSUPPORTED = "The observation does not support an answer{busiest}.{tail}"
    NONE = "No stage limits{busiest}.{tail}"
    BUT = "{sentence} But {stall}."
    OVERFLOWS = "{sentence} {queue} holds {capacity:count} events, and was full {times}{lost}."
    SLEEPS = "{sentence} It sleeps {asleep:share} of the time."
    STARTS = "{sentence} It waits for what it starts, {programs}, {waits:share} of the time."
    ITS_LOCK = (
        "{sentence} Its {threads:plural thread} wait for one another's {lock} {waits:share} of the time."
    )
    NEEDS_LOCK = (
        "Bottleneck: {stage}. It needs the interpreter lock (GIL) most: it ran {ran:share} of the "
        "time, while progress waited for its holder {waited:share}."
    )
    NEEDS_LOCK_OF = (
        "Bottleneck: {stage}. It needs the interpreter lock (GIL) most: it ran {ran:share} of the "
        "time, while progress waited for its holder {waited:share}. {other} is as busy by its queues, "
        "and waits for that lock."
    )
    SERVICE_P50 = "; an event takes {ns:duration} there (p50)"
    SERVICE_MEAN = "; an event takes {ns:duration} there on average"
    BUSIEST = "; the busiest, {stage}, has input waiting {part:share} of the time"
    USED = ": it used {used:number} of {cpus}"
    TAIL = (
        "The tail comes from bursts that wait for {stage}: {part:share0} of {quantile} "
        "({total_ns:duration}) is spent there, mostly waiting in {queues}."
    )


class OverheadDoubt(Kind):
    """Why what observing costs must not be believed as it stands."""

    DROPPED = "{dropped:count} messages were dropped: what was lost has no latency; give a gentler --layout"
    STARVED = (
        "asked for a sweep every {period_ns:duration}, the sampler ran every {achieved_ns:duration} (p99): "
        "it lacked a CPU"
    )


class RateSaid(Kind):
    """The highest rate that loses nothing; `closest` says how the next one lost."""

    FOUND = (
        "The smallest delay that loses nothing is {delay_ns:duration}: {rate:number} messages/s a venue. "
        "{closest}"
    )
    UNSEEN = "At {delay_ns:duration} messages were dropped before any queue was seen to rise."
    ROSE = "At {delay_ns:duration} {queue} rose before the first drop, to {fill:count} events."
    NOT_TRIED = "No shorter one was tried."
