"""Whether a transport of the Python loop, or a native plug-in, keeps its promises.

Over one and two hops, small and large, slow and full, idle, and when its peer goes. Over 400 lines: one list
of promises, each with its check.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from latlab.errors import LatlabError
from latlab.formats.documents import dumps
from latlab.messaging.judging.hangups import hears_an_end
from latlab.messaging.judging.plugin_probe import files_of_ours
from latlab.messaging.judging.probe import AFTER_S, IDLE_S
from latlab.messaging.judging.woken import is_woken, step_of
from latlab.messaging.products.broker_processes import started
from latlab.messaging.running import python_loop as loop
from latlab.messaging.running.native import run_native
from latlab.messaging.running.processes import moments
from latlab.messaging.running.python import cleaned_up, prepared, run_python
from latlab.messaging.running.ways.clients import served
from latlab.model.evidence.messaging import Broken, Promise
from latlab.model.evidence.said import said
from latlab.model.messaging.results import Facts, Measurement, Settings
from latlab.system.scratch import scratch

__all__ = ["conformity", "conformity_of_plugin"]

Check = tuple[str, str | None]
Runner = Callable[[Settings], Measurement]
_LARGEST = 64 << 20
_ROUNDS = 3
_MANY, _PACED = 20_000, 2000
# Longer than a Python sender takes for a message, on a machine that others use, too: else no queue is full.
_SLOW_NS = 150_000
_NATIVE = 5  # a native sender takes microseconds
# The buffers of two sockets grow to 40 MB; many small messages wouldn't fill them while anybody waits.
_BULKY, _MANY_BULKY, _SLOWER_NS = 65_536, 2000, 1_000_000
_PATIENCE_S = 12.0
_AGAIN = 2
_PLUGIN_S, _IDLE_S = 60, 6.0 + IDLE_S


def conformity(target: str, facts: Facts, settings: Settings) -> list[Check]:
    """Check a transport's promises: (what was checked, what is wrong or None)."""
    kind = loop.load(target)
    needed = ("facts", "prepare", "connect", "send", "receive", "close")
    missing = [name for name in needed if not hasattr(kind, name)]
    found: list[Check] = [
        (
            said(Promise.HAS_CALLS, names=", ".join(needed[:-1]), last=needed[-1]),
            said(Broken.NO_CALL, name=missing[0]) if missing else None,
        )
    ]
    if missing:
        return found
    found += _over_hops(lambda load: run_python(load, facts, target), facts, settings)
    found += _ends(target, kind, facts, settings)
    return found


def conformity_of_plugin(facts: Facts, settings: Settings) -> list[Check]:
    """Check the promises of a native plug-in, or of a C client; its ends in a process that it may crash."""
    found: list[Check] = []
    for waits in facts.waits:
        answers = said(Promise.ENDS_ANSWER, waits=waits)
        try:
            with _at(facts, settings) as (path, options):
                # Not as arguments: there may be a password among the options.
                promised = [facts.lossless, facts.ordered]
                order = dumps([path, options, min(64, facts.max_bytes), waits == "block", *promised])
                done = _run_for(
                    [sys.executable, "-m", "latlab.messaging.judging.plugin_probe"], order, _PLUGIN_S
                )
        except subprocess.TimeoutExpired:
            return [*found, (answers, said(Broken.NOT_WITHIN, seconds=_PLUGIN_S))]
        if done.returncode != 0:
            why = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
            return [*found, (answers, said(Broken.PROCESS_ENDED, why=why))]
        for promise, broken in json.loads(done.stdout):
            what = said(Promise.WAITING_BY, promise=said(Promise[promise]), waits=waits)
            found.append((what, None if broken is None else said(Broken[broken[0]], **broken[1])))
    if all(wrong is None for _, wrong in found):  # who fails alone would take this process along
        found += _over_hops(lambda load: run_native(load, facts), facts, settings)
    return found


def _run_for(command: list[str], order: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """What a program says to an order.

    Raises:
        subprocess.TimeoutExpired: when it takes longer; what we stood still ourselves isn't counted.
    """
    pipe, given = subprocess.PIPE, order or None
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        for step in moments(seconds):
            try:
                out, err = process.communicate(given, step)
            except subprocess.TimeoutExpired:
                given = None  # it has been said
            else:
                return subprocess.CompletedProcess(command, process.returncode, out, err)
        process.kill()
        raise subprocess.TimeoutExpired(command, seconds)


@contextlib.contextmanager
def _at(facts: Facts, settings: Settings) -> Iterator[tuple[str, str]]:
    """Where the plug-in is, and its options; a product's server runs meanwhile."""
    if facts.library is not None:
        with served(settings, facts) as client:
            yield str(client.path), client.options()
        return
    path, _, options = settings.transport.partition("?")
    yield str(Path(path).resolve()), options


def _over_hops(run: Runner, facts: Facts, settings: Settings) -> list[Check]:
    found: list[Check] = []
    for topology in [t for t in ("direct", "broker") if t in facts.topologies]:
        hops = "one hop" if topology == "direct" or facts.broker is not None else "two hops"
        base = settings.with_(
            topology=topology, warmup=0, load="max", rate_hz=0.0, timeout_s=min(settings.timeout_s, 10.0),
            drain_s=0.5, duration_s=None, stalls=(), receiver_delay_ns=0, broker_delay_ns=0,
        )  # fmt: skip
        found += _carried(run, facts, base, hops)
    return found


def _carried(run: Runner, facts: Facts, base: Settings, hops: str) -> list[Check]:
    """Messages of many sizes, at full rate, and faster than the receiver takes them."""
    largest = min(facts.max_bytes, _LARGEST)
    # What is cut short at any size is cut short at the largest.
    sizes = sorted({min(s, largest) for s in (1, 4096, largest)})
    found: list[Check] = []
    for one in sizes:
        count = max(3, min(400, (16 << 20) // one))
        load = base.with_(size=one, messages=count)
        if not facts.lossless:  # what may be lost is sent at a pace
            load = load.with_(load="rate", rate_hz=500.0, messages=min(count, 150))
        found.append((said(Promise.CARRIES_SIZE, bytes=one, hops=hops), _run(run, facts, load)))
    if facts.lossless:
        one = min(1024, largest)
        full = base.with_(size=min(64, largest), messages=_MANY)
        what = said(Promise.CARRIES_AT_FULL_RATE, messages=_MANY, hops=hops)
        found.append((what, _run(run, facts, full)))
        faster = 1 if facts.loop == "python" else _NATIVE
        slow = base.with_(size=one, messages=_MANY, receiver_delay_ns=_SLOW_NS // faster)
        wrong = _run(run, facts, slow)
        if wrong is None and facts.broker is None and largest >= _BULKY // 4:
            bulky = base.with_(size=min(_BULKY, largest), messages=_MANY_BULKY)
            wrong = _run(run, facts, bulky.with_(receiver_delay_ns=_SLOWER_NS // faster))
        found.append((said(Promise.KEEPS_UNTAKEN, hops=hops), wrong))
    else:
        paced = base.with_(size=min(64, largest), messages=_PACED, load="rate", rate_hz=2000.0)
        what = said(Promise.CARRIES_AT_A_PACE, messages=_PACED, hops=hops)
        found.append((what, _run(run, facts, paced)))
    return found


def _run(run: Runner, facts: Facts, settings: Settings) -> str | None:
    from latlab.messaging._analysis import analyse

    try:
        r = analyse(run(settings))
    except LatlabError as error:
        return str(error)
    if r.partial is not None:
        return r.partial
    if not r.received and r.corrupted:
        return said(Broken.NONE_WHOLE, sent=r.sent)
    if r.corrupted or r.duplicated:
        return said(Broken.NOT_AS_SENT, corrupted=r.corrupted, duplicated=r.duplicated)
    if facts.lossless and r.lost:
        return said(Broken.LOST, lost=r.lost, sent=r.sent)
    if facts.ordered and r.reordered:
        return said(Broken.REORDERED, reordered=r.reordered, sent=r.sent)
    # A few are what may be lost; as many at a slow pace are not what anybody expects.
    if r.lost > r.sent // 2:
        return said(Broken.LOST_AT_A_PACE, lost=r.lost, sent=r.sent)
    return None if r.received else said(Broken.NOTHING_ARRIVED)


class _Probe:
    """A process with one end, which answers words."""

    def __init__(
        self, target: str, role: str, where: list[Any], message_bytes: int, temporary: str | None = None
    ) -> None:
        order = dumps({"class": target, "role": role, "where": where, "size": message_bytes})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "latlab.messaging.judging.probe", order],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=None if temporary is None else {**os.environ, "TMPDIR": temporary},
            pass_fds=[fd for one in where for fd in one.get("fds", ())],
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def ask(self, word: str, patience_s: float = _PATIENCE_S) -> dict[str, Any] | None:
        """The answer; None where none comes in time, or the process ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answered = threading.Event()
        late = threading.Thread(target=self._end_unless, args=(answered, patience_s))
        late.start()
        try:
            self._process.stdin.write(word + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            answer: dict[str, Any] | None = json.loads(line) if line else None
            return answer
        except (OSError, ValueError):
            return None
        finally:
            answered.set()
            late.join()

    def _end_unless(self, answered: threading.Event, seconds: float) -> None:
        if not any(answered.wait(step) for step in moments(seconds)):
            self._process.kill()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _ends(target: str, kind: Any, facts: Facts, settings: Settings) -> list[Check]:
    """An idle end, an end whose peer has gone, and what is left behind."""
    one = settings.with_(size=min(64, facts.max_bytes), topology="direct")
    found: list[Check] = []
    try:
        with started(facts, one) as (address, _):
            found += _idle_and_over(target, kind, facts, one, address)
            if facts.lossless and facts.broker is None:
                found.append(_gone(target, kind, one, address))
            found += _left_behind(target, kind, one, address)
    except LatlabError as error:
        found.append((said(Promise.CONNECTS), str(error)))
    return found


@contextlib.contextmanager
def _places(kind: Any, settings: Settings, address: Any, count: int = 1) -> Iterator[list[Any]]:
    places = [prepared(kind, settings, address) for _ in range(count)]
    try:
        yield places
    finally:
        for place in places:
            cleaned_up(kind, place)


def _idle_and_over(target: str, kind: Any, facts: Facts, settings: Settings, address: Any) -> list[Check]:
    timeout, idle_check = said(Promise.TIMES_OUT), said(Promise.SLEEPS)
    over = said(Promise.TELLS_SENDER_ENDED)
    with _places(kind, settings, address) as where:
        receiver, sender = (_Probe(target, role, where, settings.size) for role in ("receiver", "sender"))
        try:
            if receiver.ask("connect") is None or sender.ask("connect") is None:
                return [(said(Promise.BOTH_CONNECT), said(Broken.NOT_BOTH, seconds=_PATIENCE_S))]
            idle = receiver.ask("idle", _IDLE_S)
            for _ in range(_AGAIN):  # once may be a machine that stood still
                if idle is None or not _too_long(idle):
                    break
                idle = receiver.ask("idle", _IDLE_S)
            if idle is None:
                return [(timeout, said(Broken.LATE_TIME_OUT, timeout_s=IDLE_S, seconds=_IDLE_S))]
            found: list[Check] = [
                (timeout, _time_out(idle)),
                (idle_check, _polling(idle, facts, receiver, sender)),
            ]
            if sender.ask("send") is None or sender.ask("close") is None:
                return [*found, (over, said(Broken.NOT_SENT))]
            sender.kill()
            after = receiver.ask("after")
            swallowed = _swallowed(after, facts)
            if swallowed is None and _nothing(after) and hears_an_end(receiver.pid):
                swallowed = said(Broken.CLOSED_KEPT_QUIET)
            found.append((over, swallowed))
            return found
        finally:
            for probe in (receiver, sender):
                probe.kill()


def _too_long(idle: dict[str, Any]) -> bool:
    return bool(idle["took_s"] > 3 * IDLE_S)


def _time_out(idle: dict[str, Any]) -> str | None:
    if idle["what"] not in ("none", "closed"):
        return said(Broken.IDLE_GAVE, what=idle["what"])
    if idle["what"] == "closed":
        return said(Broken.IDLE_SAID_GONE)
    if _too_long(idle):
        return said(Broken.TIME_OUT_LONG, timeout_s=IDLE_S, seconds=idle["took_s"])
    if idle["took_s"] < 0.5 * IDLE_S:
        return said(Broken.TIME_OUT_SHORT, timeout_s=IDLE_S, seconds=idle["took_s"])
    return None


def _polling(idle: dict[str, Any], facts: Facts, receiver: _Probe, sender: _Probe) -> str | None:
    if "block" not in facts.waits:
        return None
    if idle["cpu_s"] > 0.5 * idle["took_s"]:
        return said(Broken.SPINS, cpu_s=idle["cpu_s"], seconds=idle["took_s"])
    step = step_of(idle["sleeps"], idle["took_s"])
    if step is not None and not _is_woken(receiver, sender, step):
        return said(Broken.POLLS, times=idle["sleeps"], seconds=idle["took_s"])
    return None


def _is_woken(receiver: _Probe, sender: _Probe, step_s: float) -> bool:
    """Whether what is sent wakes a receiver that wakes up so often without it."""
    with ThreadPoolExecutor(1) as beside:
        came = beside.submit(receiver.ask, f"await {step_s}")
        sent = sender.ask(f"moments {step_s}")
        received = came.result()
    times = [(one or {}).get("times", []) for one in (sent, received)]
    return is_woken(times[0], times[1], step_s)


def _swallowed(after: dict[str, Any] | None, facts: Facts) -> str | None:
    if after is None:
        return said(Broken.ENDED_UNHEARD, seconds=_PATIENCE_S)
    if after["what"] == "closed":
        return None
    if after["what"] != "none":
        return said(Broken.ENDED_GAVE, what=after["what"])
    spins = "block" in facts.waits and after["cpu_s"] > 0.5 * after["took_s"]  # one that polls always does
    if after["took_s"] < 0.5 * AFTER_S or spins:
        return said(Broken.ENDED_KEPT_QUIET)
    return None


def _nothing(after: dict[str, Any] | None) -> bool:
    return after is not None and after["what"] == "none"


def _gone(target: str, kind: Any, settings: Settings, address: Any) -> Check:
    """A sender whose receiver was killed: it says so, or waits; it may not go on as if it were there."""
    what = said(Promise.TELLS_RECEIVER_KILLED)
    with _places(kind, settings, address) as where:
        receiver, sender = (_Probe(target, role, where, settings.size) for role in ("receiver", "sender"))
        try:
            if receiver.ask("connect") is None or sender.ask("connect") is None or sender.ask("send") is None:
                return what, said(Broken.NOT_CONNECTED)
            receiver.ask("after")
            receiver.kill()
            flood = sender.ask("flood", 6.0)
            # No answer: it waits for room, as it should.
            if flood is None or flood["count"] < 5000 or flood["said"]:
                return what, None
            return what, said(Broken.SENT_TO_NONE, messages=flood["count"])
        finally:
            for probe in (receiver, sender):
                probe.kill()


def _left_behind(target: str, kind: Any, settings: Settings, address: Any) -> list[Check]:
    """Files, descriptors and threads that are there after an end was closed. Other programs leave files, too.

    In a folder of the probe's own (`TMPDIR`) every file is the transport's. Elsewhere one is laid at its door
    that stays, if every round leaves some there, and no time of the same length without the transport does.
    """
    files, descriptors = said(Promise.NO_FILES_LEFT), said(Promise.CLOSES_DESCRIPTORS)
    threads = said(Promise.ENDS_THREADS)
    left: list[set[str]] = []
    others: list[set[str]] = []
    held: dict[str, list[int]] = {}
    with scratch("conform") as own:
        for _ in range(_ROUNDS):
            before, begin = files_of_ours(), time.monotonic()
            with _places(kind, settings, address, 3) as where:
                probe = _Probe(target, "receiver", where, settings.size, str(own))
                try:
                    answer = probe.ask("cycles")
                finally:
                    probe.kill()
            took, between = time.monotonic() - begin, files_of_ours()
            held = held or answer or {}
            left.append(between - before)
            if os.listdir(own) or not left[-1]:  # noqa: PTH208 (asked whether it is empty)
                break
            time.sleep(took)
            others.append(files_of_ours() - between)
        now = files_of_ours()
        kept = {str(one) for one in Path(own).iterdir()}
    wrong = None
    restless = {os.path.dirname(path) for one in others for path in one & now}  # noqa: PTH120
    every = [one & now for one in left]
    own_only = [{path for path in one if os.path.dirname(path) not in restless} for one in every]  # noqa: PTH120
    if not kept and len(left) == _ROUNDS and all(every):
        kept = own_only[-1] if all(own_only) else set()
        files = files if kept else said(Promise.FILES_UNKNOWN)
    if kept:
        wrong = said(Broken.FILES_LEFT, files=len(kept), first=sorted(kept)[0])
    return [
        (files, wrong),
        (descriptors, _grown(held.get("descriptors", []), Broken.DESCRIPTORS_LEFT)),
        (threads, _grown(held.get("threads", []), Broken.THREADS_LEFT)),
    ]


def _grown(counts: list[int], kind: Broken) -> str | None:
    """What is kept of every connection; what is made once and reused does not leak."""
    if len(counts) == _ROUNDS and counts[2] - counts[0] >= 2 and counts[1] > counts[0]:
        return said(kind, more=counts[2] - counts[0])
    return None
