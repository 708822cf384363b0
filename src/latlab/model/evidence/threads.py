"""What the threads of a program tell."""

from __future__ import annotations

from latlab.model.evidence.said import Kind

__all__ = ["ScheduleNote", "ThreadEvidence", "ThreadFinding", "ThreadReason"]


class ScheduleNote(Kind):
    """What of threads can't be seen."""

    NARROW = (
        "{name} (process {pid}) is a 32-bit program: which lock, connection or file its threads wait for "
        "isn't known"
    )


class ThreadEvidence(Kind):
    """What a limit is named by."""

    HOLDER = "the progress waited for its holder {part:share} of the time"
    LOCK_WAITS = (
        "{waits:count} waits for it, {mean_ns:duration} each on average, at most {longest_ns:duration}"
    )
    HELD_BY = "held by {holders}, waited for by {waiters}"
    TAKEN_BY = "taken by {roles}"
    TOGETHER = "its {threads:plural thread} together ran {cpus:number} CPUs"
    WAITED_IN = "waited for in {places}"
    HELD_IN = "while it is held and waited for, {function} mostly runs"
    HELD_ASLEEP = "while it is held and waited for, its holder sleeps {part:share} of the time"
    HELD_BLOCKED = "while it is held and waited for, its holder is blocked {part:share} of the time"
    HELD_BY_IN = "held by {holders}, mostly in {function}, and waited for by {waiters}"
    DISK_LIMIT = "a control group lets the program have no more than {limit}"
    ROLES_WAITED = "{roles} waited for it"
    SLEPT = "{who} ran {running:share} of the time and slept otherwise"
    WAITED_FOR = "progress waited for {name} {part:share} of the time"
    RAN = (
        "{who} ran {running:share} of the time, was runnable without a CPU {runnable:share}, and "
        "waited for others {waited:share}"
    )
    RAN_AND_SLEPT = (
        "{who} ran {running:share} of the time, was runnable without a CPU {runnable:share}, slept "
        "{asleep:share}, and waited for others {waited:share}"
    )
    ITS_ROLE = "the others of its role ran {running:share} of the time"
    GOROUTINES = "its goroutines together ran {cpus:number} CPUs"
    COLLECTS = (
        "{part:share} of its samples allocate memory, and Go's garbage collector ran "
        "{cpus:number} CPUs beside it"
    )
    CONTENDED = "{part:share} of the samples in {function} wait for the mutex or hand it on"
    IN_TURN = "{count} goroutines run in {function}, one at a time, though a CPU was free"
    NEXT = (
        "the next one, {who}, ran {running:share} of the time, and was runnable without a CPU "
        "{runnable:share}"
    )
    SPINS = "{who} spins: it polls without progress"
    EACH_RAN = "each ran {running:share} of the time"
    NO_CPU = "progress was runnable without a CPU {runnable:share} of the time"
    USED = (
        "the program used {used:number} of {cpus} CPUs, and {waiting:number} more threads were runnable on "
        "average"
    )
    BOUND = (
        "its threads ran on {cpus} only, while {others} was idle {idle:share} of the time: an affinity or a "
        "cpuset keeps them there (`taskset -cp PID` shows and changes it)"
    )
    OTHERS_HAD = "in that time other programs had {part:share} of all CPUs' time: {listed}"
    ROLE_RAN = "{who} ran {running:share} of the time, runnable {runnable:share}"
    BLOCKED = "{who} was blocked {part:share} of the time on: {on}"
    ALL_USED = "all its threads together used {cpus:number} CPUs"
    OWES = "something was sent to {name}, and nothing came back"
    DEPENDED = "progress depended on {listed}"


class ThreadFinding(Kind):
    """What limits."""

    LOCK = "Bottleneck: {lock}. Progress waited for it {part:share} of the time; it is {held}."
    MUTEX = (
        "Bottleneck: {lock}. Goroutines wait for it, and one at a time runs in that function: "
        "{held:share} of the time."
    )
    DISK = "Bottleneck: the disk{where}. Progress waited for it {part:share} of the time."
    SLEEPS = "No resource is short: the program waits for the sleeps of {who}, {part:share} of the time."
    PACES = (
        "No resource is short: {who} paces itself. It begins each round when that is due, works "
        "{running:share} of the time, and sleeps until the next."
    )
    SLEEPS_IN_TURN = (
        "No resource is short, but {who} wait for each other, each {inner:share} of its time: the program "
        "waits for the sleeps of the one whose turn it is, {part:share} of the time."
    )
    PEER_LOCK = (
        "Bottleneck: another process, {name} (pid {pid}). Its threads take turns at {lock}: progress waited "
        "for who held it {part:share} of the time."
    )
    NETWORK = "Bottleneck: the network peer {peer}. Progress waited for it {part:share} of the time."
    PROCESS = "Bottleneck: another process, {name}. Progress waited for it {part:share} of the time."
    ROLE = "Bottleneck: {who}{sleeps}. Progress waited for it {part:share} of the time."
    ROLE_IN = (
        "Bottleneck: {who}{sleeps}. Progress waited for it {part:share} of the time, mostly in "
        "{function} ({samples:share0} of its samples)."
    )
    SPIN_LOCK = "Bottleneck: the {name} ({place}). {who} spin for it {spun:share} of the time that they run."
    QUOTA = (
        "Bottleneck: the CPU quota of its control group{quota}. It stopped the program "
        "{stopped:share} of the time."
    )
    CPUS = (
        "Bottleneck: the CPUs. What progress waited for was ready and had none {runnable:share} of the "
        "time; its own threads compete for them.{disk}"
    )
    CPUS_SHARED = (
        "Bottleneck: the CPUs, which {name} uses too. What progress waited for was ready and had none "
        "{runnable:share} of the time.{disk}"
    )
    DISK_COSTS_CPU = (
        " {who} waits for the disk, too, {part:share} of its time, and after each of these waits for a CPU."
    )
    LOAD = "Nothing in the program limits it. {why}, {part:share} of the time."
    UNKNOWN = "Cannot tell what limits: {why}."
    WITHHELD = "Cannot name one bottleneck: {why}."


class ThreadReason(Kind):
    """Why no limit is named, or what the program waits for where it limits nothing."""

    STOPPED = "the program was stopped by a signal or a debugger, or frozen"
    TOO_SHORT = "it was observed for {ns:duration} only"
    LONGER = "a run of a second or more, or --seconds 10, shows enough"
    NO_WAIT_ENDED = "its threads run, but no wait of them was seen to end"
    NOTHING_DONE = "No thread of it did anything"
    LOOKS_UP = "{name} waits with a time-out, and may wait for the program that it is connected to"
    NO_ANSWER = "no thread of it did anything, and a program that it is connected to may owe it an answer"
    WHICH_PEER = (
        "progress waited {part:share} of the time for packets of a connection, and no end of it outside of "
        "the program is known: between two of its own processes a delayed acknowledgement or a full window "
        "takes such time (`ss -tip` shows them)"
    )
    ASK_THE_OTHER = "`latlab diagnose --pid PID` of that program shows what it waits for"
    CLIENTS = "It waits for its clients ({clients})"
    NO_WORK = "It waits for work"
    UNSEEN = "what its progress waited for could not be seen for {part:share} of the time"
    BEYOND_LIFE = (
        "what was recorded contradicts itself: threads ran and waited for {over_ns:duration} longer than "
        "they lived; observe again"
    )
    NOTHING_LEADS = "nothing leads: {listed}"
    IN_TURN = "two limit in turn: {listed}"
    LINES = (
        "{parts} parts of it were not seen to wait for each other, and each has a limit of its own: {listed}"
    )
    LACKED_UNSEEN = (
        "its threads want no more CPUs than there are and lacked them often; who had them was not seen"
    )
    IDLE_CPUS = (
        "progress was runnable without a CPU {runnable:share} of the time, and the CPUs were idle "
        "{idle:share} of it: threads that are woken queue behind one another, and more CPUs would hardly help"
    )
    CROWDED = (
        "its threads want {times:number} times the CPUs that there are, so another CPU or a faster "
        "{busiest} would help; the same command on more CPUs tells which"
    )
    CHANGES = (
        "it changes with time: parts of the observed time give {name} in {cases:share} of the cases only"
    )
    ALIKE = "{one} and {other} are about equally busy: {busy:share} and {other_busy:share} of the time"
    ALIKE_ASLEEP = (
        "{one} and {other} work and sleep in the same rhythm, and are about equally slow: they wait for no "
        "other {busy:share} and {other_busy:share} of the time"
    )
    ASIDE = (
        "{name} sleeps and ended {ended:plural wait} of each of the others at most, which used "
        "{cpus:number} CPUs: they hardly depend on it"
    )
    MAY_BE_DUE = (
        "{name} works {running:share} of the time and sleeps {asleep:share}, and one run does not tell "
        "whether it sleeps until its next round is due: then it would only sleep for longer if it worked "
        "faster; give its work half of the input, and see whether its rounds come faster"
    )
    SWITCH_INTERVALS = (
        "{name} waits in steps of 5 ms, as for the interpreter lock (GIL), while {holder} works: {holder} "
        "may be what limits; `py-spy record --gil` shows who holds the lock"
    )
    READS_PAGES = (
        "{name} waits for pages of files {disk:share} of the time, and {part:share} of what it runs is where "
        "it waits so: the kernel's reading and its own work there are not told apart; "
        "`perf trace -F all --no-syscalls` counts the page faults"
    )
    LOCK_OR_WORK = (
        "{name} works, and its threads wait for {lock} in {part:share} of the time: either may limit"
    )
    CPUS_OR_WORK = (
        "{who} ran {running:share} of the time and were runnable without a CPU {runnable:share}: "
        "their work or the CPUs may limit"
    )
    ASKS = (
        "of what {name} runs, {tries:share} takes locks or tries and {clock:share} reads the clock: "
        "it may work, or wait in a loop for another thread"
    )
    EACH_OTHER = (
        "{name} ({threads:plural thread}) wait for each other {part:share} of the time: a lock that "
        "they share, or their work may limit"
    )
