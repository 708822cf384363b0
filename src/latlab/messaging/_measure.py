"""One run: checked, measured, analysed."""

from __future__ import annotations

from collections.abc import Callable

from latlab.errors import LatlabError, UsageError
from latlab.messaging import _registry
from latlab.messaging._analysis import analyse
from latlab.messaging.running.ways.clients import promises
from latlab.model.messaging.driver import checked_driver
from latlab.model.messaging.results import Facts, Measurement, Result, Settings
from latlab.words import plural, size

__all__ = ["check", "measure", "measure_and_analyse"]

LARGEST = 64 << 20
MOST = 2**32 - 2
LARGEST_BATCH = 1 << 30
# Stamps in ticks and in ns, when it was due, and the analysis's own copies of one series.
MEMORY_PER_MESSAGE = 64


def check(settings: Settings) -> tuple[Settings, Facts]:
    """The settings with their transport's own name, and its facts.

    Raises:
        UsageError: for what no run can do, with the option to change.
        MissingExtraError, UnavailableError: for what isn't installed.
    """
    facts, _ = _registry.resolve(settings.transport)
    if ":" not in settings.transport and not facts.plugin:
        settings = settings.with_(transport=facts.name)
    if settings.messages < 1:
        raise UsageError("a run needs at least 1 message", remedy="say --messages 1000")
    if settings.total > MOST:
        raise UsageError(
            f"{settings.total} messages are more than a run can number", remedy=f"at most {MOST}"
        )
    if settings.size < 1 or settings.size > LARGEST:
        raise UsageError(
            f"a message of {plural(settings.size, 'byte')}", remedy="sizes go from 1 byte to 64 MB"
        )
    if settings.size > facts.max_bytes:
        raise UsageError(
            f"{facts.name} takes messages of at most {plural(facts.max_bytes, 'byte')}, not {settings.size}",
            remedy="choose a smaller --size or another transport",
        )
    if settings.topology not in facts.topologies:
        raise UsageError(
            f"{facts.name} can't run as {settings.topology}",
            remedy=f"it runs as {', '.join(facts.topologies)}",
        )
    for name, value, least in (
        ("batch", settings.batch, 1), ("window", settings.window, 1),
        ("sample-every", settings.sample_every, 1),
        ("warmup", settings.warmup, 0), ("burst", settings.burst, 1), ("seed", settings.seed, 0),
        ("buffer", 1 if settings.buffer_bytes is None else settings.buffer_bytes, 1),
    ):  # fmt: skip
        if value < least:
            raise UsageError(f"--{name} {value}", remedy=f"it is at least {least}")
    if settings.duration_s is not None and not settings.duration_s > 0.0:
        raise UsageError(f"--duration {settings.duration_s:g}", remedy="it is above 0 seconds")
    if not settings.timeout_s > 0.0:
        raise UsageError(f"--timeout {settings.timeout_s:g}", remedy="it is above 0 seconds")
    if settings.batch * settings.size > LARGEST_BATCH:
        raise UsageError(
            f"a batch of {settings.batch} messages of {plural(settings.size, 'byte')}",
            remedy=f"at most {size(LARGEST_BATCH)} are handed over at once",
        )
    late = [message for message, _ in settings.stalls if message >= settings.total]
    if late:
        raise UsageError(
            f"a stall at message {late[0]} of {settings.total}, warm-up included",
            remedy="messages are counted from 0",
        )
    if settings.server != "auto" and facts.broker is None:
        raise UsageError(f"{facts.name} has no server", remedy="leave --server out")
    if settings.topology == "pingpong" and settings.batch > 1:
        raise UsageError("a ping-pong sends one message at a time", remedy="leave --batch out")
    if settings.half and settings.topology != "pingpong":
        raise UsageError("--half is of a round trip", remedy="say --topology pingpong")
    if settings.topology == "direct" and (settings.stalls or settings.faults or settings.broker_delay_ns):
        raise UsageError("there is no broker to plant something in", remedy="say --topology broker")
    if settings.kernel_stamps and facts.name not in ("tcp", "tcp-nagle", "udp", "multicast"):
        raise UsageError(f"{facts.name} has no kernel time stamps", remedy="tcp, udp and multicast have them")
    _check_attached(settings, facts)
    _check_client(settings, facts)
    _check_many(settings, facts)
    _check_sizes(settings, facts)
    if settings.broker is not None and facts.name not in ("tcp", "tcp-nagle", "udp"):
        raise UsageError(f"{facts.name} reaches no other host", remedy="tcp, tcp-nagle and udp do")
    if settings.broker is not None and settings.topology == "direct":
        raise UsageError("a direct run has no broker", remedy="say --topology broker")
    if settings.broker is not None and settings.network == "namespace":
        raise UsageError("a broker on another host has a line of its own", remedy="leave --network out")
    if settings.network == "namespace" and facts.name not in ("tcp", "tcp-nagle", "udp"):
        raise UsageError(f"{facts.name} knows no network", remedy="tcp, tcp-nagle and udp do")
    if settings.network == "namespace" and settings.topology == "direct":
        raise UsageError("a network namespace is for a broker", remedy="say --topology broker")
    if settings.network == "host" and (
        settings.network_rate_bits
        or settings.network_delay_ns
        or settings.network_jitter_ns
        or settings.network_loss
    ):
        raise UsageError("the line of this host can't be changed", remedy="say --network namespace")
    _registry.require(facts, settings.server)
    return settings, promises(facts, settings)


def _check_attached(settings: Settings, facts: Facts) -> None:
    """Whether somebody else's program can be the broker of such a run.

    Raises:
        UsageError: with what to change.
    """
    from latlab.messaging.running.ways.links import ATTACHABLE

    if settings.connect is None:
        if settings.listen is not None:
            raise UsageError("--listen is for a program that --connect reaches", remedy="say --connect, too")
        return
    if facts.name not in ATTACHABLE:
        raise UsageError(f"{facts.name} can't be attached", remedy=f"{', '.join(ATTACHABLE)} can")
    if settings.topology == "direct" or settings.broker is not None or settings.network == "namespace":
        raise UsageError(
            "the program at --connect is the broker", remedy="leave --topology, --broker and --network out"
        )
    if settings.stalls or settings.faults or settings.broker_delay_ns:
        raise UsageError("nothing can be planted in somebody else's program", remedy="leave that out")


def _check_client(settings: Settings, facts: Facts) -> None:
    """Whether the transport's client and its server know what is asked for.

    Raises:
        UsageError: with what to change.
    """
    checked_driver(facts.name, facts.driver, settings.driver)
    tls = settings.tls or settings.tls_ca or settings.tls_cert or settings.tls_key or settings.tls_unverified
    given = {name: getattr(settings, name) for name in ("user", "password", "token", "vhost")}
    asked = [name for name, value in {**given, "tls": tls}.items() if value]
    if not asked:
        return
    for name in asked:
        if name not in facts.access:
            have = f"it takes {', '.join(facts.access)}" if facts.access else "leave it out"
            raise UsageError(f"{facts.name} takes no --{name}", remedy=have)
    if tls and not settings.tls:
        raise UsageError("a certificate without --tls", remedy="say --tls, too")
    if settings.tls_key and not settings.tls_cert:
        raise UsageError("--tls-key without its certificate", remedy="say --tls-cert, too")
    if settings.server == "auto" and facts.broker is not None:
        raise UsageError(
            f"the {facts.broker} that latlab starts asks for no {asked[0]}",
            remedy="say --server HOST:PORT of yours",
        )


_FEWEST_BYTES, _MOST_SIZES = 8, 1000


def _check_sizes(settings: Settings, facts: Facts) -> None:
    """Whether messages can have sizes of their own.

    Raises:
        UsageError: with what to change.
    """
    if not settings.sizes:
        return
    if facts.loop != "python":
        raise UsageError(
            f"all messages through {facts.name} have one size", remedy="products take --sizes; say --size"
        )
    if min(size for size, _ in settings.sizes) < _FEWEST_BYTES:
        raise UsageError(
            "a message of a size of its own needs a number and a checksum",
            remedy=f"give sizes of {plural(_FEWEST_BYTES, 'byte')} and more",
        )
    if len(settings.sizes) > _MOST_SIZES:
        raise UsageError(f"{len(settings.sizes)} sizes", remedy=f"give at most {_MOST_SIZES}")
    if settings.size != max(size for size, _ in settings.sizes):
        raise UsageError("--size beside --sizes", remedy="leave one of them out")


_MOST_ENDS = 64


def _check_many(settings: Settings, facts: Facts) -> None:
    """Whether the transport serves that many senders and receivers.

    Raises:
        UsageError: with what to change.
    """
    senders, receivers, groups = settings.senders, settings.receivers, settings.groups
    for name, value in (("senders", senders), ("receivers", receivers), ("groups", groups)):
        if value < 1:
            raise UsageError(f"--{name} {value}", remedy="it is at least 1")
    if groups > receivers:
        raise UsageError(
            f"{groups} groups of {receivers} receivers", remedy="each group has a receiver: say --receivers"
        )
    if senders == receivers == 1:
        return
    if senders + receivers > _MOST_ENDS:
        raise UsageError(
            f"{senders + receivers} senders and receivers", remedy=f"at most {_MOST_ENDS} together"
        )
    if not facts.many:
        raise UsageError(
            f"{facts.name} joins one sender and one receiver",
            remedy="products such as redis-stream, mqtt and rabbitmq take more",
        )
    if settings.topology == "pingpong":
        raise UsageError("a ping-pong has one sender and one receiver", remedy="leave the others out")
    if settings.size < 4:
        raise UsageError("messages of several senders need 4 bytes for their number", remedy="say --size 4")
    if facts.many == "one" and groups > 1:
        raise UsageError(
            f"through {facts.name} each message goes to one receiver", remedy="leave --groups out"
        )
    if facts.many == "all" and groups < receivers:
        raise UsageError(
            f"through {facts.name} each message goes to every receiver", remedy=f"say --groups {receivers}"
        )


def _check_memory(settings: Settings) -> None:
    """Refuse a run whose stamps would have the system kill somebody.

    Raises:
        LatlabError: with the number of messages that there is room for.
    """
    import psutil

    free = int(psutil.virtual_memory().available)
    each = MEMORY_PER_MESSAGE + 16 * (settings.groups - 1)
    if settings.total * each > free:
        raise LatlabError(
            f"{settings.total} messages take {size(settings.total * each)} to measure and "
            f"analyse, and {size(free)} are free",
            remedy=f"say --messages {free // each // 2}",
        )


def measure(settings: Settings, told: Callable[[int, int], None] | None = None) -> Measurement:
    """Run.

    Args:
        told: hears some ten times a second how many of how many messages have been received.

    Raises:
        LatlabError: where nothing could be measured; a run that broke off is returned, as partial.
    """
    settings, facts = check(settings)
    if settings.duration_s is not None:
        settings = _lasting(settings)
    _check_memory(settings)
    _, target = _registry.resolve(settings.transport)
    heard = None if told is None else lambda received: told(received, settings.total)
    if target is not None:
        from latlab.messaging.running.python import run_python

        return run_python(settings, facts, target, heard)
    from latlab.messaging.running.native import run_native

    return run_native(settings, facts, heard)


def _lasting(settings: Settings) -> Settings:
    """As many messages as take the wanted time: by the schedule, or by what a short run takes."""
    seconds, load = settings.duration_s or 0.0, settings.load
    plain = settings.with_(duration_s=None)
    if load in ("rate", "poisson"):
        rate_hz = settings.rate_hz
    elif load == "bursts":
        rate_hz = settings.burst * 1e9 / settings.burst_period_ns
    else:
        # Of a first run, so that a limit that is not known yet is met; twice, since buffers fill at first.
        rate_hz, count = 0.0, 2000
        for _ in range(2):
            found = measure(plain.with_(messages=count, warmup=min(count // 10, 1000)))
            span = int(found.received_ns.max()) - int(found.sent_ns[0])
            rate_hz = found.receiver.count * 1e9 / max(span, 1)
            count = max(2000, min(int(rate_hz * min(seconds, 0.3)), MOST // 2))
    messages = max(1, min(round(rate_hz * seconds), MOST - settings.warmup))
    return plain.with_(messages=messages, warmup=min(settings.warmup, max(1, messages // 10)))


def conform(settings: Settings) -> list[tuple[str, str | None]]:
    """Check a plug-in, native or of the Python loop, against its promises: (what, what is wrong or None).

    Raises:
        UsageError: for latlab's own native transports, which have tests of their own.
    """
    facts, target = _registry.resolve(settings.transport)
    if target is None and not facts.plugin and facts.library is None:
        raise UsageError(f"{facts.name} is latlab's own", remedy="this checks plug-ins and clients")
    from latlab.messaging.judging.conformity import conformity, conformity_of_plugin

    settings, facts = check(settings)
    if target is None:
        return conformity_of_plugin(facts, settings)
    return conformity(target, facts, settings)


def measure_and_analyse(
    settings: Settings, told: Callable[[int, int], None] | None = None
) -> tuple[Measurement, Result]:
    """Run and say what it means; `told` as for `measure`."""
    measurement = measure(settings, told)
    return measurement, analyse(measurement)
