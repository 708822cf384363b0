"""Feeds onto the wire, at planned times."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from os import PathLike

import numpy as np

from latlab._core.market import Pipeline, Transport
from latlab.errors import InputError, UsageError
from latlab.market.books.passes import Tell, census_of, refuse, tell_census
from latlab.market.files.output import guard
from latlab.market.wire.source import source_of
from latlab.market.wire.targets import PITCH_TIME, FileTarget, WireTarget
from latlab.words import plural

_PIECE_BYTES = 1 << 13
_SPIN_NS = 300_000  # sleep up to here before a message is due, then spin: a sleep ends some 60 us late


@dataclass(frozen=True)
class ReplayReport:
    """What a replay did.

    Args:
        messages: sent.
        dropped: not sent, as planted.
        seconds: from the first to the last.
        error_p50_ns: how much later than planned the messages went: median.
        error_p99_ns: 99th percentile.
        error_max_ns: the worst.
    """

    messages: int
    dropped: int
    seconds: float
    error_p50_ns: int
    error_p99_ns: int
    error_max_ns: int


def replay(
    path: str | PathLike[str],
    target: WireTarget,
    *,
    fixed_ns: int | None = None,
    burst: tuple[int, int] | None = None,
    speed: float | None = None,
    loss: float = 0.0,
    seed: int = 0,
    limit: int | None = None,
    clock: Callable[[], int] = time.perf_counter_ns,
    sleep: Callable[[float], None] = time.sleep,
    tell: Tell = None,
) -> ReplayReport:
    """Send the messages of an input at planned times.

    Args:
        path: as for `census`; ITCH or binary PITCH in any framing.
        target: see `target_of`.
        fixed_ns: between messages.
        burst: (messages, ns): so many at once, every so many ns.
        speed: the feed's own time stamps, so much faster: microbursts are kept. None of the three: as fast as
            it goes.
        loss: the share of messages that are dropped, at random, on each line of the target by itself.
        seed: of the losses.
        limit: at most so many messages.
        clock: in ns.
        sleep: for so many seconds.
        tell: is given the census of an input that was sent to its end; without it damage is a
            `DamagedInputWarning`.

    Returns:
        The report; an early message is impossible, so its errors are how late messages went.

    Raises:
        InputError: the input is bad.
        UsageError: arguments that exclude each other or are out of range.
    """
    if isinstance(target, FileTarget):
        guard([path], [target.path])
    with closing(target), _discarding(target):
        if sum(x is not None for x in (fixed_ns, burst, speed)) > 1:
            raise UsageError("a fixed delay, bursts and a speed exclude each other")
        if not 0 <= loss <= 1 or (speed is not None and speed <= 0) or (burst is not None and burst[0] < 1):
            raise UsageError("a loss is between 0 and 1, a speed positive, a burst of at least one message")
        chance = random.Random(seed)
        late: list[int] = []
        sent = dropped = 0
        begin: int | None = None
        first_ns: int | None = None
        for ts_ns, message in _messages(path, target.speak, tell):
            count = sent + dropped
            if limit is not None and count >= limit:
                break
            if begin is None or first_ns is None:  # when the first message is ready, not when it is asked for
                begin, first_ns = clock(), ts_ns
            due = 0
            if fixed_ns is not None:
                due = count * fixed_ns
            elif burst is not None:
                due = count // burst[0] * burst[1]
            elif speed is not None:
                due = int((ts_ns - first_ns) / speed)
            now = clock() - begin
            while now < due:
                # Even a spin gives way, so that a server of requests in this process is heard.
                sleep(max(0, due - now - _SPIN_NS) / 1e9)
                now = clock() - begin
            lost = [chance.random() < loss for _ in range(target.lines)] if loss else ()
            if lost and all(lost):
                target.lose(message)
                dropped += 1
                continue
            target.send(message, lost)
            sent += 1
            if due or fixed_ns is not None or burst is not None or speed is not None:
                late.append(now - due)
        seconds = 0.0 if begin is None else (clock() - begin) / 1e9
        errors = np.sort(np.array(late or [0]))
        p50, p99 = (int(errors[max(0, -int(-q * len(errors) // 1) - 1)]) for q in (0.5, 0.99))
        return ReplayReport(sent, dropped, seconds, p50, p99, int(errors[-1]))


def machine_floor_ns(seconds: float = 0.1, clock: Callable[[], int] = time.perf_counter_ns) -> int:
    """The longest time in which a thread that does nothing but read the clock was not running."""
    longest, last = 0, clock()
    end = last + int(seconds * 1e9)
    while last < end:
        now = clock()
        longest, last = max(longest, now - last), now
    return longest


@contextmanager
def _discarding(target: WireTarget) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if isinstance(target, FileTarget):
            target.discard(error)
        raise


def _messages(
    path: str | PathLike[str], speak: Callable[[str], None], tell: Tell
) -> Generator[tuple[int, bytes], None, None]:
    """Time and bytes of each message, whatever carries it; of PITCH behind its unit's number."""
    source = source_of(path)
    transport = None if source.framing == "binary" else Transport(source.framing)
    judge = Pipeline.census(source.framing, False)  # of messages whose length or content can't be
    dialect, rest, seconds = "", b"", dict[int, int]()
    errors: list[tuple[int, str]] = []

    def frames(data: bytes) -> Generator[tuple[int, bytes], None, bytes]:
        nonlocal dialect
        if not dialect:
            dialect = "I" if transport is None else transport.dialect.strip("\0")
            if dialect not in ("", "I", "P"):
                raise InputError(path, "is ASCII PITCH", remedy="only ITCH and binary PITCH can be replayed")
            if dialect:
                speak(dialect)
        rest = yield from _timed(data, seconds if dialect == "P" else None)
        return rest

    # Small pieces: what is read and looked at in one go makes the next message late.
    with source.pieces(_PIECE_BYTES) as pieces:
        for piece in pieces:
            judge.feed(piece)
            if found := judge.take_errors():
                raise InputError(path, found[0][1], place=f"offset {found[0][0]}")
            if transport is not None:
                transport.feed(piece)
                errors = transport.errors()
                piece = transport.take(strict=True)
            rest = yield from frames(rest + piece.tobytes())
            if errors:
                break
    if transport is not None:
        if not errors:
            transport.finish()
            errors = transport.errors()
            rest = yield from frames(rest + transport.take(strict=True).tobytes())
        if errors:
            raise InputError(path, errors[0][1], place=f"offset {errors[0][0]}")
        if not dialect:
            raise InputError(path, "holds neither ITCH nor PITCH messages")
    if rest:
        raise InputError(path, f"ends inside a message: {plural(len(rest), 'byte')} are not a whole frame")
    judge.finish()
    census = census_of(source, judge, [])
    refuse(source, census, lenient=False)
    tell_census(census, tell)


def _timed(data: bytes, seconds: dict[int, int] | None) -> Generator[tuple[int, bytes], None, bytes]:
    """Time and bytes of each frame; seconds: of PITCH, each unit's latest."""
    at = 0
    while at + 2 <= len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if end > len(data):
            break
        message = data[at + 2 : end]
        if seconds is None and len(message) >= 11:
            yield int.from_bytes(message[5:11], "big"), message
        elif seconds is not None and len(message) >= 7:
            unit, ns = message[0], int.from_bytes(message[3:7], "little")
            if message[2] == PITCH_TIME:
                seconds[unit], ns = ns, 0
            yield seconds.get(unit, 0) * 1_000_000_000 + ns, message
        at = end
    return data[at:]
