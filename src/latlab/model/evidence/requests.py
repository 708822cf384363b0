"""What the requests of a server say: what makes the slow ones slow, and why something is not said."""

from __future__ import annotations

from latlab.model.evidence.said import Kind

__all__ = ["HELD_BY", "ForecastDoubt", "NoTail", "Occupant", "RequestsDoubt", "TailPlace", "VersionsSaid"]


#: Of a lock's place: what stands behind it is who had it, and in which function.
HELD_BY = ", held by "


class Occupant(Kind):
    """Who had the CPU that a runnable thread waited for."""

    HAD = "{name} had the CPU"
    CLIENT = "{name}, which asks it, had the CPU"
    OBSERVER = "latlab had the CPU"
    NOBODY = "no thread had the CPU"
    QUOTA = "CPU quota of {quota}"
    QUOTA_OR_OTHERS = "a CPU quota of {quota} stopped it, or others had the CPU"
    SEVERAL = "{names} and {last} had the CPU"


class TailPlace(Kind):
    """Where the time of slow requests goes, beside threads, locks and waits."""

    STOPPED = "stopped by a signal, or frozen"
    WAITED_IN = "{thing}, in {function}"
    WAITED = "in {function}"
    LOCKED_IN = "{thing} in {function}"
    RAN_IN = "{name} in {function}"
    CALLED_BY = "{function}, called by {caller}"
    HELD = "{thing}, held by {holder}"
    ANSWERS = "answers of {size}, made and sent"
    SYNCED = "{sync}, and what {function} runs beside it"
    BURST = "{name} was busy with earlier requests of the same connection, which came in a burst"
    MANY = "{name} was busy with many that came before"
    CROWD = "its threads had the CPUs for many other requests"


class NoTail(Kind):
    """Why nothing is said of what makes the slow requests slow."""

    TOO_FEW = "too few slow requests were seen ({number}): observe for longer, with --seconds"
    NO_TAIL = "the slow requests are hardly longer than the median ones: there is no tail"
    NOT_SEEN = "most of what makes them longer was not seen"
    GOROUTINES = (
        "most of what makes them longer was not seen: goroutines wait for each other's locks and channels "
        "without the kernel; Go's own profiles of mutexes and blocking tell it (net/http/pprof, after "
        "runtime.SetMutexProfileFraction and runtime.SetBlockProfileRate)"
    )
    GOROUTINES_TOGETHER = (
        "a timer let them go on, and several ended together: each may sleep, or wait for a lock or a channel "
        "of a goroutine that sleeps, unknown to the kernel; Go's own profiles of mutexes and blocking "
        "tell it (net/http/pprof, after runtime.SetMutexProfileFraction and runtime.SetBlockProfileRate)"
    )
    NO_SINGLE = "no single part makes most of them longer"
    USUAL = "median requests show the same"
    CLIENTS = (
        "they waited for CPUs that those had who ask it: ask from another machine, or give the server CPUs "
        "of its own, such as with taskset"
    )
    NO_CPU = (
        "they waited for CPUs, and no single thread had these most of the time; latlab's own work may be a "
        "part of it, so observe on a machine with a CPU to spare"
    )


class RequestsDoubt(Kind):
    """What the requests that were seen are to be read with; each with what to do, where something helps."""

    TOO_FEW = "only {number} requests were seen: observe for longer, with --seconds"
    FEW = "where slow requests spend their time: {number:plural request} were seen, too few to tell"
    PUSHED = (
        "only {number} requests were seen; on {connections:plural connection} bytes only went out: they "
        "were not asked for, or it was read in a way that isn't seen, such as splice"
    )
    ASKS = (
        "the program asks others on its connections and was not asked itself: observe the process that "
        "answers it, with --pid"
    )
    OVERLAP = (
        "on {connections:plural connection} several requests were under way at once, and which of them "
        "an answer is for isn't known: latencies are those of turns, and may be too short"
    )
    UNENDED = (
        "on {connections:plural connection} the server waits for other work and then sends more: whether "
        "that is the rest of an answer or was pushed unasked isn't known, so their requests are left out: "
        "observe it where nothing is pushed, or by a protocol that is recognised"
    )
    LOST = "{events:count} events found no room: observe for a shorter time"
    SWITCHES = "too many of the threads' switches were not seen"
    ARRIVALS = (
        "of {number:count} requests the arrival was not seen: they are counted from when they were read"
    )


class ForecastDoubt(Kind):
    """Why there is no forecast of a change, or of a quantile."""

    OFF = (
        "the simulation of the unchanged server gives a p50 of {p50:duration} where {p50_seen:duration} were "
        "seen, and a p99 of {p99:duration} where {p99_seen:duration} were"
    )
    TOO_FEW = "{number:count} answered requests are too few to simulate"
    OPEN = "too many requests had no answer yet"
    NOT_SEEN = "too much of what its threads did was not seen"
    QUOTA = "a CPU quota stopped the server, which the simulation does not know"
    OWN_THREADS = "each connection has a thread of its own"
    KEEP = "which requests one more thread would take is not known"
    TOO_FEW_FOR_IT = "{number:count} requests are too few for it"
    NOTHING_LEFT = (
        "in the simulations between {low:share0} and {high:share0} of it are left: too uncertain to tell"
    )
    AWAY = "the unchanged simulation is {away:share0} away"


class VersionsSaid(Kind):
    """Why two versions of a server are not told apart."""

    FEW_PAIRS = (
        "{pairs} of at least {needed} pairs of recordings: how much those of one server differ isn't known"
    )
    LOWER_BOUND = "requests without an answer make it a lower bound in one of the recordings"
