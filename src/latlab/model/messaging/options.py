"""Every option of a messaging run, once: command line, workload files and sweeps are made from this table."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from latlab import words
from latlab.errors import UsageError
from latlab.model.messaging.results import Settings

__all__ = ["DRIVER_AXIS", "OPTIONS", "SWEPT", "Option", "read_value", "settings_of", "swept"]

T = TypeVar("T")
_RATES = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def _by(reader: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader of `latlab.words` whose complaint is a usage error."""

    def read(text: str) -> Any:
        try:
            return reader(text)
        except ValueError as error:
            what, _, remedy = str(error).partition("; ")
            raise UsageError(what, remedy=remedy) from None

    return read


number_of = _by(words.count_of)
ns_of = _by(words.duration_of)


def bits_of(text: str) -> float:
    """A network rate: 1gbit, 100mbit."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.strip().lower())
    if found is None or found[2] not in _RATES:
        raise UsageError(f"'{text}' is not a network rate", remedy="write 1gbit or 100mbit")
    return float(found[1]) * _RATES[found[2]]


def cpus_of(text: str) -> tuple[int, int, int]:
    """Cores of sender, broker and receiver: 0,1,2 or 0-2, or 0+1+1 on an axis; - for any."""
    parts = re.split(r"[,+]", text)
    if len(parts) == 1 and (ends := re.fullmatch(r"\s*(\d+)-(\d+)\s*", text)):  # as every other --cpus
        parts = [str(cpu) for cpu in range(int(ends[1]), min(int(ends[2]), int(ends[1]) + 3) + 1)]
    try:
        found = [-1 if part.strip() == "-" else int(part) for part in parts]
    except ValueError:
        found = []
    if len(found) == 2:  # sender and receiver
        found.insert(1, -1)
    if len(found) != 3:
        raise UsageError(
            f"'{text}' is not a list of cores", remedy="write 0,1,2 for sender, broker and receiver"
        )
    return found[0], found[1], found[2]


def _number(kind: Callable[[str | int], T]) -> Callable[[str], T]:
    """Reads a number as Python writes it, or with a unit, such as 10k."""

    def read(text: str) -> T:
        try:
            return kind(text)
        except ValueError:
            return kind(number_of(text))

    return read


_rate, _whole = _number(float), _number(int)


def _share(text: str) -> float:
    share: float = _by(words.share_of)(text)
    if share >= 1.0:
        raise UsageError(f"a share of {text} is too large", remedy="write less than 100 %, such as 0.1%")
    return share


def _steps(text: str) -> tuple[tuple[float, float], ...]:
    """Rates and how long each lasts: 1k:10s,5k:2s."""
    found = []
    for step in text.split(","):
        rate, colon, time = step.partition(":")
        if not colon:
            raise UsageError(f"'{step}' is not a step", remedy="write RATE:TIME, such as 1k:10s,5k:2s")
        found.append((_rate(rate), _seconds(time)))
        if not (0.5 <= found[-1][0] <= 1e9 and found[-1][1] > 0):
            raise UsageError(
                f"'{step}' is not a step", remedy="rates go from 0.5 to 1e9 a second, times from above 0 s"
            )
    return tuple(found)


def _sizes(text: str) -> tuple[tuple[int, float], ...]:
    """Sizes and their weights: 64:90,4k:10."""
    found = []
    for one in text.split(","):
        bytes_, colon, weight = one.partition(":")
        try:
            found.append((number_of(bytes_), float(weight) if colon else 1.0))
        except ValueError:
            found.append((0, 0.0))
        if not (found[-1][0] > 0 and 0.0 < found[-1][1] < 1e9):
            raise UsageError(f"'{one}' is not a size and its weight", remedy="write 64:90,4k:10")
    return tuple(found)


def _stall(text: str) -> tuple[int, int]:
    message, colon, time = text.partition(":")
    if not colon or not message.isdigit():
        raise UsageError(f"'{text}' is not a stall", remedy="write MESSAGE:TIME, such as 5000:300ms")
    return int(message), ns_of(time)


def _fault(text: str) -> tuple[str, int]:
    name, equals, every = text.partition("=")
    known = ("drop", "repeat", "swap", "damage")
    if not equals or name not in known or not every.isdigit() or int(every) < 1:
        raise UsageError(
            f"'{text}' is not a fault", remedy="write drop=100, repeat=100, swap=100 or damage=100"
        )
    return name, int(every)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float(ns_of(text)) / 1e9


def _secret(text: str) -> str:
    """A password or token: itself, or where it is kept, so that no list of processes shows it."""
    kind, colon, where = text.partition(":")
    if colon and kind == "env":
        if where not in os.environ:
            raise UsageError(f"the environment has no {where}", remedy=f"export {where}=…")
        return os.environ[where]
    if colon and kind == "file":
        try:
            return Path(where).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{where} can't be read: {getattr(error, 'strerror', error)}") from None
    return text


def _driver(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"'{text}' is not a driver option", remedy="write NAME=VALUE, such as qos=1")
    return name, value


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise UsageError(f"'{text}' is not one of {', '.join(choices)}")
        return text

    return read


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        name: as it is spelled, without its dashes.
        setting: the field of the settings; empty where `settings_of` makes it of several options.
        read: a value's text as what the field takes.
        help: for the command line.
        default: as text; None for the field's own, or for none.
        choices: the words that it takes; empty for any.
        flag: it takes no value.
        multiple: it may be given several times.
        swept: it can be an axis of a sweep.
        short: a second name.
    """

    name: str
    setting: str
    read: Callable[[str], Any]
    help: str
    default: str | None = None
    choices: tuple[str, ...] = ()
    flag: bool = False
    multiple: bool = False
    swept: bool = False
    short: str = ""

    @property
    def key(self) -> str:
        """Its name as an identifier."""
        return self.name.replace("-", "_")


_TOPOLOGIES, _WAITS = ("broker", "direct", "pingpong"), ("auto", "block", "poll", "both")
OPTIONS: tuple[Option, ...] = (
    Option("transport", "transport", str, "What carries the messages; see 'latlab messaging transports'.",
           swept=True),
    Option("size", "size", number_of, "Bytes a message: 1 to 64M.", "64", swept=True),
    Option("sizes", "sizes", _sizes,
           "Sizes drawn by weight, BYTES:WEIGHT each: 64:90,4k:10; instead of --size."),
    Option("messages", "messages", number_of, "Messages to measure.", "10000", swept=True),
    Option("duration", "duration_s", _seconds, "Measure for about this long, instead of --messages: 10s."),
    Option("warmup", "warmup", number_of,
           "Warm-up messages before them. [default: a tenth, at most 1000]", swept=True),
    Option("topology", "topology", _one_of(*_TOPOLOGIES), "What is between sender and receiver.", "broker",
           _TOPOLOGIES, swept=True),
    Option("senders", "senders", _whole, "Senders; --rate is of all together.", "1", swept=True),
    Option("receivers", "receivers", _whole, "Receivers.", "1", swept=True),
    Option("groups", "groups", _whole,
           "Groups of receivers: each has every message, and of a group one receiver.", "1", swept=True),
    Option("half", "half", bool, "Report half of a ping-pong's round trip.", flag=True),
    Option("rate", "rate_hz", _rate,
           "Messages a second, open loop; or, as 1gbit, what --network lets through.", multiple=True,
           swept=True),
    Option("poisson", "", bool, "Poisson arrivals at --rate.", flag=True),
    Option("steps", "steps", _steps,
           "Rates by schedule, RATE:TIME each: 1k:10s,5k:2s,1k:10s; instead of --rate and --messages."),
    Option("burst", "burst", _whole, "Messages a burst, with --every.", "1", swept=True),
    Option("every", "burst_period_ns", ns_of, "Time from burst to burst, such as 10ms.", swept=True),
    Option("load-file", "load_file", str, "Send at the times of a market-data file."),
    Option("speed", "speed", _rate, "How many times faster than the file.", "1.0", swept=True),
    Option("batch", "batch", _whole, "Messages handed over at once.", "1", swept=True),
    Option("buffer", "buffer_bytes", number_of,
           "Bytes of socket buffer, pipe or ring. [default: the transport's own]", swept=True),
    Option("window", "window", _whole, "Window M of the overheads.", "100", swept=True, short="-M"),
    Option("sample-every", "sample_every", _whole, "Read CPU clocks every k messages.", "1000", swept=True),
    Option("wait", "wait", _one_of(*_WAITS), "How a thread waits.", "auto", _WAITS, swept=True),
    Option("cpus", "cpus", cpus_of, "Cores of sender, broker and receiver: 0,1,2 or 0-2; - for any.",
           swept=True),
    Option("seed", "seed", _whole, "Seed of the Poisson arrivals.", "1", swept=True),
    Option("stall", "stalls", _stall, "Stall the broker: MESSAGE:TIME, such as 5000:300ms.",
           multiple=True),
    Option("fault", "faults", _fault, "Fault of the broker on every k-th message: drop|repeat|swap|damage=K.",
           multiple=True),
    Option("receiver-delay", "receiver_delay_ns", ns_of,
           "Time that the receiver spends on a message, such as 20us: the run lasts until it had them all.",
           "0ns", swept=True),
    Option("broker-delay", "broker_delay_ns", ns_of, "Time that the broker spends on a message.", "0ns",
           swept=True),
    Option("timeout", "timeout_s", _seconds, "Give up after this many seconds without progress.", "10"),
    Option("server", "server", str, "A product's server: HOST:PORT, or auto.", "auto"),
    Option("driver", "driver", _driver,
           "Option of the client, NAME=VALUE; see 'latlab messaging transports NAME'.", multiple=True),
    Option("user", "user", str, "User name at the server."),
    Option("password", "password", _secret, "Password; env:NAME or file:PATH keep it out of sight."),
    Option("token", "token", _secret, "Token at the server; env:NAME or file:PATH keep it out of sight."),
    Option("vhost", "vhost", str, "Virtual host of the server (AMQP). [default: /]"),
    Option("tls", "tls", bool, "Encrypt the connection, and check the server's certificate.", flag=True),
    Option("tls-ca", "tls_ca", str, "PEM file of the certificate authority. [default: the system's]"),
    Option("tls-cert", "tls_cert", str, "PEM file of the client's own certificate."),
    Option("tls-key", "tls_key", str, "PEM file of its key, where the certificate's file lacks it."),
    Option("tls-unverified", "tls_unverified", bool, "Accept any certificate of the server.", flag=True),
    Option("network", "network", _one_of("host", "namespace"),
           "Where the broker runs: a network namespace has a network line of its own.", "host",
           ("host", "namespace")),
    Option("network-rate", "network_rate_bits", bits_of, "", swept=True),  # --rate 1gbit on the command line
    Option("broker", "broker", str, "HOST:PORT of 'latlab messaging broker' on another host."),
    Option("connect", "connect", str,
           "HOST:PORT (or a Unix socket's path) of any program that forwards or echoes: it is the broker."),
    Option("listen", "listen", str, "HOST:PORT where that program connects back. [default: it echoes]"),
    Option("counter", "counters", str,
           "Read this beside the messages: interrupts, net-bytes:eth0, file:PATH, a plug-in.", multiple=True),
    Option("priority", "priority", _whole,
           "Real-time priority (SCHED_FIFO) of the run's own threads, which block. [default: none]", "0",
           swept=True),
    Option("delay", "network_delay_ns", ns_of, "Delay of that line, one way: 50us.", "0ns", swept=True),
    Option("jitter", "network_jitter_ns", ns_of, "Jitter of that line: up to this much more or less.", "0ns",
           swept=True),
    Option("loss", "network_loss", _share, "Loss on that line, such as 0.1%.", "0%", swept=True),
    Option("kernel-stamps", "kernel_stamps", bool, "Split latencies at the kernel (SO_TIMESTAMPING).",
           flag=True),
)  # fmt: skip
DRIVER_AXIS = "driver."  # and an option of the transport's client
_BY_NAME = {option.name: option for option in OPTIONS}
# What can be swept, and the setting behind it; the clock frequency is the machine's.
SWEPT = {**{o.name: o.setting for o in OPTIONS if o.swept}, "frequency": "frequency"}


def swept(name: str) -> Callable[[str], Any]:
    """How the values of an axis are read; those of an unknown one are refused later, by the sweep."""
    if name.startswith(DRIVER_AXIS):
        return str
    option = _BY_NAME.get(name)
    return number_of if option is None else option.read


def read_value(option: Option, value: Any) -> Any:
    """A value as the settings take it: of a text, or of a list of them."""
    if option.flag:
        if not isinstance(value, bool):
            raise UsageError(f"{option.name} is true or false, not '{value}'")
        return value
    if option.multiple:
        return tuple(option.read(str(one)) for one in value)
    return option.read(str(value))


@contextmanager
def _named(option: str) -> Iterator[None]:
    """A complaint about a value says whose value it is."""
    try:
        yield
    except UsageError as error:
        if not error.what.startswith("'"):
            raise
        raise UsageError(f"{option}: {error.what}", remedy=error.remedy) from None


def settings_of(given: Mapping[str, Any]) -> Settings:
    """The settings that options ask for.

    Args:
        given: by the options' keys, a text each (or a list of them, or true); None or nothing is not given.

    Raises:
        UsageError: for values that mean nothing, or that contradict one another.
    """
    texts = {option.key: option.default for option in OPTIONS if option.default is not None}
    texts.update({key: value for key, value in given.items() if not _missing(value)})
    rates = [str(text) for text in _list(texts.pop("rate", ()))]
    paces = [text for text in rates if not text.lower().endswith("bit")]
    lines = [text for text in rates if text.lower().endswith("bit")]
    if len(paces) > 1 or len(lines) > 1:
        raise UsageError("two rates of one kind", remedy="give one in messages a second, and one in bit")
    poisson = bool(texts.pop("poisson", False))
    values = {}
    for option in OPTIONS:
        if option.key in texts and option.setting:
            value = texts[option.key]
            with _named(option.name):
                values[option.setting] = read_value(option, _list(value) if option.multiple else value)
    values["stalls"] = tuple(sorted(values.get("stalls", ())))
    values["faults"] = dict(values.get("faults", ()))
    values["driver"] = dict(values.get("driver", ()))
    with _named("rate"):
        values["rate_hz"] = _rate(paces[0]) if paces else 0.0
    if lines:
        values["network_rate_bits"] = bits_of(lines[0])
    values["load"] = _load(values, paced=bool(paces), poisson=poisson)
    if values.get("sizes"):
        values["size"] = max(size for size, _ in values["sizes"])
    if values.get("steps"):
        planned = round(sum(rate * seconds for rate, seconds in values["steps"]))
        values.setdefault("warmup", min(planned // 10, 1000))
        values["messages"] = planned - values["warmup"]
    if "transport" not in values:
        raise UsageError("no transport is named", remedy="'latlab messaging transports' lists them")
    values.setdefault("warmup", min(values["messages"] // 10, 1000))
    return Settings(**values)


def _missing(value: Any) -> bool:
    return value is None or value is False or value in ((), [])


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _load(values: Mapping[str, Any], *, paced: bool, poisson: bool) -> str:
    if values.get("steps"):
        if (
            paced
            or poisson
            or "burst_period_ns" in values
            or values.get("load_file")
            or "duration_s" in values
        ):
            raise UsageError(
                "steps say rates and times", remedy="leave --rate, --every, --load-file and --duration out"
            )
        return "steps"
    if values.get("load_file") is not None:
        return "file"
    if "burst_period_ns" in values:
        if paced or poisson:
            raise UsageError("bursts have a period, not a rate", remedy="leave --rate or --every out")
        return "bursts"
    if paced:
        return "poisson" if poisson else "rate"
    if poisson:
        raise UsageError("--poisson needs a rate", remedy="say --rate 10000 --poisson")
    if values["burst"] != 1:
        raise UsageError("--burst needs a period", remedy="say --burst 100 --every 10ms")
    return "max"
