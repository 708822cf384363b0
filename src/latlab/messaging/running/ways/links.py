"""The two ends of each transport that the native loop serves, as descriptors that a process can inherit.

Everything here is anonymous (memory descriptors, socket pairs, connected sockets, a queue that is unlinked
at once),
so that a run which is killed leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latlab.errors import UnavailableError, UsageError
from latlab.model.messaging.results import Facts, Settings
from latlab.words import seconds

AFTER_READ = "application, after the read that brought it"


@dataclass
class Link:
    """One hop: what the sending and what the receiving end are, and the descriptors that they need."""

    out: str
    in_: str
    out_fds: tuple[int, ...] = ()
    in_fds: tuple[int, ...] = ()

    def close(self, *, out: bool = True, in_: bool = True) -> None:
        """Give up this process's descriptors of one or both ends."""
        ends = [*(self.out_fds if out else ()), *(self.in_fds if in_ else ())]
        for fd in dict.fromkeys(ends):
            with contextlib.suppress(OSError):
                os.close(fd)
        self.out_fds = () if out else self.out_fds
        self.in_fds = () if in_ else self.in_fds


BOTH = ("block", "poll")
ALL = ("broker", "direct", "pingpong")


def _slots(name: str, where: str) -> Facts:
    seen = "application, when the slot is seen"
    return Facts(name, f"ring of slots {where}", True, True, 1 << 30, seen, "native", ALL, BOTH)


NATIVE: dict[str, Facts] = {
    f.name: f
    for f in [
        _slots("ring", "between threads of one process"),
        _slots("shm", "in memory shared between processes"),
        Facts("pipe", "pipe", True, True, 1 << 30, AFTER_READ, "native", ALL, BOTH),
        Facts("unix", "Unix stream socket", True, True, 1 << 30, AFTER_READ, "native", ALL, BOTH),
        Facts("unix-datagram", "Unix datagram socket", True, True, 200_000, AFTER_READ, "native", ALL, BOTH),
        Facts(
            "tcp", "TCP on loopback with TCP_NODELAY", True, True, 1 << 30, AFTER_READ, "native", ALL, BOTH
        ),
        Facts(
            "tcp-nagle",
            "TCP on loopback without TCP_NODELAY",
            True,
            True,
            1 << 30,
            AFTER_READ,
            "native",
            ALL,
            BOTH,
        ),
        Facts("udp", "UDP on loopback", False, True, 65_507, AFTER_READ, "native", ALL, BOTH),
        Facts("multicast", "UDP multicast on loopback", False, True, 65_507, AFTER_READ, "native", ALL, BOTH),
        Facts("mq", "POSIX message queue", True, True, 16 << 20, AFTER_READ, "native", ALL, BOTH),
    ]
}
ALIASES = {
    "in-process-ring": "ring", "inproc": "ring", "shared-memory": "shm", "shm-ring": "shm",
    "unix-stream": "unix",
    "tcp-nodelay": "tcp", "tcp-delay": "tcp-nagle", "udp-multicast": "multicast", "posix-mq": "mq",
    "unix-dgram": "unix-datagram",
}  # fmt: skip


def open_link(name: str, settings: Settings) -> Link:
    """A fresh hop of a native transport.

    Raises:
        UnavailableError: when the machine refuses, with what to change.
    """
    try:
        return _OPENERS[name](settings)
    except OSError as error:
        raise UnavailableError(f"{name}: {error.strerror or error}", remedy=_remedy(name, error)) from None
    except RuntimeError as error:  # the compiled core's std::system_error
        raise UnavailableError(f"{name}: {error}", remedy=_remedy(name, error)) from None


def _remedy(name: str, error: Exception) -> str:
    if name == "mq":
        return "see /proc/sys/fs/mqueue/msg_max and msgsize_max, and 'ulimit -q', for what is allowed"
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        return "raise 'ulimit -n'"
    return "see 'latlab messaging transports' for what works here"


def _ring(settings: Settings) -> Link:
    from latlab._core import messaging as core

    stride = -(-settings.size // 64) * 64
    # 64 KiB by default: it stays in the second-level cache of both cores, which a longer ring would fall
    # out of.
    wanted = settings.buffer_bytes or max(2 * stride, 65_536)
    slots = max(2, min(wanted // stride, 1 << 20))
    if settings.batch > slots:
        raise UsageError(f"a batch of {settings.batch} in a ring of {slots} slots", remedy="raise --buffer")
    fd = os.memfd_create("latlab-ring")
    try:
        core.ring_create(fd, settings.size, slots)
    except RuntimeError:
        os.close(fd)
        raise
    return Link(f"ring:{fd}", f"ring:{fd}", (fd,), (fd,))


def _pipe(settings: Settings) -> Link:
    import fcntl

    r, w = os.pipe()
    if settings.buffer_bytes:
        with contextlib.suppress(PermissionError):
            fcntl.fcntl(w, 1031, settings.buffer_bytes)  # F_SETPIPE_SZ
    return Link(f"stream:{w}", f"stream:{r}", (w,), (r,))


def _sized(settings: Settings, *sockets: socket.socket) -> None:
    for s in sockets:
        if settings.buffer_bytes:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.buffer_bytes)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.buffer_bytes)


def _link(kind: str, out: socket.socket, in_: socket.socket) -> Link:
    o, i = out.detach(), in_.detach()
    return Link(f"{kind}:{o}", f"{kind}:{i}", (o,), (i,))


def _unix(settings: Settings) -> Link:
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    _sized(settings, a, b)
    return _link("stream", a, b)


def _unix_datagram(settings: Settings) -> Link:
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    _sized(settings, a, b)
    if settings.size * 2 > a.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF):
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.size * 2)
    return _link("datagram", a, b)


def tcp_pair(settings: Settings, *, nodelay: bool) -> tuple[socket.socket, socket.socket]:
    """Both ends of a loopback connection."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        _sized(settings, listener)  # before listen: the window is agreed on in the handshake
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        out = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        _sized(settings, out)
        out.connect(listener.getsockname())
        in_, _ = listener.accept()
    for s in (out, in_):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(nodelay))
    return out, in_


def _tcp(settings: Settings) -> Link:
    return _link("stream", *tcp_pair(settings, nodelay=True))


def _tcp_nagle(settings: Settings) -> Link:
    return _link("stream", *tcp_pair(settings, nodelay=False))


def _udp(settings: Settings) -> Link:
    in_ = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    _sized(settings, in_, out)
    in_.bind(("127.0.0.1", 0))
    out.connect(in_.getsockname())
    return _link("datagram", out, in_)


def _multicast(settings: Settings) -> Link:
    group = f"239.{os.getpid() >> 8 & 255}.{os.getpid() & 255}.77"
    in_ = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    _sized(settings, in_, out)
    in_.bind((group, 0))
    here = socket.inet_aton("127.0.0.1")
    in_.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + here)
    out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, here)
    out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    out.connect((group, in_.getsockname()[1]))
    return _link("datagram", out, in_)


def _mq(settings: Settings) -> Link:
    from latlab._core import messaging as core

    # What root asks for may be deeper than that, and what anybody asks for is refused, not cut down.
    depth = int(Path("/proc/sys/fs/mqueue/msg_max").read_text())
    if settings.buffer_bytes:
        depth = max(1, settings.buffer_bytes // settings.size)
    receive, send = core.open_message_queue(settings.size, depth)
    return Link(f"queue:{send}", f"queue:{receive}", (send,), (receive,))


ATTACHABLE = ("tcp", "tcp-nagle", "udp", "unix", "unix-datagram")
_ATTACH_S = 5.0


def attach(settings: Settings, rest: contextlib.ExitStack) -> tuple[Link, int | None]:
    """Both ends of a way through somebody else's program, and its process where it runs here.

    The sender connects to `settings.connect`. The program's own connection is awaited at `settings.listen`;
    without one the messages come back on the sender's connection, as from an echo server. `rest` takes away
    what the way leaves in the file system.

    Raises:
        UsageError: for an address that is none.
        UnavailableError: when no program listens there, or none connects here.
    """
    from latlab.messaging.judging.looks import listener

    assert settings.connect is not None
    stream = settings.transport not in ("udp", "unix-datagram")
    with contextlib.ExitStack() as stack:
        waiting = None
        if settings.listen is not None:  # before the program is told to connect
            waiting = stack.enter_context(_bound(settings, settings.listen, stream=stream))
            if waiting.family == socket.AF_UNIX and not settings.listen.startswith("@"):
                rest.callback(Path(settings.listen).unlink, missing_ok=True)
        family, address = _address(settings, settings.connect)
        pid = listener(settings.connect) if family == socket.AF_UNIX else listener(*address[:2])
        out = stack.enter_context(_socket_of(settings, family, stream=stream))
        try:
            out.settimeout(_ATTACH_S)
            if family == socket.AF_UNIX and not stream:  # an answer needs an address to go to
                out.bind("")
            out.connect(address)
        except OSError as error:
            why = error.strerror or error
            raise UnavailableError(
                f"no program listens at {settings.connect}: {why}", remedy="start the program first"
            ) from None
        back = out
        if waiting is not None:
            back = waiting if not stream else stack.enter_context(_accepted(waiting, settings.listen or ""))
        for one in (out, back):
            one.settimeout(None)
            if settings.transport.startswith("tcp"):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(settings.transport == "tcp"))
        fds = [os.dup(one.fileno()) for one in ((out,) if back is out else (out, back))]
    kind = "stream" if stream else "datagram"
    return Link(f"{kind}:{fds[0]}", f"{kind}:{fds[-1]}", (fds[0],), (fds[-1],)), pid


def _address(settings: Settings, text: str) -> tuple[int, Any]:
    """(family, address) of HOST:PORT, [IPv6]:PORT, a path, or @NAME of an abstract socket."""
    if settings.transport.startswith("unix"):
        return socket.AF_UNIX, f"\0{text[1:]}" if text.startswith("@") else text
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"'{text}' is not an address", remedy="write HOST:PORT or [::1]:PORT")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise UnavailableError(f"{host}: {error.strerror or error}") from None
    return found[0][0], found[0][4]


def _socket_of(settings: Settings, family: int, *, stream: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
    _sized(settings, made)
    return made


def _bound(settings: Settings, text: str, *, stream: bool) -> socket.socket:
    family, address = _address(settings, text)
    made = _socket_of(settings, family, stream=stream)
    try:
        if family != socket.AF_UNIX:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        elif _deserted(text, made.type):  # a run that was killed left it
            Path(text).unlink()
        made.bind(address)
        if stream:
            made.listen(1)
    except OSError as error:
        made.close()
        raise UnavailableError(f"can't listen on {text}: {error.strerror or error}") from None
    return made


def _deserted(path: str, kind: int) -> bool:
    """Whether a Unix socket's file is there, and nobody listens at it."""
    if path.startswith("@") or not Path(path).is_socket():
        return False
    with socket.socket(socket.AF_UNIX, kind) as asking:
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _accepted(waiting: socket.socket, text: str) -> socket.socket:
    waiting.settimeout(_ATTACH_S)
    try:
        return waiting.accept()[0]
    except TimeoutError:
        raise UnavailableError(
            f"no program connected to {text} within {seconds(_ATTACH_S)}",
            remedy="the program has to connect there once it is connected to; leave --listen out for an echo",
        ) from None


_OPENERS = {
    "ring": _ring, "shm": _ring, "pipe": _pipe, "unix": _unix, "unix-datagram": _unix_datagram, "tcp": _tcp,
    "tcp-nagle": _tcp_nagle, "udp": _udp, "multicast": _multicast, "mq": _mq,
}  # fmt: skip
