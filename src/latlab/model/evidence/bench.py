"""What a comparison of two benchmarks says and is to be read with; what a condition of measuring does."""

from __future__ import annotations

from latlab.model.evidence.said import Kind

__all__ = ["BenchWarning", "ConditionSaid", "LevelSaid", "VerdictSaid"]


class BenchWarning(Kind):
    """What a reader of a verdict should know; each with what to do, where something helps."""

    OF_SIDE = "{side}: {warning}"
    WARMING_UP = "a process is still warming up until iteration {iteration}; raise --warmup"
    DRIFT = (
        "the level changed during the experiment (at process {processes}); pairs cancel it, single runs don't"
    )
    GROUPS = "processes fall into {groups} groups; see the report's densities, and compare layouts"
    ITERATION_GROUPS = (
        "the iterations of a process fall into {groups} groups, which one typical time does not "
        "describe; see the report's densities and the quantiles' shifts"
    )
    COARSE_CLOCK = (
        "an iteration of {iteration_ns:duration} is less than 20 steps of the clock ({step_ns:duration}); "
        "raise --batch or drop set_up()"
    )
    ONE_BUILD = (
        "each side is one build: code placement alone can change times by some per cent; --build CMD "
        "--padding draws a new placement for each block of pairs"
    )
    DISPLACED = (
        "an operation takes {ratio:number} times as long in turns with the other side's process, which "
        "displaces its data from the caches, as alone"
    )
    OPERATIONS = "A does {a} operations a run and B {b}: times are compared per operation"
    CORRELATED = "neighbouring values are correlated: {inflation:number} of them count as one"
    ONE_PROCESS = "a side is one process: {deviation:share0} between processes is assumed; measure several"
    BETWEEN_ASSUMED = (
        "the processes differ by {effect:change}, which the machine may have done from one run to the "
        "next: {deviation:share} between runs is assumed"
    )
    BETWEEN_SEEN = (
        "the processes differ by {effect:change}, which the machine may have done from one run to the "
        "next: {deviation:share} between runs is what {runs} runs show"
    )
    APART = "the sides were measured at different times: machine drift looks like an effect; see bench ab"
    ENVIRONMENTS = "different environments: {differences}"


class VerdictSaid(Kind):
    """Why a comparison is ruled so, where the ruling of a single paired experiment does not say it."""

    WITHIN = "the interval is within {margin:share2}"
    WITHIN_THIS_BUDGET = "the interval is within {margin:share0}; this budget can't tell less here"
    ONE_PLACEMENT = (
        "each side is one build, whose code placement alone can move times by {margin:share}, and the "
        "difference may be smaller; draw placements: --build CMD --padding"
    )
    DISPLACED = (
        "an operation takes {ratio:number} times as long in turns with the other side's process as alone, so "
        "that a change may be diluted by as much; raise --seconds"
    )
    INTERLEAVE = "run them interleaved: {command}"
    COMMIT = "commit the changes, then run both revisions interleaved: {command}"
    BOTH_FILES = (
        "run both sides interleaved, with the earlier code in a folder OLD beside this one: {command}"
    )
    BOTH_SIDES = (
        "run them interleaved: latlab bench ab of both sides' files or commands, or latlab bench rev of two "
        "revisions"
    )
    MORE_RUNS = (
        "within what this machine may do from one run to the next; more runs of the same code in the "
        "baseline tell that better: {command}"
    )
    TOO_FEW = (
        "{processes} processes a side are too few for a verdict, it takes {enough}; taken at face value B "
        "differs by {effect:signed}; {advice}"
    )
    FEW_SLOW_RUNS = (
        "over all that was measured the means differ by {effect:change}, which a few slow runs decide; "
        "measure longer"
    )
    TOO_FEW_ITERATIONS = "needs {groups} times {needed:count} effective iterations, has {effective:count}"


class CostsSaid(Kind):
    """Why what an operation costs beside its time was not counted."""

    LONG = "a run takes {run:seconds}, and they are counted in one more of {most:seconds} at most"
    OTHER_LOOP = "its runs are made by Google Benchmark's loop"
    FAILED = "the process that counts them failed: {why}"


class LevelSaid(Kind):
    """Whether the level of a series of results changed."""

    TOO_FEW = "{results} results are too few to find a change of level; it takes {enough}"
    UNCHANGED = "no change of level of {effect:share2} or more"
    UNCHANGED_AS_FAR = (
        "no change of level of {effect:share2} or more, as far as this scatter tells: "
        "{wanted:share0} shows after {enough} results; two results after a change show {two:share0}"
    )
    UNCHANGED_TOO_WIDE = (
        "no change of level of {effect:share2} or more, as far as this scatter tells: "
        "{most} results after a change show {reach:share0}, and {wanted:share0} may not show at all; "
        "more processes a result, or a larger --false-alarms, show more"
    )
    FASTER = "faster by {change:share2} since {at}"
    SLOWER = "slower by {change:share2} since {at}; to accept it: latlab bench accept {level}"
    TWO_LEVELS = (
        "slower by {change:share2} since {at}, as before from {before} on: the machine has two levels, "
        "or a slowdown came again; to accept it: latlab bench accept {level}"
    )
    UNDONE = "slower by {change:share2} from {at} on, and back since {until}"
    ACCEPTED = "{direction} by {change:share2} since {at}, which is accepted"


class ConditionSaid(Kind):
    """What the levels of a condition were seen to do, why one can't be tried, and which are advised."""

    SEED_GIVEN = "each process was given the seed that its row in `seeds` names"
    NOT_TRIED = "{level} could not be tried: {why}"
    PROCESSOR = "{part:share0} of its processor beside one busy process"
    PREEMPTS = "SCHED_FIFO preempts the ordinary class"
    NOT_PREEMPTING = "SCHED_FIFO was not seen to preempt"
    BUSIEST = "the busiest core was busy {part:share0} of the time"
    LEAST_BUSY = "the least busy core was busy {part:share0} of the time"
    CORE_IDLE = "the load generator left a core idle"
    NOT_IDLE = "the machine is not idle without the load generator: others keep it busy"
    LOADED = "the load generator loads every core, and without it they are idle"
    LOST_AT_ONCE = "a spinning real-time process lost at most {ms:ms} at once"
    THROTTLED_ANYWAY = "real-time processes are throttled even without it"
    THROTTLES = "it throttles real-time processes"
    NOT_THROTTLING = "it throttles no thread here"
    STEP_TOOK = "a step of a fixed loop took {ns:duration}"
    CLOCK_MOVED = "the clock moved by a factor of {ratio:number}"
    CLOCK_STOOD = "the clock did not move under load"

    OTHER_CLASS = "a measuring process read back another class"
    NO_FIFO = "SCHED_FIFO isn't allowed here"
    FIFO_INHERITED = "latlab itself was started under SCHED_FIFO, which its processes inherit"
    NO_SEED = "{target} takes no parameter 'seed'"
    NO_FILES = "this machine has no {files}"
    OFFERED = "only {offered} are offered"
    READS_BACK = "{file} reads back '{value}'"

    NOTHING_MEASURED = "nothing could be measured"
    MEASURE_WITH = (
        "measure with {levels}; least scatter: {quietest} (interquartile range {iqr:share2} of the median)"
    )
    LEAVE = (
        "no factor changes the scatter by a tenth; leave them; least scatter: {quietest} (interquartile "
        "range {iqr:share2} of the median)"
    )
