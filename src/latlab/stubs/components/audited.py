"""What calls do outside of the program's own values: to the process, and to others.

A file that they write, for one, a stub leaves out; what a process is set to is set again where that can be.

The interpreter tells most of it by its audit events (PEP 578). What is written through a descriptor that was
opened before is told by none of them: it is seen by the sizes and times of the files that are open.

This module is loaded into programs under study: it imports nothing heavy.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import sys
import termios
import threading
from collections.abc import Callable
from typing import Any

from latlab._core import stubs_replay

#: Why a place that is told here can't be kept.
WHY = "outside"
_MOST = 20  # that are told by name
_OF_THE_REST = "more"
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_NOWHERE = ("/dev/null", "/dev/tty", "/dev/zero", "/dev/full")
_ALL = -1  # stands for all descriptors
_UNREAD = {stat.S_IFIFO: termios.FIONREAD, stat.S_IFSOCK: termios.TIOCOUTQ}

#: How often calls did each of what is told, by its name.
found: dict[str, int] = {}
_made: set[str] = set()  # within calls: what is made and removed again is nothing that is left out
_hears = False
_study = ""  # the folder of the study itself


def hear() -> None:
    """Begin to note what components that are recorded do; an audit hook stays for as long as a process."""
    global _hears, _study
    if not _hears:
        _hears = True
        _study = os.path.dirname(os.environ.get("LATLAB_STUBS_PLAN", ""))  # noqa: PTH120  # as in plan.py
        sys.addaudithook(_heard)


def _heard(event: str, given: tuple[Any, ...]) -> None:
    tell = _EVENTS.get(event)
    if tell is None:
        return
    inside = stubs_replay.set_recording(False)
    stubs_replay.set_recording(inside)
    if inside:
        tell(*given)


def note(what: str) -> None:
    """Count one thing that a call did."""
    what = what.translate({9: " ", 10: " ", 13: " "})
    if what not in found and len(found) >= _MOST:
        what = _OF_THE_REST
    found[what] = found.get(what, 0) + 1


def _path(path: Any, folder: Any = -1) -> str:
    """The path of a file that is named by itself, by a descriptor, or within a folder that is open."""
    if isinstance(path, int):
        return _link(path)
    if path is None:
        return "."
    text = os.fsdecode(path)
    if isinstance(folder, int) and folder >= 0:
        text = os.path.join(_link(folder), text)  # noqa: PTH118  # pathlib isn't loaded here
    return text


def _link(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
    except OSError:
        return f"descriptor {descriptor}"


def _changes(verb: str) -> Callable[..., None]:
    """Something that is done to a path that is there."""

    def tell(path: Any, *_: Any) -> None:
        if (name := _path(path)) not in _made:
            note(f"{verb} {name}")

    return tell


def _opened(path: Any, _: Any, flags: Any) -> None:
    if not isinstance(flags, int) or not flags & _WRITES or isinstance(path, int):
        return
    if flags & os.O_TMPFILE == os.O_TMPFILE:
        return
    name = _path(path)
    # What importing a module leaves is the interpreter's.
    if name in _NOWHERE or "__pycache__" in name or os.path.isdir(name):  # noqa: PTH112
        return
    if _study and name.startswith(_study):
        return
    if not os.path.lexists(name):
        _made.add(name)
    note(f"writes {name}")


def _makes(path: Any, *rest: Any) -> None:
    name = _path(path, rest[-1] if rest else -1)
    if "__pycache__" not in name:
        _made.add(name)
        note(f"makes {name}")


def _removed(path: Any, folder: Any = -1) -> None:
    name = _path(path, folder)
    if name not in _made:
        note(f"removes {name}")
        return
    _made.discard(name)
    for verb in ("writes", "makes"):
        found.pop(f"{verb} {name}", None)


def _renamed(old: Any, new: Any, old_folder: Any = -1, new_folder: Any = -1) -> None:
    one, other = _path(old, old_folder), _path(new, new_folder)
    if "__pycache__" in other:
        return
    if one not in _made:
        note(f"renames {one} to {other}")
        return
    _removed(old, old_folder)
    if not os.path.lexists(other):
        _made.add(other)
    note(f"writes {other}")


def _linked(_: Any, new: Any, *rest: Any) -> None:
    _makes(new, *rest)


def _started(program: Any, words: Any = (), *_: Any) -> None:
    first = words[0] if isinstance(words, (list, tuple)) and words else words or program
    note(f"starts {_path(first) if isinstance(first, (str, bytes, os.PathLike)) else first}")


def _ran(command: Any) -> None:
    note(f"starts {os.fsdecode(command)}")


def _forked(*_: Any) -> None:
    note("starts a process")


def _sent(_: Any, address: Any = None) -> None:
    parts = address if isinstance(address, tuple) else (address,)
    where = ":".join(os.fsdecode(one) if isinstance(one, bytes) else str(one) for one in parts[:2])
    note(f"sends to {where}")


def _signalled(target: Any, number: Any) -> None:
    note(f"sends signal {int(number)} to {target}")


def _database(path: Any) -> None:
    if isinstance(path, (str, bytes, os.PathLike)) and os.fspath(path) not in (":memory:", ""):
        note(f"opens the database {_path(path)}")


_EVENTS: dict[str, Callable[..., None]] = {
    "open": _opened, "os.mkdir": _makes, "os.symlink": _linked, "os.link": _linked,
    "os.remove": _removed, "os.rmdir": _removed, "os.rename": _renamed,
    "os.truncate": _changes("truncates"), "os.chmod": _changes("changes the mode of"),
    "os.chown": _changes("changes the owner of"), "os.utime": _changes("changes the time of"),
    "os.setxattr": _changes("changes the attributes of"),
    "os.removexattr": _changes("changes the attributes of"),
    "subprocess.Popen": _started, "os.posix_spawn": _started, "os.spawn": lambda _, *rest: _started(*rest),
    "os.system": _ran, "os.fork": _forked, "os.forkpty": _forked,
    "socket.connect": _sent, "socket.sendto": _sent, "socket.sendmsg": _sent,
    "os.kill": _signalled, "os.killpg": _signalled, "signal.pthread_kill": _signalled,
    "sqlite3.connect": _database,
}  # fmt: skip


def _bytes_written() -> int:
    """By this process, to whatever; -1 where the system doesn't count that."""
    try:
        with open("/proc/self/io", "rb") as file:
            return int(file.read().split(b"wchar:")[1].split()[0])
    except (OSError, IndexError, ValueError):
        return -1


def written() -> dict[int, tuple[int, ...]] | None:
    """What is open, and how much was written to it; None where another thread may be writing."""
    if threading.active_count() != 1:
        return None
    state: dict[int, tuple[int, ...]] = {_ALL: (_bytes_written(),)}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        descriptor = int(name)
        if descriptor < 3:
            continue  # what a program says is compared
        try:
            status = os.fstat(descriptor)
            kind = stat.S_IFMT(status.st_mode)
            if kind == stat.S_IFREG:
                state[descriptor] = (status.st_ino, status.st_size, status.st_mtime_ns)
            elif kind in _UNREAD:
                (waiting,) = struct.unpack("i", fcntl.ioctl(descriptor, _UNREAD[kind], bytes(4)))
                state[descriptor] = (status.st_ino, waiting)
        except OSError:
            continue  # it is closed already, or does not know how much waits in it
    return state


def compare(before: dict[int, tuple[int, ...]] | None) -> None:
    """Note what was written since."""
    now = written() if before is not None else None
    if before is None or now is None:
        return
    silent = now.pop(_ALL) == before[_ALL] != (-1,)
    for descriptor, state in now.items():
        old = before.get(descriptor, state)
        if silent and len(state) == 2:
            continue  # what waits in a pipe came from another process that writes to it, such as a pool's
        # Another file of that number, or what was read meanwhile, was not written to.
        if old[0] != state[0] or old == state or (len(state) == 2 and state[1] < old[1]):
            continue
        name = _link(descriptor)
        what = name if len(state) == 3 else f"to {name.partition(':')[0]}"
        if name not in _made:
            note(f"writes {what}")


class Unkept:
    """A state that can be told, and not be given back."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> str:
        raise TypeError("it is the interpreter's own")


def _unsettable(_: Any, value: Any) -> None:
    raise TypeError(f"{value!r} can't be set")


def _umask(os_: Any) -> Any:
    mask = os_.umask(0)
    os_.umask(mask)
    return mask


def _precision(decimal: Any, value: Any) -> None:
    context = decimal.getcontext()
    context.prec, context.rounding = value


def _handlers(signal: Any) -> Unkept:
    found_ = [signal.getsignal(number) for number in sorted(signal.valid_signals())]
    return Unkept([getattr(one, "__qualname__", str(one)) for one in found_])


def _arithmetic(decimal: Any) -> Any:
    context = decimal.getcontext()
    return context.prec, context.rounding


_Setting = tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]
_ARITHMETIC: _Setting = (_arithmetic, _precision)
_COLLECTS: _Setting = (lambda m: m.isenabled(), lambda m, v: m.enable() if v else m.disable())
#: What a process is set to, by the module and the function that change it: how it is read, and how set.
SETTINGS: dict[tuple[str, str], _Setting] = {
    ("os", "umask"): (_umask, lambda m, v: m.umask(v)),
    ("os", "nice"): (lambda m: Unkept(m.getpriority(m.PRIO_PROCESS, 0)), _unsettable),
    ("os", "sched_setaffinity"): (
        lambda m: sorted(m.sched_getaffinity(0)), lambda m, v: m.sched_setaffinity(0, v),
    ),
    ("sys", "setrecursionlimit"): (lambda m: m.getrecursionlimit(), lambda m, v: m.setrecursionlimit(v)),
    ("sys", "setswitchinterval"): (lambda m: m.getswitchinterval(), lambda m, v: m.setswitchinterval(v)),
    ("sys", "path"): (lambda m: list(m.path), lambda m, v: m.path.__setitem__(slice(None), v)),
    ("signal", "signal"): (_handlers, _unsettable),
    ("atexit", "register"): (lambda m: Unkept(m._ncallbacks()), _unsettable),
    ("gc", "disable"): _COLLECTS, ("gc", "enable"): _COLLECTS,
    ("locale", "setlocale"): (lambda m: m.setlocale(m.LC_ALL), lambda m, v: m.setlocale(m.LC_ALL, v)),
    ("decimal", "getcontext"): _ARITHMETIC, ("decimal", "setcontext"): _ARITHMETIC,
    ("socket", "setdefaulttimeout"): (
        lambda m: m.getdefaulttimeout(), lambda m, v: m.setdefaulttimeout(v),
    ),
}  # fmt: skip
