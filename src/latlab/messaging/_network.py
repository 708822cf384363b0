"""A network namespace of the broker's own, and the line to it: TUN devices, and our box between them.

Nothing here has a name that outlives the run: the namespace belongs to a process, the devices to descriptors.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from typing import Any

from latlab.errors import LatlabError, UnavailableError
from latlab.messaging import _processes
from latlab.messaging._links import Link
from latlab.model.messaging import Settings

_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_RIGHTS = "run as root (with CAP_SYS_ADMIN and CAP_NET_ADMIN), or leave --network out"


class Network:
    """The namespace with its line; `links` makes the two hops, and `close` takes everything down."""

    def __init__(self, settings: Settings) -> None:
        self._stack = contextlib.ExitStack()
        self._settings = settings
        try:
            self._set_up()
        except OSError as error:
            self.close()
            remedy = _RIGHTS if error.errno in (errno.EPERM, errno.EACCES) else "see 'modprobe tun'"
            raise UnavailableError(f"no network namespace: {error.strerror}", remedy=remedy) from None
        except LatlabError as error:
            self.close()
            raise UnavailableError(f"no network namespace: {error}", remedy=_RIGHTS) from None

    def _set_up(self) -> None:
        holder = _processes.Child(["unshare", "--net", "sh", "-c", "echo ready; exec sleep 2147483647"])
        self._stack.callback(holder.close)
        holder.expect("ready")
        self._pid = holder.pid
        place = os.getpid() % 16384 * 4
        self._here = f"10.{77 + (place >> 16)}.{place >> 8 & 255}.{(place & 255) + 1}"
        self._there = f"10.{77 + (place >> 16)}.{place >> 8 & 255}.{(place & 255) + 2}"
        near = self._tun(f"latlab{os.getpid() % 100000}")
        with self._inside():
            far = self._tun("latlab0")
        self._ip([], f"latlab{os.getpid() % 100000}", self._here, self._there)
        self._ip(["nsenter", "--net", "--target", str(self._pid)], "latlab0", self._there, self._here)
        s = self._settings
        words = [f"delay={s.network_delay_ns}", f"jitter={s.network_jitter_ns}", f"seed={s.seed}"]
        words += [f"loss={round(s.network_loss * 1e6)}", f"rate={round(s.network_rate_bits or 0)}"]
        command = [_processes.native_program("box"), str(near), str(far), *words]
        box = _processes.Child(command, pass_fds=[near, far])
        self._stack.callback(box.close)
        box.expect("ready")

    def _tun(self, name: str) -> int:
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        self._stack.callback(os.close, fd)
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
        return fd

    def _ip(self, prefix: list[str], device: str, here: str, there: str) -> None:
        for words in (
            ["ip", "address", "add", here, "peer", there, "dev", device],
            ["ip", "link", "set", device, "up", "txqueuelen", "10000"],
        ):
            done = subprocess.run([*prefix, *words], capture_output=True, text=True, check=False)
            if done.returncode:
                raise LatlabError(f"{' '.join(words)}: {done.stderr.strip()}")

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """This thread in the namespace: what it opens there stays there."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/self/ns/net", "rb") as home, open(f"/proc/{self._pid}/ns/net", "rb") as away:
            if libc.setns(away.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            try:
                yield
            finally:
                libc.setns(home.fileno(), _CLONE_NEWNET)

    def link(self, *, inward: bool) -> Link:
        """A hop into the namespace, or out of it."""
        receiver = self._inside() if inward else contextlib.nullcontext()
        sender = contextlib.nullcontext() if inward else self._inside()
        address = self._there if inward else self._here
        datagrams = self._settings.transport == "udp"
        kind = socket.SOCK_DGRAM if datagrams else socket.SOCK_STREAM
        with receiver:
            in_ = socket.socket(socket.AF_INET, kind)
            self._size(in_)
            in_.bind((address, 0))
            if not datagrams:
                in_.listen(1)
        with sender:
            out = socket.socket(socket.AF_INET, kind)
        self._size(out)
        out.settimeout(10.0)
        out.connect(in_.getsockname())
        if not datagrams:
            listener, (in_, _) = in_, in_.accept()
            listener.close()
            for s in (out, in_):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(self._settings.transport == "tcp"))
        out.settimeout(None)
        o, i = out.detach(), in_.detach()
        name = "datagram" if datagrams else "stream"
        return Link(f"{name}:{o}", f"{name}:{i}", (o,), (i,))

    def _size(self, s: Any) -> None:
        if self._settings.buffer_bytes:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._settings.buffer_bytes)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._settings.buffer_bytes)

    def close(self) -> None:
        """Take the line and the namespace down."""
        self._stack.close()
