"""The options of a messaging run, and how they become its settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from latlab import words
from latlab.cli._options import Seconds
from latlab.errors import UsageError
from latlab.model.messaging import Settings

_Number = TypeVar("_Number", int, float)
_RATES = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def number_of(text: str) -> int:
    """A size or a count: 64, 1k, 1M, 64MiB.

    Raises:
        UsageError: for anything else.
    """
    return _read(words.count_of, text)


def ns_of(text: str) -> int:
    """A time with its unit: 50us, 1.5ms.

    Raises:
        UsageError: for anything else.
    """
    return _read(words.duration_of, text)


def _read(reader: Callable[[str], _Number], text: str) -> _Number:
    try:
        return reader(text)
    except ValueError as error:
        what, _, remedy = str(error).partition("; ")
        raise UsageError(what, remedy=remedy) from None


def bits_of(text: str) -> float:
    """A network rate: 1gbit, 100mbit.

    Raises:
        UsageError: for anything else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.strip().lower())
    if found is None or found[2] not in _RATES:
        raise UsageError(f"'{text}' is not a network rate", remedy="write 1gbit or 100mbit")
    return float(found[1]) * _RATES[found[2]]


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Every option that shapes a run."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = [
    click.option(
        "--transport", required=True, help="What carries the messages; see 'latlab messaging transports'."
    ),
    click.option("--size", default="64", show_default=True, help="Bytes a message: 1 to 64M."),
    click.option("--messages", default="10000", show_default=True, help="Messages to measure."),
    click.option(
        "--warmup", default=None, help="Messages before them, kept apart. [default: a tenth, at most 1000]"
    ),
    click.option(
        "--topology", type=click.Choice(["broker", "direct", "pingpong"]), default="broker", show_default=True
    ),
    click.option("--half", is_flag=True, help="Report half of a ping-pong's round trip."),
    click.option(
        "--rate",
        multiple=True,
        help="Messages a second, open loop; or, as 1gbit, what --network lets through.",
    ),
    click.option("--poisson", is_flag=True, help="Poisson arrivals at --rate."),
    click.option("--burst", type=int, default=1, show_default=True, help="Messages a burst, with --every."),
    click.option("--every", help="From burst to burst, such as 10ms."),
    click.option("--load-file", type=click.Path(), help="Send at the times of a market-data file."),
    click.option(
        "--speed", type=float, default=1.0, show_default=True, help="How many times faster than the file."
    ),
    click.option("--batch", type=int, default=1, show_default=True, help="Messages handed over at once."),
    click.option("--buffer", help="Bytes of socket buffer, pipe or ring. [default: the transport's own]"),
    click.option("--window", "-M", type=int, default=100, show_default=True, help="M of the overheads."),
    click.option(
        "--sample-every", type=int, default=1000, show_default=True, help="Read CPU clocks every k messages."
    ),
    click.option(
        "--wait", type=click.Choice(["auto", "block", "poll", "both"]), default="auto", show_default=True
    ),
    click.option("--cpus", help="Cores of sender, broker and receiver: 0,1,2; - for any."),
    click.option(
        "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of Poisson arrivals."
    ),
    click.option("--stall", multiple=True, help="The broker stands still: MESSAGE:TIME, such as 5000:300ms."),
    click.option(
        "--fault", multiple=True, help="The broker errs on every k-th message: drop|repeat|swap|damage=K."
    ),
    click.option(
        "--receiver-delay",
        default="0ns",
        help="Time that the receiver spends on a message, such as 20us: the run lasts until it had them all.",
    ),
    click.option("--broker-delay", default="0ns", help="Time that the broker spends on a message."),
    click.option(
        "--timeout", type=Seconds(), default=10.0, show_default=True, help="Seconds without progress."
    ),
    click.option(
        "--server", default="auto", show_default=True, help="A product's server: HOST:PORT, or auto."
    ),
    click.option(
        "--network",
        type=click.Choice(["host", "namespace"]),
        default="host",
        show_default=True,
        help="Where the broker is: a network namespace of its own has a line of its own.",
    ),
    click.option("--broker", help="HOST:PORT of 'latlab messaging broker' on another host."),
    click.option(
        "--counter",
        "counters",
        multiple=True,
        help="Read this beside the messages: interrupts, net-bytes:eth0, file:PATH, a plug-in.",
    ),
    click.option(
        "--priority",
        type=click.IntRange(0, 96),
        default=0,
        help="Real-time priority (SCHED_FIFO) of the run's own threads, which block. [default: none]",
    ),
    click.option("--delay", default="0ns", help="Of that line, one way, such as 50us."),
    click.option("--jitter", default="0ns", help="Jitter of that line: up to this much more or less."),
    click.option("--loss", default="0%", help="Of that line, such as 0.1%."),
    click.option("--kernel-stamps", is_flag=True, help="Split latencies at the kernel (SO_TIMESTAMPING)."),
]


def settings_from(o: dict[str, Any]) -> Settings:
    """The settings that the options ask for.

    Raises:
        UsageError: for values that mean nothing.
    """
    messages = number_of(o["messages"])
    warmup = min(messages // 10, 1000) if o["warmup"] is None else number_of(o["warmup"])
    paces = [text for text in o["rate"] if not text.lower().endswith("bit")]
    lines = [text for text in o["rate"] if text.lower().endswith("bit")]
    if len(paces) > 1 or len(lines) > 1:
        raise UsageError("two rates of one kind", remedy="give one in messages a second, and one in bit")
    rate_hz = _rate(paces[0]) if paces else None
    load = "max"
    if o["load_file"] is not None:
        load = "file"
    elif o["every"] is not None:
        if rate_hz is not None or o["poisson"]:
            raise UsageError("bursts have a period, not a rate", remedy="leave --rate or --every out")
        load = "bursts"
    elif rate_hz is not None:
        load = "poisson" if o["poisson"] else "rate"
    elif o["poisson"]:
        raise UsageError("--poisson needs a rate", remedy="say --rate 10000 --poisson")
    elif o["burst"] != 1:
        raise UsageError("--burst needs a period", remedy="say --burst 100 --every 10ms")
    return Settings(
        transport=o["transport"],
        size=number_of(o["size"]),
        messages=messages,
        warmup=warmup,
        topology=o["topology"],
        half=o["half"],
        load=load,
        rate_hz=rate_hz or 0.0,
        burst=o["burst"],
        burst_period_ns=0 if o["every"] is None else ns_of(o["every"]),
        load_file=o["load_file"],
        speed=o["speed"],
        batch=o["batch"],
        buffer_bytes=None if o["buffer"] is None else number_of(o["buffer"]),
        window=o["window"],
        sample_every=o["sample_every"],
        wait=o["wait"],
        cpus=None if o["cpus"] is None else _cpus(o["cpus"]),
        seed=o["seed"],
        stalls=tuple(sorted(_stall(text) for text in o["stall"])),
        faults=dict(_fault(text) for text in o["fault"]),
        receiver_delay_ns=ns_of(o["receiver_delay"]),
        broker_delay_ns=ns_of(o["broker_delay"]),
        timeout_s=o["timeout"],
        server=o["server"],
        kernel_stamps=o["kernel_stamps"],
        priority=o["priority"],
        counters=o["counters"],
        broker=o["broker"],
        network=o["network"],
        network_rate_bits=bits_of(lines[0]) if lines else None,
        network_delay_ns=ns_of(o["delay"]),
        network_jitter_ns=ns_of(o["jitter"]),
        network_loss=_share(o["loss"]),
    )


def axis_of(text: str) -> tuple[str, list[Any]]:
    """An axis of a sweep: "size=1,100,1k", or "size=1,6,100,1k,…,1M", which goes on by the same factor.

    Raises:
        UsageError: for anything else, a value that is missing or given twice among them.
    """
    name, equals, values = text.partition("=")
    words = [word.strip() for word in values.split(",")]
    if not equals or not all(words):
        raise UsageError(f"'{text}' is not a sweep", remedy="write size=1,100,1k")
    read = _AXES.get(name, number_of)
    found: list[Any] = []
    for i, word in enumerate(words):
        if word in _ELLIPSES:
            found += _between(text, found, [read(next_word) for next_word in words[i + 1 : i + 2]])
        else:
            found.append(read(word))
    if len(set(found)) < len(found):
        raise UsageError(f"'{text}' has a value twice", remedy="leave one of them out")
    return name, found


_ELLIPSES = ("…", "...")
_MOST_BETWEEN = 1000


def _between(text: str, before: list[Any], after: list[Any]) -> list[Any]:
    """What an ellipsis stands for: values that grow by the same factor as the two before it."""
    numbers = [*before[-2:], *after]
    if len(numbers) < 3 or not all(isinstance(n, int | float) for n in numbers):
        raise UsageError(f"'{text}': … stands between numbers", remedy="write size=1,10,…,1M")
    first, last, end = numbers
    if not 0 < first < last < end:
        raise UsageError(f"'{text}': … stands for larger and larger numbers", remedy="write size=1,10,…,1M")
    factor, found = last / first, []
    while (value := last * factor) < end * (1 - 1e-9):
        last = value
        found.append(round(value) if isinstance(end, int) else value)
        if len(found) > _MOST_BETWEEN:
            raise UsageError(
                f"'{text}' has more than {_MOST_BETWEEN} values", remedy="write numbers further apart"
            )
    return found


def _cpus(text: str) -> tuple[int, int, int]:
    words = text.split(",")
    try:
        found = [-1 if word.strip() == "-" else int(word) for word in words]
    except ValueError:
        found = []
    if len(found) == 2:  # sender and receiver
        found.insert(1, -1)
    if len(found) != 3:
        raise UsageError(
            f"'{text}' is not a list of cores", remedy="write 0,1,2 for sender, broker and receiver"
        )
    return found[0], found[1], found[2]


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float(number_of(text))


def _share(text: str) -> float:
    share = _read(words.share_of, text)
    if share >= 1.0:
        raise UsageError(f"a share of {text} is everything", remedy="write less than 100 %, such as 0.1%")
    return share


def _stall(text: str) -> tuple[int, int]:
    message, colon, time = text.partition(":")
    if not colon or not message.isdigit():
        raise UsageError(f"'{text}' is not a stall", remedy="write MESSAGE:TIME, such as 5000:300ms")
    return int(message), ns_of(time)


# How the values of an axis are written; those of every other one are sizes or counts.
_AXES: dict[str, Callable[[str], Any]] = {
    "wait": str, "topology": str, "transport": str,
    "cpus": lambda word: _cpus(word.replace("+", ",")),  # one placement a word: 0+1+1
    "rate": _rate, "speed": _rate, "network-rate": bits_of, "loss": _share,
    "every": ns_of, "receiver-delay": ns_of, "broker-delay": ns_of, "delay": ns_of, "jitter": ns_of,
}  # fmt: skip


def _fault(text: str) -> tuple[str, int]:
    name, equals, every = text.partition("=")
    if (
        not equals
        or name not in ("drop", "repeat", "swap", "damage")
        or not every.isdigit()
        or int(every) < 1
    ):
        raise UsageError(
            f"'{text}' is not a fault", remedy="write drop=100, repeat=100, swap=100 or damage=100"
        )
    return name, int(every)
