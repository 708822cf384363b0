"""The Python loop: one end of a transport, in `python -m latlab.messaging.running.python_loop`.

What the ends share is in `shared`. Several senders take turns: of S, sender i has the messages i, i + S,
i + 2 S, and further on.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from latlab.messaging.running.processes import end_with_parent
from latlab.messaging.running.shared import (
    BASE,
    CONFIRMS,
    CORRUPTED,
    COUNT,
    CPU,
    DONE,
    DUPLICATED,
    FAULTS,
    GO,
    INVOLUNTARY,
    REORDERED,
    STOP,
    VOLUNTARY,
    SharedLayout,
    bodies_of,
)
from latlab.messaging.running.transport import Transport, TransportClosed
from latlab.model.messaging.results import Settings


def send_all(
    end: Any,
    words: memoryview,
    settings: Settings,
    due: Callable[[int], int] | None,
    ticks_per_ns: float,
    me: int = 0,
) -> None:
    """Send every message of sender `me` at its time, and stamp it."""
    from latlab._core.clock import ticks

    layout = SharedLayout.of(settings)
    sent, confirmed, block = words[layout.sent], words[layout.confirmed], layout.sender(me)
    pattern = bodies_of(settings)
    base, senders = words[BASE], settings.senders

    def confirm(index: int) -> None:
        confirmed[index * senders + me] = ticks()
        words[block + CONFIRMS] += 1

    if hasattr(end, "confirmed"):
        end.confirmed = confirm
    # A client that hears confirmations only when it is called is called while the next message isn't due.
    listen = getattr(end, "listen", None)
    for n in range(me, settings.total, senders):
        if due is not None:
            target = base + due(n)
            while (left := target - ticks()) > 0:
                if words[STOP]:
                    break
                left_ns = left / ticks_per_ns
                if listen is not None and left_ns > 200_000:
                    listen(min(max(0.0, left_ns - 1_500_000) / 1e9, 0.1))
                elif left_ns > 300_000:
                    time.sleep(min((left_ns - 150_000) / 1e9, 0.1))
        if words[STOP]:
            break
        message = pattern.message(n)
        sent[n] = ticks()
        end.send(message)
        words[block + COUNT] = n // senders + 1


def receive_all(end: Transport, words: memoryview, settings: Settings, me: int = 0) -> None:
    """Receive until every message has come, or the run is ended."""
    from latlab._core.clock import ticks

    layout, total, senders = SharedLayout.of(settings), settings.total, settings.senders
    received, block = words[layout.received(me % settings.groups)], layout.receiver(me)
    pattern, count = bodies_of(settings), 0
    expected = [0] * senders
    delay_s = settings.receiver_delay_ns / 1e9
    while count < total and not words[STOP]:
        message = end.receive(0.05)
        now = ticks()
        if message is None:
            continue
        number = pattern.number(message, expected[0])
        if number is None or not 0 <= number < total:
            words[block + CORRUPTED] += 1
            continue
        if received[number]:
            words[block + DUPLICATED] += 1
            continue
        if number >= expected[number % senders]:
            expected[number % senders] = number + 1
        else:
            words[block + REORDERED] += 1
        received[number] = now
        count += 1
        words[block + COUNT] = count
        if delay_s:
            end_of_work = time.perf_counter() + delay_s
            while time.perf_counter() < end_of_work:
                pass


def ask_all(
    out: Transport,
    back: Transport,
    words: memoryview,
    settings: Settings,
    due: Callable[[int], int] | None,
) -> None:
    """Send each request at its time, and wait for its reply."""
    from latlab._core.clock import ticks

    layout, base, pattern = SharedLayout.of(settings), words[BASE], bodies_of(settings)
    sent, received = words[layout.sent], words[layout.received()]
    mine, theirs = layout.sender(), layout.receiver()
    for n in range(settings.total):
        while due is not None and not words[STOP] and base + due(n) > ticks():
            time.sleep(0)
        request = pattern.message(n)
        sent[n] = ticks()
        out.send(request)
        words[mine + COUNT] = n + 1
        while not received[n]:
            if words[STOP]:
                return
            message = back.receive(0.05)
            now = ticks()
            if message is None:
                continue
            number = pattern.number(message, n)
            if number is None or not 0 <= number <= n:
                words[theirs + CORRUPTED] += 1
            elif received[number]:
                words[theirs + DUPLICATED] += 1
            else:
                received[number] = now
                words[theirs + COUNT] += 1


def forward_all(inward: Transport, outward: Transport, words: memoryview, settings: Settings) -> None:
    """A broker of ours, or who replies: what comes in goes out, after the stalls that were planted."""
    from latlab._core.clock import ticks

    replies = settings.topology == "pingpong"
    delay_ns = settings.receiver_delay_ns if replies else settings.broker_delay_ns
    # Of a product it is the server that is stopped.
    stalls = {message: (i, ns) for i, (message, ns) in enumerate(() if replies else settings.stalls)}
    made = words[SharedLayout.of(settings).stalled]
    n = 0
    while not words[STOP]:
        try:
            message = inward.receive(0.05)
        except TransportClosed:
            _wait_for_the_end(
                words, settings
            )  # a sender that has sent everything has gone; what it sent is forwarded
            return
        if message is None:
            continue
        if n in stalls:
            i, ns = stalls[n]
            made[2 * i] = ticks()
            time.sleep(ns / 1e9)
            made[2 * i + 1] = ticks()
        if delay_ns:
            end_of_work = time.perf_counter() + delay_ns / 1e9
            while time.perf_counter() < end_of_work:
                pass
        outward.send(memoryview(message))
        n += 1


def _wait_for_the_end(words: memoryview, settings: Settings) -> None:
    """Stay until the run is over, if the sender has ended as it should: its count follows its connection.

    Raises:
        TransportClosed: when it hasn't.
    """
    end = time.monotonic() + 1.0
    while not words[SharedLayout.of(settings).sender() + DONE]:
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
    """Be one end, as the JSON in the inherited memory says: no list of processes shows a password in it."""
    import resource

    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the controlling process ends the run, and us with it
    with open(int(sys.argv[1]), encoding="utf-8") as orders:
        orders.seek(0)
        order = json.load(orders)
    settings = Settings.from_json(order["settings"])
    words = memoryview(mmap.mmap(order["memory"], 0)).cast("Q")
    role, where, me = order["role"], order["where"], order["number"]
    layout = SharedLayout.of(settings)
    block = layout.sender(me) if role == "sender" else layout.receiver(me)
    if order["cpu"] >= 0:
        os.sched_setaffinity(0, {order["cpu"]})
    kind = load(order["class"])
    ends = []
    failed: list[
        type[Exception]
    ] = []  # what an end that isn't whole says when it is closed hides what failed
    ready = False
    try:
        asks = settings.topology == "pingpong"
        forwards = role == "broker" or (asks and role == "receiver")
        if forwards:
            inward, outward = kind(), kind()
            ends = [inward, outward]
            inward.connect("receiver", where[0])
            outward.connect("sender", where[1])
        elif asks:
            ends = [kind(), kind()]
            ends[1].connect("receiver", where[1])
            ends[0].connect("sender", where[0])
        else:
            ends = [kind()]
            ends[0].connect(role, where[-1] if role == "receiver" else where[0])
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        ready = True
        if forwards:
            forward_all(ends[0], ends[1], words, settings)
            return 0
        due = _due(settings, order["ticks_per_ns"])
        while not words[GO] and not words[STOP]:
            time.sleep(0.001)
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = time.process_time_ns()
        try:
            if asks:
                ask_all(ends[0], ends[1], words, settings, due)
                words[layout.receiver() + DONE] = 1
            elif role == "sender":
                send_all(ends[0], words, settings, due, order["ticks_per_ns"], me)
            else:
                receive_all(ends[0], words, settings, me)
        finally:
            if role == "sender":
                for end in ends:  # some libraries send the last messages only when they are closed
                    end.close()
                ends = []
            now = resource.getrusage(resource.RUSAGE_SELF)
            words[block + CPU] = time.process_time_ns() - cpu
            words[block + FAULTS] = now.ru_minflt - used.ru_minflt
            words[block + VOLUNTARY] = now.ru_nvcsw - used.ru_nvcsw
            words[block + INVOLUNTARY] = now.ru_nivcsw - used.ru_nivcsw
            words[block + DONE] = 1
        while not words[STOP]:  # a sender that leaves may take its connection, and what is in it, with it
            time.sleep(0.002)
        return 0
    except TransportClosed as error:
        failed.append(Exception)
        sys.stderr.write(f"the {role} lost its connection: {error}\n" if ready else f"{error}\n")
        return 3
    except Exception as error:  # noqa: BLE001 (whatever a product raises is one line for the user)
        failed.append(Exception)
        if os.environ.get("LATLAB_TRACEBACK"):
            traceback.print_exc()
        sys.stderr.write(f"{type(error).__name__}: {error}".splitlines()[0] + "\n")
        return 3
    finally:
        for end in ends:
            with contextlib.suppress(*failed):
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
