"""What the study of a component says: its forecast, what each step of the method found, and its warnings.

And what timelines of threads, which are played and edited in place of a component, are to be read with.
"""

from __future__ import annotations

from latlab.model.evidence.said import Kind

__all__ = ["EditWithheld", "Speedup", "StepSaid", "StudyWarning", "TimelineSaid", "ValidationSaid"]


class Speedup(Kind):
    """What making the component faster buys; `asked`, `rate`, `change` and `rest` are kinds, too."""

    NOISE = (
        "no gain of speeding up {asked} stands out of the noise: at most {most:share} of the system's {what}"
    )
    DOES_NOT_PAY = "speeding up {asked} does not pay: the system's {what} stays the same"
    PAYS = "speeding up {asked} pays off {rate} all the way; without {without} the system's {change}"
    PAYS_UNLIMITED = (
        "speeding up {asked} pays off {rate}; without {without} the system's {change} (± {half:share}), "
        "unless something takes over beyond {seen:share0}, which would not stand out of the noise"
    )
    HIDDEN = (
        "what speeding up {asked} buys does not stand out of the noise: without {without} the system's "
        "{change} (± {half:share})"
    )
    PAYS_UP_TO = (
        "speeding up {asked} pays off {rate} up to {knee:share0} (the system's {change}); beyond that "
        "{rest}, since {who} takes over"
    )
    WAITS_KEPT = (
        '{sentence}; its waits ({blocked_ns:duration}) stayed as they are: faster = "wait" asks for them'
    )

    ITS_WORK = "`{name}`"
    ITS_WAITS = "the waits of `{name}`"
    WORK_AND_WAITS = "work and waits of `{name}`"
    IN_PROPORTION = "in proportion"
    ONE_TO_ONE = "1:1"
    BY_PART_BETWEEN = "by {part:share0} ({low:share0} to {high:share0}) of the time it saves"
    RISES = "{what} rises by {by:share0}"
    FALLS = "{what} falls by {by:share}"
    NOTHING_MORE = "nothing"
    ONLY_PART = "only {part:share0} as much"
    THREAD_OF = "{thread} (thread {number} of {threads})"
    WORKING_PERIOD = "working period {number} of {component}"


class StepSaid(Kind):
    """What a step of the method found; its verdict, which branches ask for, stands beside it."""

    MEASURED = (
        "the component is busy for {busy_ns:duration} in {calls} calls{blocked}, of the system's "
        "{system_ns:duration}; the system is busy for {user_ns:duration} as user and {kernel_ns:duration} in "
        "the kernel{waits}{steady}"
    )
    BLOCKED = ", and blocked for {blocked_ns:duration}"
    SYSTEM_WAITS = ", waits {ready_ns:duration} for a CPU and is blocked for {blocked_ns:duration}"
    WAITS_UNKNOWN = "; its waits are unknown without tracing rights"
    STEADY = "; steady"
    UNSTEADY = "; NOT steady: known to {scatter:share}, trend {trend:signed}"

    BOTTLENECK = "a busy delay in front of it lengthens the run at once, in proportion: it is a bottleneck"
    NOT_YET = "delays below {least:share0} of its time cost nothing, larger ones do: not a bottleneck yet"
    NO_BOTTLENECK = "a busy delay in front of it costs nothing: no bottleneck"

    WAITS_LEFT_OUT = "its waits are left out: the system makes it wait with the stub too"
    WAITS_KEPT = (
        "it blocks for {blocked_ns:duration} in all (up to {longest_ns:duration} a call): its waits are kept "
        "as idle time{periods}"
    )
    PERIOD_NOTHING = (
        "; its working period {number} ({busy_ns:duration}) gains nothing measurable (at most {most:share})"
    )
    PERIOD_PAYS = (
        "; its working period {number} ({busy_ns:duration}) pays{until}: without it the system's time falls "
        "by {gain:share} [{low:share}, {high:share}]"
    )
    UNTIL = " until it is {speedup:share0} faster"

    FLAT = (
        "{calls} sequential calls on the busiest CPU save {expected_ns:duration}, the system "
        "{reduced_ns:duration}"
    )
    SERIALISED = "{numbers}: the calls of several threads exclude each other (a lock, or too few CPUs)"
    FLAT_ANOMALY = (
        "ANOMALY: {numbers}, more than the component takes: it also disturbs others (caches, locks)"
    )
    DEPENDENT = "{numbers}: there are dependencies, others run beside it or wait for something else"
    INDEPENDENT = "{numbers}: no dependencies"

    OTHERS_READY = (
        "when it leaves the CPU the system saves {saved_ns:duration}: others were ready, and another CPU or "
        "an optimisation helps"
    )
    IDLE_ANOMALY = (
        "ANOMALY: the system takes {longer_ns:duration} longer when the component sleeps instead of working"
    )
    NOTHING_WAITS = "nothing else waits for its CPU, so another core would not help"

    BUSY = (
        "{pays}; the unmodified system simulated by the stub at full time: {drift:signed} ({low:signed} to "
        "{high:signed})"
    )
    ALL_PAYS = "every part of it pays"
    PAYS_UNTIL = "it pays until it is {speedup:share0} faster"
    NONE_PAYS = "none of it pays"
    NOTHING_TOLD = "what it pays is not told from the noise"


class StudyWarning(Kind):
    """What limits the trust in a study; each with what to do, where something helps."""

    FEW_ROUNDS = "only {rounds} rounds: the intervals are rough; {enough} rounds give 95 %"
    DRIFT = "with the stub at full time the system takes {drift:signed}"
    OFF_CURVE = (
        "the points at {speedups} lie off every curve of diminishing returns: something else changes too"
    )
    TWO_SPEEDS = (
        "the machine ran at two speeds: {part:share0} of the runs took {longer:.2f} times as long; the "
        "intervals hold what the component buys at either"
    )
    UNSTEADY = (
        "the unmodified system's time is known to {scatter:share} only: not steady; quiet the machine, see "
        "'latlab system check', or give the study more time"
    )
    SLOW_STUB = (
        "the stub's own function takes {part:share0} of the component's time: gains beyond {fastest:share0} "
        "are extrapolated"
    )
    NOT_VALIDATED = "not validated: {verdict}"
    NO_PERIODS = (
        "no time was left for the working periods of its calls, one at a time: --seconds {wanted} gives it"
    )
    FAILED_RUNS = "{failed} of {runs} runs failed and were repeated: {first}"
    KEPT = "each call's change of {places} is kept"
    NOT_KEPT = "the change of {name} can't be kept ({why})"
    LEFT_OUT = "the stub leaves out what its calls do outside of the program: {what}"


class ValidationSaid(Kind):
    """Whether the stub does what the component does, apart from its time."""

    NO_TEST = "no test of the system was named; see 'latlab stubs validate'"
    OTHER_COMPONENT = "{path} is about another component, {component}"
    CHANGED = "the component has changed since {path} was written; run 'latlab stubs validate' again"
    NOT_DETERMINISTIC = "{name} is not deterministic: {difference}"
    SAME = "{name}: two recordings are the same, and the command passes with the stub, and says the same"
    SAME_KEEPING = (
        "{name}: two recordings are the same, and the command passes with the stub, and says the same; {kept}"
    )
    OTHERWISE = "{name}: the stub changes more than its time: {difference}; {state}"
    FAILS = "{name}: the command fails with the stub (exit code {status}): {last}"
    FEWER_CALLS = "{name}: with the stub the command calls it {fewer} times less often"

    PROCESSES = "{first} processes call it, then {second}"
    CALLS = "{first} calls, then {second}"
    RESULTS = "the results of run {run} of thread {thread} differ"
    STATUS = "it ends with {status} and not with {original}"
    LATE = "it does not end within {limit_s:seconds}"
    LINES = "it prints {lines} lines{where} and not {original}"
    LINE = "{what} {number}{where} is {line!r} and not {original!r}"
    NOT_WRITTEN = "it does not write {path}"
    WRITTEN_OTHERWISE = "{path} holds something else"


class TimelineSaid(Kind):
    """What a timeline that was captured, played or simulated is to be read with."""

    COMMAND_ENDED = "interrupted: the command was ended before its own end"
    INTERRUPTED = "interrupted before its time was over"
    CPU_TIME_DIFFERS = "{traced_s:seconds} of CPU time by the trace, {used_s:seconds} by rusage"
    SLEPT = (
        "{waits} waits are slept for as long as they took: by the events as they were recorded, whoever "
        "ended them would have waited for them"
    )
    OUTLIVED = "{threads} threads ({which}) outlived the recording and are cut at its end"
    MERGED = "blocked slices below {below_ns:duration} are part of the runs around them ({slices} of them)"
    EVENTS_LOST = "the kernel lost {events} events"
    SWITCH_INS_LOST = "thread {thread}: {switches} lost switch-ins, from sched_stat_runtime"
    RUN_TIME_DIFFERS = (
        "thread {thread}: {run_ns:duration} by its switches, {kernel_ns:duration} by sched_stat_runtime"
    )
    LEAST_DISTURBED = "the least disturbed of {runs} runs"
    FIFO = "played by SCHED_FIFO: each switch costs up to 10 us more CPU time"
    CPUS_SHARED = "threads share CPUs: each sleep has its own length, and late wake-ups add up"
    PRIORITY_REFUSED = "a priority of '{scheduling}' isn't allowed here: other programs interrupt it"
    CPUS_HALT = "idle CPUs may halt (/dev/cpu_dma_latency isn't allowed here): wake-ups are later"
    SIMULATED = "simulated on {cpus} CPUs"


class EditWithheld(Kind):
    """Why the simulation of an edited program gives no forecast."""

    TOO_LONG = "{actions:count} actions are too many to simulate"
    OFF = "the simulation of the unchanged program is off by {off:share} of its time"
    OTHER_WAITS = "its threads wait at other places in the simulation than they did"
    OPEN = (
        "simulations that explain what was recorded equally well give {low_ns:duration} to {high_ns:duration}"
    )
    OTHER_PROGRAMS = (
        "other programs took CPUs from its threads, for {lost:share} of its time in all, while it was "
        "captured; capture it again on a quieter machine"
    )
    IDLE_CPUS = (
        "its threads waited for a CPU for {lost:share} of its time (all of them together) while another was "
        "idle and no other program had it: they are bound to CPUs, or were placed so; the simulation keeps "
        "these waits as they were captured"
    )
