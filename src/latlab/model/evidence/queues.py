"""What the queues of an application tell."""

from __future__ import annotations

from latlab.model.evidence.said import Kind

__all__ = ["QueueEvidence"]


class QueueEvidence(Kind):
    """What a verdict on stages rests on."""

    THREAD = (
        "its thread ran {ran:share0} of the time, was runnable without a CPU {waited:share0}, and was "
        "preempted {preempted:count} times a second"
    )
    BUSY = "{busiest} (by {how}); equally fast stages would differ this much in about 1 run in {chance:count}"
    BUSY_SURELY = (
        "{busiest} (by {how}); equally fast stages would differ this much in fewer than 1 run in 1,000"
    )
    LEADS = (
        "{stage} leads by {lead:share}: wake-ups and unequal CPUs make as much difference between "
        "equal stages"
    )
    INPUT = "its input {queue} held {fill:number} events on average"
    INPUT_BOUNDED = (
        "its input {queue} held {fill:number} events on average of {capacity:count}, and was full "
        "{full:share} of the time"
    )
    INPUT_GROWS = (
        "its input {queue} held {fill:number} events on average, and grew by {growth:number} a second"
    )
    INPUT_SHRINKS = (
        "its input {queue} held {fill:number} events on average, and fell by {fall:number} a second"
    )
    OUTPUT = "its output {queue} was empty {empty:share} of the time"
    BACK_PRESSURE = "back-pressure propagates upstream through {queues}"
    OVERFLOWS = (
        "no stage is busy for long, but {queue} overflows: {effect}; its bursts are larger than its "
        "capacity of {capacity} (mean fill {fill:number}, p99 {p99})"
    )
    MACHINE_FULL = (
        "its threads use {used:number} of {cpus} CPUs, and {waiting:number} more would run if they had one: "
        "the machine is full, and a faster stage would only pass its CPU on"
    )
    INTERPRETER_LOCK = (
        "its threads use {used:number} CPUs together; {stage}, which needs most of them, is busy "
        "{busy:share0} of the time and runs for {runs:share0}: they wait for the interpreter's lock"
    )
    STOPPED = (
        "{stage} has taken nothing since {since_s:seconds} into the run, for {for_s:seconds} until its "
        "end, though {waiting} events wait{state}"
    )
    ENDED = (
        "{stage} has taken nothing since {since_s:seconds} into the run, for {for_s:seconds} until its "
        "end, though {waiting} events wait: its thread has ended"
    )
    MOVES = "the bottleneck moves: {stretches}"
    EQUALLY_SLOW = "{every} {type} instances are equally slow; {stage} is the busiest"
    KEPT_WAITING = (
        "{stage} has an event in hand {occupied:share} of the time, and its thread no CPU for "
        "{waiting:share}: no stage is slow, but threads wait"
    )
    GOES_ON = "what {stage} takes goes on to {limits}, which limits"
    TOO_FEW = "{sweeps} sweeps and {events} events are too few to tell"
    NO_DRAIN = (
        "no queue says which stage drains it: name the stages where the queues are made, or with set_drain"
    )
    SOCKET = (
        "the kernel dropped {dropped:count} datagrams in front of {stage}, and its receive buffer "
        "{buffer} was nearly full {full:share} of the time"
    )
    LOOP = "{stage} holds the event loop {part:share} of the time{after}: no other task runs meanwhile"
    POOL = "{pool} is empty {empty:share} of the time, while {stage} has work"
    POOL_ALONE = (
        "{pool} is empty {empty:share} of the time, and each {stage} waits for an object of it {waits:share} "
        "of its time"
    )
    POOL_WAITS = (
        "{pool} is empty {empty:share} of the time, while {stage} has work: {waiting:number} of those in "
        "hand wait for an object on average"
    )
