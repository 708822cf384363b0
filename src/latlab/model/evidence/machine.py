"""What is said of the machine: its settings and what they cost, changes and probes, and the floor."""

from __future__ import annotations

from latlab.model.evidence.said import Kind

__all__ = [
    "ChangeSaid", "FloorRefused", "FloorUnknown", "ProbeSaid", "SettingCost", "SettingFix", "SettingUnknown",
    "SettingValue",
]  # fmt: skip


class SettingCost(Kind):
    """What a setting does to measurements while it is not good."""

    GOVERNOR = "the first ms after idle run slowly: up to 2 times"
    TURBO_INTEL = "the frequency follows temperature and neighbours: some % a run"
    TURBO = "the frequency follows temperature and neighbours: some % from run to run"
    ENERGY_BIAS = "the processor lowers its clock while it waits for memory: some % a run"
    IDLE_STATES = "a core that idled wakes up 1 to 200 µs later, by the depth of its sleep"
    WAKE_UP_LIMIT = "cores may sleep as deeply as they like, and wake up that much later"
    ISOLATION = "other threads, and 100 to 1000 ticks a second, interrupt a core that isn't isolated"
    RCU_OFFLOAD = "the kernel's deferred frees run on the core: 1 to 100 µs at a time"
    NEW_INTERRUPTS = "a device that is started later interrupts a measuring core"
    IRQBALANCE = "it moves interrupts back to the cores that they were moved off, every 10 s"
    NETWORK_QUEUES = "packets of others are worked on by a measuring core: 5 to 50 µs each"
    COALESCING = "a card holds a packet back for this time, waiting for more"
    ENERGY_EFFICIENT_ETHERNET = "a link that slept takes 5 to 30 µs to wake up"
    WORK_QUEUES = "kworker threads take 5 to 100 µs at a time"
    WRITEBACK = "dirty pages are written out by a measuring core: up to ms"
    REAL_TIME_LIMIT = "a real-time thread that spins loses 50 ms of each second"
    FAIR_SERVER = "since Linux 6.12 it gives others 50 ms of each second, in place of the real-time limit"
    HUGE_PAGES = "khugepaged and faults of 2 MiB: stalls up to ms"
    SAME_PAGES = "ksmd compares pages on any core, and a write to a merged page faults: 1 to 5 µs"
    SWAP = "a page that was swapped out takes ms"
    CLOCK_SOURCE = "a clock other than the TSC costs a system call or more: 0.2 to 2 µs a reading"
    ADDRESS_LAYOUT = "caches and branch predictors meet another layout each run: some % between runs"
    MITIGATIONS = "each system call and interrupt costs 0.1 to 1 µs more"
    TIMER_SLACK = "each sleep ends up to this much later"
    NMI_WATCHDOG = "a non-maskable interrupt now and then, and one hardware counter less"
    SOFT_WATCHDOG = "a timer and a thread on every core, every 4 s: 5 to 20 µs"
    STATISTICS_INTERVAL = "every core folds its memory statistics at this interval, in seconds: 5 to 50 µs"
    SAMPLE_RATE = "a profiler of somebody else may interrupt each core at this rate, in Hz: 1 to 5 µs each"
    NUMA_BALANCING = "page faults of its own making"
    TIMER_MIGRATION = "others' timers run on this core"
    LOAD = "they preempt, and they empty the shared caches"
    QUOTA = "the kernel stops the whole container until the quota's next period: tens of ms"
    STEAL = "the host ran something else on our CPU"
    INTERRUPTS = "device interrupts on a measuring core take 1 to 50 µs each"
    SIBLINGS = "a busy sibling takes up to half of a core's units"
    SHIELD = "a task that wakes on a measuring core holds it for up to a time slice: 1 to 4 ms"


class SettingUnknown(Kind):
    """Why a setting is not known, or not there."""

    REMEDY = "{what}; {remedy}"
    UNREADABLE = "{path} can't be read ({why})"
    EMPTY = "{path} is empty"
    NO_LATENCY = "{path} holds no latency"
    NO_CONTROL_GROUP = "the control group is not known ({why})"
    NO_ONLINE_CPUS = "the cores that are online are not known ({why})"
    NOT_TOLD = "the driver of {cards} does not tell it (usual in a virtual machine)"
    NO_SETTING = "this kernel has no such setting"
    NO_CPUFREQ = "no cpufreq (usual in a virtual machine): the host decides"
    NO_INTEL_PSTATE = "no intel_pstate"
    NO_MANAGED_FREQUENCY = "no hardware-managed frequency (usual in a virtual machine)"
    NO_CPUIDLE = "no cpuidle, or polling alone: the host decides"
    NO_FAIR_SERVER = "no fair server here (Linux before 6.12)"
    NO_DEBUGFS = "debugfs is not mounted: sudo mount -t debugfs none /sys/kernel/debug"
    NO_MASK = "this kernel has no such mask"
    NO_CPUS_NAMED = "no measuring cores are named: give --cpus"
    NO_INTERRUPTS = "no /proc/irq here"
    NO_TOPOLOGY = "this kernel publishes no topology"
    NO_STOLEN_TIME = "this kernel does not count stolen time"
    NO_MITIGATIONS = "this kernel does not list its mitigations"
    NO_ISOLATION = "this kernel does not publish what is isolated"
    NO_PROCESSES = "processes are not known here"
    NO_CARD = "no network card here"
    NO_CPUSET = "this kernel has no cpuset controller"
    ALL_SHIELDED = "every CPU is to be shielded: none is left for the others"


class SettingValue(Kind):
    """What a setting is, where the kernel's own word or number does not say it."""

    SWAP_AREAS = "{areas} areas"
    LOAD = "{load} over 1 min, {running} running now, {cpus} CPUs"
    STOLEN = "{stolen:share2} since boot"
    NONE_ACTIVE = "none active"
    ISOLATED = "isolated: {isolated}, nohz_full: {nohz_full}"
    ISOLATED_OTHERS = "isolated: {isolated}, nohz_full: {nohz_full}; measured on: CPU {cpus}"
    RUNNING = "running (process {pid})"
    NOT_RUNNING = "not running"
    QUOTA = "{quota_us:us} of each {period_us:us}"
    IDLE_STATES = "idle states are enabled"
    NO_IDLE_STATES = "disabled"
    COALESCED = "{card}: received {received_us:us}, sent {sent_us:us}"
    COALESCED_ADAPTIVELY = "{card}: received {received_us:us}, adaptive, sent {sent_us:us}"
    LINK_SLEEPS = "on, and in use"
    MASKS_RUN = "{count} of {whole} may run on CPU {cpus}"
    MASKS_HAND = "{count} of {whole} hand packets to CPU {cpus}"
    MASKS_SEND = "{count} of {whole} would send new interrupts to CPU {cpus}"
    SHARE_CORE = "{siblings} share a core with CPU {cpus}"
    NONE_SHARES_CORE = "no other CPU shares a core with CPU {cpus}"
    SHARED_CORES = "cores shared by {pairs}"
    NO_SHARED_CORE = "no core is shared"
    TASKS_OF_OTHERS = "{tasks} tasks of others may run on CPU {cpus}"


class SettingFix(Kind):
    """What to do where no command does it alone."""

    BOOT = "add {parameter} to the kernel's command line and boot again"
    SHIELD = "stop them, or shield cores: sudo latlab system tune --apply --for jitter --cpus {cpus}"
    DEDICATED_HOST = "use a dedicated host, or pin the virtual CPUs"
    NO_QUOTA = "start the container without it: docker update --cpus 0 <container>"


class ChangeSaid(Kind):
    """What became of a setting that was to be written, or written back."""

    READS = "reads {value}"
    PROBED = "reads {value}; probe: {verdict}"
    SAVED_AT = "saved at {when}"
    STARTED_SINCE = "the machine was started since: its settings are those of its start"
    CHANGED_SINCE = "it was changed after latlab wrote {ours}; --overwrite writes {before}"
    GONE = "it is not there any more"
    TASKS_BACK = "its tasks are back"
    MEASURED = "{group}: {verdict} (gap time {percent:percent} [{low} to {high}], {pairs} pairs)"
    BOUND = "{percent:percent}"
    NOT_BOUND = "?"
    REFUSED = "{name} {value} was refused ({why})"
    KEPT_UNSEEN = "it changes runs, not gaps: kept without a verdict"


class ProbeSaid(Kind):
    """Whether a write had an effect, by what was measured before it and after it."""

    NOT_POSSIBLE = "not possible here"
    HELPS = "it helps"
    WORSE = "it makes things worse"
    NOTHING_THAT_MATTERS = "it changes nothing that matters"
    NO_EFFECT = "no effect was detected"
    NONE_BEFORE = "there were none before either"
    MORE = "it does not help: there are more"
    REAL_TIME = "a real-time thread lost at most {before_ms:ms} at once before, {after_ms:ms} after: {state}"
    STILL_LIMITED = "a limit (this one, or the fair server) is still in force"
    LIMIT_GONE = "the limit is gone"
    NEVER_LIMITED = "none was in force before either"
    ONE_LAYOUT = "three processes had {before:count} layouts before, and have one layout"
    LAYOUTS = "three processes had {before:count} layouts before, and have different layouts still"
    PREEMPTED = (
        "{effect}: a measuring thread was preempted {before_hz:number} times a second before, "
        "{after_hz:number} after"
    )
    INTERRUPTED = (
        "{effect}: devices interrupted the measuring CPUs {before_hz:number} times a second before, "
        "{after_hz:number} after"
    )


class FloorRefused(Kind):
    """Why a run of `latlab jitter` is not kept as the machine's floor."""

    BROKEN_OFF = "it was broken off"
    SHORT = "it took {seconds:seconds}, and {least:seconds} are needed"
    OTHERS_UNKNOWN = "what other processes did meanwhile is not known"
    OTHERS_BUSY = "other processes used {cpus:number} CPUs meanwhile"
    OTHER_THREADS = "other threads took {part:share} of CPU {cpu}'s time"


class FloorUnknown(Kind):
    """Why no floor is known for the cores in use, and how to measure it; and the figures of a core of one."""

    NOT_MEASURED = "not measured on this machine yet; measure it with `latlab jitter -r 10`"
    OTHER_VERSION = "kept by another version of latlab; measure it with `latlab jitter -r 10`"
    OTHER_MACHINE = "measured on another machine or kernel; measure it with `latlab jitter -r 10`"
    EARLIER_START = "measured before this start of the machine; measure it with `latlab jitter -r 10`"
    OTHER_CPUS = (
        "CPU {cpu} is used here and was not measured; measure it with `latlab jitter -r 10 --cpus {cpus}`"
    )
    NOT_A_FLOOR = "{path} is not a floor; measure it with `latlab jitter -r 10`"
    CORE = (
        "CPU {cpu}: p50 {p50_ns:duration}, p99.9 {p99_9_ns:duration}, max {max_ns:duration}, "
        "{gaps_hz:number} gaps/s"
    )
