"""What a forecast says: what making a part faster buys, and what to read that with."""

from __future__ import annotations

from latlab.model.evidence.said import Kind

__all__ = ["AppliedSaid", "ForecastSaid", "ForecastWarning", "Withheld"]


class ForecastSaid(Kind):
    """What a part that is made faster buys; `tail`, `half`, `since`, `then` and `unless` are kinds, too."""

    STAGE = (
        "making `{stage}` {speedup:share0} faster takes {tail}the maximum throughput from {base_hz:number} "
        "to {faster_hz:number} events/s{half}"
    )
    TAIL = "p99.9 from {base_ns:duration} to {faster_ns:interval}, and "
    TAIL_ROUGH = "p99.9 from {base_ns:duration} to {faster_ns:interval}, too rough to tell a change, and "
    HALF = "; 50 % faster, p99.9 to {p99_9_ns:interval}, and the maximum to {capacity_hz:number}"
    HALF_ROUGH = (
        "; 50 % faster, p99.9 to {p99_9_ns:interval}, too rough to tell a change, and the maximum to "
        "{capacity_hz:number}"
    )
    KEEPS_PAYING = "{sentence}; further speed-ups keep paying, up to {most_hz:number} events/s"
    PAYS_UP_TO = "{sentence}; no further gain beyond {knee:share0}{since}"
    DOES_NOT_RISE = "{sentence}: the throughput does not rise{since}"
    TAKES_OVER = ", since {who} takes over"
    TAKE_OVER = ", since {who} take over"

    MODEL = (
        "by a model, making `{stage}` 20 % faster would take {tail}the throughput from {base_hz:number} to "
        "{faster_hz:number} events/s{beyond}{unless}"
    )
    MODEL_TAIL = "p99.9 from {base_ns:duration} to {faster_ns:duration}, and "
    MODEL_BEYOND = "; no further gain beyond {knee:share0}{since}"
    MODEL_UNLESS = " – if {sources} can give as much, which was not seen"
    MODEL_OPEN = (
        "by a model, making `{stage}` 20 % faster would take the throughput from {base_hz:number} to at "
        "least {faster_hz:number} events/s; how far it pays is unknown, since the counts only bound the "
        "service of {stages}"
    )

    PART_USELESS = (
        "Making {part} faster does not help: without it the program still takes {without_ns:duration}"
    )
    PART_PAYS = (
        "Making {part} faster pays off all the way: without it the program takes {without_ns:duration} in "
        "place of {base_ns:duration}, {saved:share} less"
    )
    PART_ALL = "Making {part} faster pays off all the way: next to nothing else takes time"
    PART_PAYS_UP_TO = (
        "Making {part} faster pays off up to {knee:share0} faster{then}: without it the program takes "
        "{without_ns:duration} in place of {base_ns:duration}, {saved:share} less"
    )
    PART_OPEN = (
        "Making {part} {faster:share0} faster takes {faster_ns:duration} in place of {base_ns:duration}, "
        "{saved:share} less; how far it pays beyond that is not known"
    )
    THEN_LIMITS = "; then {who} limits"
    AS_OFTEN = (
        "{sentence}; that holds if it sleeps as often as now: what runs until a given time ends no sooner"
    )


class ForecastWarning(Kind):
    """What a forecast is to be read with."""

    DRIFT = (
        "the stub at 0 % differs from the unmodified system by {drift:share}: the intervals hold that "
        "difference"
    )
    THROUGHPUT = "throughput: {warning}"
    ONE_SPEED = (
        "throughput at full load is given at the machine's usual speed: how long work in a core and reads "
        "from the cache took explains {explained:share0} of what the stub's runs differ by"
    )
    SPEED_VARIED = (
        "CPU speed varied: the same calibration loop took {times:number} × longer in {slow:share0} of "
        "{looks} checks (noisy neighbour or clock change); throughput figures are affected"
    )
    LEFT_OUT = (
        "{left} of {made} runs were left out: others, such as the host's other machines, took {taken:share0} "
        "more of the CPUs during them than in the quietest quarter"
    )
    NOT_VALIDATED = (
        "not validated: a stage's stub takes the place of the service time that its layout adds, and no "
        "test of the pipeline was run with it"
    )


class ModelDoubt(Kind):
    """Why the queueing model's forecast is not told."""

    WAITS = (
        "the model has {stage} busy {busy:share} of the time, and its threads waited for others "
        "{waited:share} of it"
    )
    SOURCE_WAITS = (
        "{source} waited for other threads {waited:share} of the time, so that what it puts may depend on "
        "what is served, as with a window of credits: the model knows only its queues"
    )
    MERGES = "{queue} is filled by {sources}, and the model knows queues that one stage fills"
    ANOTHER = (
        "{stage} limits by what was observed, and the model has {other} busy {busy:share} of the time and "
        "{stage} {own:share}: it does not know all that {other} waits for"
    )
    ONE_THREAD = (
        "its stages share {who}, which ran {running:share} of the time: the model knows no thread that "
        "several stages need"
    )
    NO_GAIN = (
        "{stage} limits by what was observed, and the model gains nothing by making it faster: it does not "
        "know all that others wait for"
    )
    NOTHING_BUSY = (
        "in the model {stage} has no time to spare, and yet making it faster gains little, while nothing "
        "else is busy"
    )


class Withheld(Kind):
    """Why there is no forecast; `again` says what would settle it."""

    NOTHING_TO_ASK = "nothing that could be made faster takes its time"
    NO_ONE_HELPS = "none of its parts helps by being faster alone"
    ELSEWHERE = "what would have to be faster is another program, {name}"
    NO_GAIN = (
        "progress waited for {name} {part:share} of the time, and in the simulation it does not help to make "
        "it faster: whoever spins or polls for it is taken for work there"
    )
    OF_THE_LOCK = (
        "{name} and others want the interpreter's lock: how long it is held when {name} comes back for it "
        "sooner was not seen"
    )
    MEETS_OTHERS = (
        "{name} waits {part:share} of its time for a lock that {who} holds: how often it would find it held "
        "if it came back for it sooner was not seen"
    )
    LOCK_MISSED = (
        "{name} limits, and in the simulation no faster part helps: how long it is held was not seen"
    )
    NOT_ASKED = (
        "{name}, which limits, is not simulated: it shares a thread with others, or is of another program"
    )
    SPINS = (
        "{name} waits in a loop for {part:share} of the time, which the simulation takes for work that "
        "it has to do"
    )
    LOOKS = (
        "{name} polls with sleeps between its looks for {part:share} of the time, which the simulation takes "
        "for sleeps of a length of their own"
    )
    OWN_END = (
        "the program ends {ns:duration} after it began to sleep, however much its threads have done by then: "
        "count what they do, before and after the change"
    )
    OWN_PACE = (
        "{source} sleeps between pieces of work and waits for no other thread, so that the program may take "
        "as long as {source} does, however fast {name} is: count what {name} does before and after the "
        "change"
    )
    SLEEP_APART = (
        "{names} sleep and do not wake each other: which of these sleeps the program waits for is not seen"
    )
    PACED = "{name} begins each round when that is due: if it worked faster it would sleep for longer"
    MAY_BE_DUE = (
        "{name} works and sleeps by turns, and one run does not tell whether it sleeps until its next round "
        "is due: then it would only sleep for longer if it worked faster; give its work half of the input, "
        "and see whether its rounds come faster"
    )
    SHARED_CPUS = (
        "CPUs were short for {part:share} of the time that its progress took: a faster {stage} leaves its "
        "CPU to others, which no model of queues knows"
    )
    APART = "its parts do not wait for each other, so that no one of them sets its time"
    NOISE = (
        "the forecast for {stage} is {fate}: the machine takes {floor:share} of time by itself; quiet it "
        "(latlab system check), then {again}"
    )
    DRIFT = (
        "the forecast for {stage} is {fate}: its stub at 0 % differs from the unmodified system by "
        "{drift:share}, and the claimed gain is {gain:share}; {again}"
    )
    KEPT_BACK = "withheld"
    TRIED = "uncertain"  # and told, since what is measured with the fix stands beside it
    LARGER_BUDGET = "repeat it with --budget {seconds:.0f}"
    NO_RUNS_HELP = "more runs would not settle it, since the stub itself changes the system"


class AppliedSaid(Kind):
    """What was measured after a forecast was applied."""

    AGREES = (
        "Applied: with `{stage}` {speedup:share0} faster {tail}All {quantities} quantities agree with the "
        "forecast."
    )
    WRONG = (
        "Applied: with `{stage}` {speedup:share0} faster {tail}The forecast was wrong on {off:and}: measured "
        "and forecast intervals do not overlap."
    )
    TAIL = "p99.9 is {measured_ns:interval}; the forecast said {forecast_ns:interval}. "
