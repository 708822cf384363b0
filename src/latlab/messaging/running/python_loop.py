"""The Python loop: one end of a transport, in `python -m latlab.messaging.running.python_loop`.

Both ends share one memory of 64-bit words: a header, then when each message was sent, then when it was
received, then when each planted stall began and ended, all in ticks of the one clock that they share.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from latlab.messaging.running.processes import end_with_parent
from latlab.messaging.running.transport import Transport, TransportClosed
from latlab.model.messaging.results import Settings

# Words of the header; each has one writer.
GO, BASE, STOP = 0, 1, 2
SENDER, RECEIVER = 8, 24  # READY, COUNT, DONE, CPU, DUPLICATED, REORDERED, CORRUPTED, faults, switches
READY, COUNT, DONE, CPU, DUPLICATED, REORDERED, CORRUPTED, FAULTS, VOLUNTARY, INVOLUNTARY, ERRNO = range(11)
HEADER = 48


def stall_words(settings: Settings) -> int:
    """Where the first stall's two words are."""
    return HEADER + 2 * settings.total


def memory_words(settings: Settings) -> int:
    """How many words a run shares."""
    return stall_words(settings) + 2 * len(settings.stalls)


class Body:
    """The same bytes as the native loop's: number, checksum, room for a broker's times, a pattern."""

    def __init__(self, size: int) -> None:
        import zlib

        self.size = size
        self.width = 4 if size >= 4 else 2 if size >= 2 else 1
        self._crc = zlib.crc32
        self._from = 16 if size >= 16 else min(size, 8)
        self.data = bytearray((i * 197 + 31) & 255 for i in range(min(size, 4096)))
        self.data *= -(-size // len(self.data))
        del self.data[size:]
        if size >= 16:
            self.data[8:16] = bytes(8)
        self._sum = self._crc(self.data[self._from :])

    def stamp(self, number: int) -> None:
        """Number the body."""
        if self.size >= 8:
            struct.pack_into("<II", self.data, 0, number, (self._sum + number * 2654435761) & 0xFFFFFFFF)
        else:
            self.data[: self.width] = (number & ((1 << 8 * self.width) - 1)).to_bytes(self.width, "little")

    def number(self, message: bytes | memoryview, expected: int) -> int | None:
        """The number of a message; None where it is damaged or not ours."""
        if len(message) != self.size:
            return None
        if self.size >= 8:
            number, check = struct.unpack_from("<II", message)
            whole = (self._crc(message[self._from :]) + number * 2654435761) & 0xFFFFFFFF == check
            return number if whole else None
        if bytes(message[self.width :]) != bytes(self.data[self.width :]):
            return None
        low = int.from_bytes(message[: self.width], "little")
        if self.width == 4:
            return low
        mask = (1 << 8 * self.width) - 1
        ahead = (low - expected) & mask
        return expected + ahead if ahead <= mask // 2 else expected - (mask + 1 - ahead)


def send_all(
    end: Transport,
    words: memoryview,
    settings: Settings,
    due: Callable[[int], int] | None,
    pattern: Body,
    ticks_per_ns: float,
) -> None:
    """Send every message at its time, and stamp it."""
    from latlab._core.clock import ticks

    total, sent = settings.total, words[HEADER : HEADER + settings.total]
    view = memoryview(pattern.data)
    base, me = words[BASE], SENDER
    for n in range(total):
        if due is not None:
            target = base + due(n)
            while (left := target - ticks()) > 0:
                if words[STOP]:
                    break
                left_ns = left / ticks_per_ns
                if left_ns > 300_000:
                    time.sleep(min((left_ns - 150_000) / 1e9, 0.1))
        if words[STOP]:
            break
        pattern.stamp(n)
        sent[n] = ticks()
        end.send(view)
        words[me + COUNT] = n + 1


def receive_all(end: Transport, words: memoryview, settings: Settings, pattern: Body) -> None:
    """Receive until every message has come, or the run is ended."""
    from latlab._core.clock import ticks

    total = settings.total
    received = words[HEADER + total : HEADER + 2 * total]
    me, expected, count = RECEIVER, 0, 0
    delay_s = settings.receiver_delay_ns / 1e9
    while count < total and not words[STOP]:
        message = end.receive(0.05)
        now = ticks()
        if message is None:
            continue
        number = pattern.number(message, expected)
        if number is None or not 0 <= number < total:
            words[me + CORRUPTED] += 1
            continue
        if number >= expected:
            expected = number + 1
        elif received[number]:
            words[me + DUPLICATED] += 1
            continue
        else:
            words[me + REORDERED] += 1
        received[number] = now
        count += 1
        words[me + COUNT] = count
        if delay_s:
            end_of_work = time.perf_counter() + delay_s
            while time.perf_counter() < end_of_work:
                pass


def forward_all(inward: Transport, outward: Transport, words: memoryview, settings: Settings) -> None:
    """A broker of ours: what comes in goes out, after the stalls that were planted."""
    from latlab._core.clock import ticks

    stalls = {message: (i, ns) for i, (message, ns) in enumerate(settings.stalls)}
    made = words[stall_words(settings) :]
    n = 0
    while not words[STOP]:
        try:
            message = inward.receive(0.05)
        except TransportClosed:
            _wait_for_the_end(words)  # a sender that has sent everything has gone; what it sent is forwarded
            return
        if message is None:
            continue
        if n in stalls:
            i, ns = stalls[n]
            made[2 * i] = ticks()
            time.sleep(ns / 1e9)
            made[2 * i + 1] = ticks()
        if settings.broker_delay_ns:
            end_of_work = time.perf_counter() + settings.broker_delay_ns / 1e9
            while time.perf_counter() < end_of_work:
                pass
        outward.send(memoryview(message))
        n += 1


def _wait_for_the_end(words: memoryview) -> None:
    """Stay until the run is over, if the sender has ended as it should: its count follows its connection.

    Raises:
        TransportClosed: when it hasn't.
    """
    end = time.monotonic() + 1.0
    while not words[SENDER + DONE]:
        if words[STOP]:
            return
        if time.monotonic() > end:
            raise TransportClosed("the sender's connection broke")
        time.sleep(0.001)
    while not words[STOP]:
        time.sleep(0.002)


def load(target: str) -> Any:
    """The class behind "module:Class"."""
    import importlib

    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def main() -> int:
    """Be one end, as the JSON on the command line says."""
    import resource

    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the controlling process ends the run, and us with it
    order = json.loads(sys.argv[1])
    settings = Settings.from_json(order["settings"])
    words = memoryview(mmap.mmap(order["memory"], 0)).cast("Q")
    role, where = order["role"], order["where"]
    me = {"sender": SENDER, "receiver": RECEIVER}.get(role)
    if order["cpu"] >= 0:
        os.sched_setaffinity(0, {order["cpu"]})
    kind = load(order["class"])
    ends = []
    try:
        if role == "broker":
            inward, outward = kind(), kind()
            ends = [inward, outward]
            inward.connect("receiver", where[0])
            outward.connect("sender", where[1])
        else:
            ends = [kind()]
            ends[0].connect(role, where[-1] if role == "receiver" else where[0])
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        if role == "broker":
            forward_all(ends[0], ends[1], words, settings)
            return 0
        assert me is not None
        pattern = Body(settings.size)
        due = _due(settings, order["ticks_per_ns"])
        while not words[GO] and not words[STOP]:
            time.sleep(0.001)
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = time.process_time_ns()
        try:
            if role == "sender":
                send_all(ends[0], words, settings, due, pattern, order["ticks_per_ns"])
            else:
                receive_all(ends[0], words, settings, pattern)
        finally:
            if role == "sender":
                for end in ends:  # some libraries send the last messages only when they are closed
                    end.close()
                ends = []
            now = resource.getrusage(resource.RUSAGE_SELF)
            words[me + CPU] = time.process_time_ns() - cpu
            words[me + FAULTS] = now.ru_minflt - used.ru_minflt
            words[me + VOLUNTARY] = now.ru_nvcsw - used.ru_nvcsw
            words[me + INVOLUNTARY] = now.ru_nivcsw - used.ru_nivcsw
            words[me + DONE] = 1
        while not words[STOP]:  # a sender that leaves may take its connection, and what is in it, with it
            time.sleep(0.002)
        return 0
    except TransportClosed as error:
        sys.stderr.write(f"the {role} lost its connection: {error}\n")
        return 3
    except Exception as error:  # noqa: BLE001 (whatever a product raises is one line for the user)
        if os.environ.get("LATLAB_TRACEBACK"):
            traceback.print_exc()
        sys.stderr.write(f"{type(error).__name__}: {error}".splitlines()[0] + "\n")
        return 3
    finally:
        for end in ends:
            end.close()


def _due(settings: Settings, ticks_per_ns: float) -> Callable[[int], int] | None:
    from latlab.messaging.running.schedule import schedule

    plan = schedule(settings)
    if not plan.paced:
        return None
    due = (plan.due_ns(settings.total) * ticks_per_ns).astype("int64").tolist()
    return lambda n: due[n]


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads of client libraries must not hold a measured process back
