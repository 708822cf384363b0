"""What queues and stages are called: by the code that makes and uses them.

A queue is named after what it is assigned to, and where: "orders (feed.py:12)". A stage is a thread (task,
process) or several that do the same: the same function, on the same queues. Where those that do the same have
queues of their own, each has the name that the program gave it, with its number.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from itertools import islice
from threading import RLock

TYPE_CHECKING = False  # of typing: importing that takes longer than all of ours
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Role", "Stages", "queue_name"]

_OURS = ("queue", "asyncio", "multiprocessing", "concurrent", "threading", __name__.partition(".")[0])
_ASSIGNED = re.compile(r"^\s*(?:self\.|cls\.)?([A-Za-z_][\w.]*)\s*(?::[^=]+)?=(?!=)")
_KEYWORD = re.compile(r"([A-Za-z_]\w*)\s*=\s*[\w.]*(?:Queue|Pool|Executor|Semaphore|Lock)\w*\s*\(")
_BEFORE = re.compile(r"(?:self\.|cls\.)?([A-Za-z_][\w.]*)\s*(?::[^=;]+)?=\s*$")
_TARGETS = re.compile(r"^\s*\(?((?:[A-Za-z_][\w.]*\s*,\s*)+[A-Za-z_][\w.]*)\)?\s*=(?!=)\s*\(?")
_KEY = re.compile(r"""["']([\w .-]+)["']\s*\]?\s*[:=]""")
_LAST_KEY = re.compile(_KEY.pattern + r"\s*$")
_AFTER = re.compile(r"\s*as\s+([A-Za-z_]\w*)")
_AS = re.compile(r"\bas\s+([A-Za-z_]\w*)\s*[:,]")
_NUMBER = re.compile(r"[-_ ]?\d+$")
_DEFAULT = re.compile(r"^(Thread|Dummy|Process|ForkProcess|SpawnProcess|ForkServerProcess|Task)-?[\d:]*")
_POOL = re.compile(r"^(ThreadPoolExecutor-\d+_\d+|\w*PoolWorker-\d+)$")
_LANE = re.compile(r" #(\d+) \(")
_LINES_ABOVE = 4
_MOST_OF_A_LINE = 64  # as of one for each request: the rest isn't published

_seen: dict[tuple[str, int, str], int] = {}


def _caller() -> Any:
    """The nearest frame of the program's own."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in _OURS:
            break
        frame = frame.f_back
    return frame


def _by_position(frame: Any) -> Any:
    """What the very call is assigned to, where the interpreter knows its columns (3.11 on)."""
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is None:
        return ""
    line, end_line, begin, end = next(islice(positions(), frame.f_lasti // 2, None), (None,) * 4)
    if line is None or end_line is None or begin is None:
        return ""
    # Columns count bytes of UTF-8.
    first = linecache.getline(frame.f_code.co_filename, line).encode("utf-8")
    last = linecache.getline(frame.f_code.co_filename, end_line).encode("utf-8")
    before = first[:begin].decode("utf-8", "replace").rpartition(";")[2]  # of several statements on a line
    after = last[end:].decode("utf-8", "replace")
    match = _TARGETS.match(before)
    if match is not None:
        return _target(match.group(1).split(","), before[match.end() :])
    match = _BEFORE.search(before) or _LAST_KEY.search(before) or _AFTER.match(after)
    return match.group(1) if match is not None else ""


def _target(names: Any, before: Any) -> Any:
    """The name that the call after this text is assigned to, of several on one line; "" where none is."""
    depth = at = 0
    for letter in before:
        depth += (letter in "([{") - (letter in ")]}")
        at += letter == "," and depth == 0
    name = names[at].strip() if depth == 0 and at < len(names) else ""
    return name.rpartition("self.")[2]


def _by_line(file: Any, line: Any) -> Any:
    for number in range(line, max(0, line - _LINES_ABOVE), -1):
        text = linecache.getline(file, number)
        inside = _KEYWORD.search(text) if number == line else None
        match = _ASSIGNED.match(text) or inside or _AS.search(text)
        if match is None and number == line:
            match = _KEY.search(text)
        if match is not None:
            return match.group(1)
        if number < line and text.strip() and not text.rstrip().endswith(("(", "[", "{", ",", "=")):
            break
    return ""


def queue_name(otherwise: Any, prefix: Any = "") -> Any:
    """Of a queue that is being made; several that one line makes are numbered. None: it isn't published."""
    frame = _caller()
    if frame is None:
        return otherwise
    if frame.f_globals.get("__name__", "").partition(".")[0] == "latlab":
        return None  # it is counted already: the program has instrumented it itself
    file, line = frame.f_code.co_filename, frame.f_lineno
    name = prefix + (_by_position(frame) or _by_line(file, line) or otherwise)
    count = _seen[file, line, name] = _seen.get((file, line, name), 0) + 1
    if count > _MOST_OF_A_LINE:
        return None
    number = "" if count == 1 else " #%d" % count
    return "%s%s (%s:%d)" % (name, number, os.path.basename(file), line)


def lane_of(queue: Any) -> Any:
    """The number of a queue among those that one line made, by its name."""
    match = _LANE.search(queue)
    return int(match.group(1)) if match is not None else 1


class Role(str):
    """What several do alike; `whole` is the name of one of them, with its number; "" where it has none."""

    whole = ""


class Stages:
    """Who is a stage with whom: users of the same role that meet at the same side of the same queue.

    `renamed` is called with (user or None, old label, new label).
    """

    renamed: Any = None

    def __init__(self) -> None:
        self._label: dict[Any, str] = {}
        self._at: dict[Any, str] = {}
        self._count: dict[str, int] = {}
        self._first: dict[str, Any] = {}  # role -> the user that is a stage of its name, and its whole name
        self._lock = RLock()

    def clear(self) -> None:
        """In a child: its threads are others."""
        self.__init__()  # type: ignore[misc]

    def forget(self, user: Any) -> None:
        """It has ended, and another one may get its number."""
        self._label.pop(user, None)

    def label(self, user: Any) -> Any:
        """Of a user who has been named; else None."""
        return self._label.get(user)

    def name(self, user: Any, role: Any, queue: Any, producer: Any, lane: Any = 1) -> Any:
        """Of the stage of a user (anything hashable) who is at one side of a queue for the first time.

        `lane`: the queue's number among those of one line, by which its user is known, whoever was first.
        """
        with self._lock:
            label = self._label.get(user)
            place = (role, queue, producer)
            if label is None:
                label = self._at.get(place)
                if label is None:
                    label = self._another(user, role, lane)
                elif label == role:
                    self._first.pop(role, None)  # several are one stage: it keeps the name of the role
                self._label[user] = label
            self._at.setdefault(place, label)
        return label

    def _another(self, user: Any, role: Any, lane: Any) -> Any:
        """The label of one more stage of a role."""
        whole = getattr(role, "whole", "") or (role if lane == 1 else "%s-%d" % (role, lane))
        number = self._count[role] = self._count.get(role, 0) + 1
        if number == 1:
            if whole != role:
                self._first[role] = user, whole
            return role
        if role in self._first:
            first, name = self._first.pop(role)
            self._rename(first, role, name)
        used = set(self._label.values()).union(self._at.values())
        while whole in used:
            whole, number = "%s-%d" % (role, number), number + 1
        return whole

    def _rename(self, user: Any, old: Any, new: Any) -> None:
        if new in self._label.values():
            return
        still = self._label.get(user) == old  # else it has ended, and another one has its number
        if still:
            self._label[user] = new
        for place, label in list(self._at.items()):
            if label == old:
                self._at[place] = new
        if self.renamed is not None:
            self.renamed(user if still else None, old, new)


def role_of(name: Any, function: Any) -> Any:
    """Of a thread, task or process: its own name where somebody gave it one, else its function's; a Role."""
    if name in ("MainThread", "MainProcess"):
        return function or "main"
    own = name if name and not _DEFAULT.match(name) and not _POOL.match(name) else ""
    if not own and not function:
        inner = re.search(r"\((.*)\)$", name or "")  # "Thread-3 (worker)", since 3.10
        function = inner.group(1) if inner else ""
    role = Role(_NUMBER.sub("", own) or own or function or name or "thread")
    if own and own != role:
        role.whole = own
    return role


def function_name(function: Any) -> Any:
    """As the source has it, without the class's module; of a partial the function inside."""
    inner = getattr(function, "func", function)
    # How concurrent.futures sends a part of what map is given, and asyncio what runs in a thread.
    carries = getattr(inner, "__qualname__", "") in ("_process_chunk", "Context.run")
    arguments = getattr(function, "args", None)
    if carries and arguments:
        return function_name(arguments[0])
    function = inner
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return name.rpartition("<locals>.")[2]
