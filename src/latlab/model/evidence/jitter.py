"""What a run of the jitter test says: of its beats, its warnings, its histograms and a stopped trace."""

from __future__ import annotations

from latlab.model.evidence.said import Kind

__all__ = ["BeatCause", "BeatSaid", "HistogramAdvice", "JitterSaid", "TraceStop"]


class BeatCause(Kind):
    """Why no single source is named."""

    UNKNOWN = "cause unknown"
    UNDECIDED = "cause unknown: {candidates:or}"


class BeatSaid(Kind):
    """What a beat of this length is likely to come from; `length` has more digits than other times."""

    SOURCE = "{length}: {source}"
    TICK = "{length}: the scheduler tick, HZ={hz}, or a timer of that rate"
    TICK_BRINGS = "{length}: the scheduler tick, HZ={hz}, or a timer of that rate; it brings {source}"
    HYPERVISOR = "{length}: the hypervisor, at {hz:frequency}"
    HYPERVISOR_TICK = (
        "{length}: the hypervisor, at {hz:frequency}, its own scheduler tick or a timer of that rate"
    )
    EACH_SECOND = "{length}: a once-a-second job (statistics, the real-time limit)"
    TIMER = "{length}: a timer of {hz:frequency}"


class JitterSaid(Kind):
    """What a reader of a run must know; which warning it is, `WarningKind` says."""

    EVENTS_LOST = "the trace lost {events} events: sources are incomplete"
    NOT_JOINED = "gaps are not joined to their sources: {why}"
    RING_WRAPPED = (
        "CPU {cpu}: the ring wrapped: the last {kept} of {outliers} outliers are kept; raise -o or -k"
    )
    QUOTA = (
        "a CPU quota ({quota}) stopped us {times} times, for {ms:ms} in all: those gaps are the "
        "container's; run with a higher quota, or with none"
    )
    REAL_TIME_LIMIT = (
        "{gaps} gaps of about 50 ms are the real-time limit (sched_rt_runtime_us) or the fair server that "
        "replaced it, which give the core to others; see `latlab system check`"
    )
    INTERRUPTED = "stopped by the user: what was measured until then is kept"
    CPU_REFUSED = "{cpus} refused ({why}): offline or outside of our cpuset"
    PRIORITY_REFUSED = "SCHED_FIFO was refused on {cpus} ({why}); run as root or raise `ulimit -r`"
    CPU_WENT_AWAY = "CPU {cpu} went away while measuring (taken offline?): the rest ran elsewhere"
    NOT_REQUESTED = "it was not requested"


class TraceStop(Kind):
    """What a gap that is long enough does to the kernel's trace."""

    REFUSED = "the kernel's trace can't be stopped ({why})"
    WAS_OFF = "the kernel's trace was off already"
    STOPPED = "the kernel's trace is stopped, with a marker in it: {where} read trace; tracing_on goes on"
    IN_FOLDER = "in {folder}"
    IN_MOUNT = "after mount -t tracefs none /mnt, in /mnt"


class HistogramAdvice(Kind):
    """What would make a histogram tell more."""

    SET_MIN = "set min to {ticks:count} ticks"
    RAISE_KNEE = "raise the knee from {ticks} ticks ({below:share} are below)"
    LOWER_KNEE = "lower the knee from {ticks} ticks ({below:share} are below)"
