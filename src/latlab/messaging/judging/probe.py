"""One end of a transport that is asked how it behaves: `python -m latlab.messaging.judging.probe ORDER`.

It reads one word a line and answers each with one line of JSON.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from latlab.formats.documents import dumps
from latlab.messaging.judging.woken import at_random, receive_all
from latlab.messaging.running.processes import end_with_parent
from latlab.messaging.running.python_loop import load
from latlab.messaging.running.shared import Body
from latlab.messaging.running.transport import TransportClosed

IDLE_S = 1.0
AFTER_S = 0.4
_ENDS_S = 1.0
_FLOOD_S, _FLOOD = 3.0, 50_000


def _received(end: Any, timeout_s: float) -> dict[str, Any]:
    """One call of `receive`: what came, how long it took, and what it cost."""
    used, begin = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    cpu = time.process_time()
    try:
        message = end.receive(timeout_s)
        what = "none" if message is None else "message" if len(message) else "empty"
    except TransportClosed:
        what = "closed"
    except Exception as error:  # noqa: BLE001 (whatever a plug-in raises is what is asked)
        what = f"{type(error).__name__}: {error}"
    took = time.monotonic() - begin
    now = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "what": what,
        "took_s": took,
        "cpu_s": time.process_time() - cpu,
        "sleeps": now.ru_nvcsw - used.ru_nvcsw,
    }


def _count(end: Any) -> int:
    """How many messages a call of `receive` gave; negative where it failed."""
    what = _received(end, AFTER_S)["what"]
    return {"message": 1, "none": 0}.get(what, -1)


def _send(end: Any, body: Body) -> None:
    body.stamp(0)
    end.send(memoryview(body.data))


def _after(end: Any) -> dict[str, Any]:
    """What `receive` says once the peer has ended; what was still under way is taken first."""
    found = _received(end, AFTER_S)
    for _ in range(20):
        if found["what"] != "message":
            break
        found = _received(end, AFTER_S)
    return found


def _flood(end: Any, body: Body) -> dict[str, Any]:
    """Send to a peer that has gone: how many messages were taken until it was said, or time was over."""
    begin, count = time.monotonic(), 0
    view = memoryview(body.data)
    while count < _FLOOD and time.monotonic() - begin < _FLOOD_S:
        try:
            end.send(view)
        except TransportClosed:
            return {"said": True, "count": count}
        except Exception as error:  # noqa: BLE001 (see above)
            return {"said": True, "count": count, "wrong": f"{type(error).__name__}: {error}"}
        count += 1
    return {"said": False, "count": count}


def _cycles(kind: Any, places: list[Any]) -> dict[str, Any]:
    """Open descriptors and threads after each connection of both ends was closed again."""
    counts: dict[str, list[int]] = {"descriptors": [], "threads": []}
    before = _entries("task")
    for where in places:
        ends = [kind(), kind()]
        for end, role in zip(ends, ("receiver", "sender"), strict=True):
            end.connect(role, where)
        for end in reversed(ends):
            end.close()
        del end
        ends.clear()
        gc.collect()  # what a collection takes away is not kept
        until = time.monotonic() + _ENDS_S
        while _entries("task") > before and time.monotonic() < until:
            time.sleep(0.01)  # a thread may still be on its way out
        before = _entries("task")
        counts["descriptors"].append(_entries("fd"))
        counts["threads"].append(before)
    return counts


def _entries(folder: str) -> int:
    return sum(1 for _ in Path(f"/proc/self/{folder}").iterdir())


def main() -> int:
    """Answer until the input ends."""
    end_with_parent()
    order = json.loads(sys.argv[1])
    kind, body = load(order["class"]), Body(order["size"])
    end = None
    for line in sys.stdin:
        word, _, step = line.strip().partition(" ")
        answer: dict[str, Any] = {}
        if word == "connect":
            end = kind()
            end.connect(order["role"], order["where"][0])
        elif word == "idle":
            answer = _received(end, IDLE_S)
        elif word == "send":
            assert end is not None
            _send(end, body)
        elif word == "after":
            answer = _after(end)
        elif word == "await":
            answer = {"times": receive_all(functools.partial(_count, end), float(step))}
        elif word == "moments":
            answer = {"times": at_random(functools.partial(_send, end, body), float(step))}
        elif word == "flood":
            answer = _flood(end, body)
        elif word == "cycles":
            answer = _cycles(kind, order["where"])
        elif word == "close":
            assert end is not None
            with contextlib.suppress(TransportClosed):
                end.close()
        sys.stdout.write(dumps(answer) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception as error:  # noqa: BLE001 (whatever a plug-in raises is one line)
        sys.stderr.write(f"{type(error).__name__}: {error}".splitlines()[0] + "\n")
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # a library's threads must not hold the answer back
