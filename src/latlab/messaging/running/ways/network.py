"""A network namespace of the broker's own, and the line to it.

The line is a veth pair with a token bucket on both ends. A delay, a jitter or a loss, for which a kernel
would need netem, comes from our box between two TUN devices in front of the pair, whose near end then lies in
a namespace of its own that forwards. Where a kernel has no veth or no token bucket, the box does it all.

Namespaces belong to a process, TUN devices to descriptors, and a veth pair goes with its namespace: a run
that is killed takes them along. The one thing with a name here is the pair's near end. Should it be left (a
namespace lives as long as a connection in it that still tries to send), then the next run takes it down.
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
from pathlib import Path
from typing import Any

from latlab.errors import LatlabError, UnavailableError
from latlab.messaging.running import processes as _processes
from latlab.messaging.running.ways.links import Link
from latlab.model.messaging.results import Settings

_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_RIGHTS = "run as root (with CAP_SYS_ADMIN and CAP_NET_ADMIN), or leave --network out"
_PREFIX = "latlab"
_NEAR, _FAR = "02:6c:61:74:00:01", "02:6c:61:74:00:02"  # locally administered; nobody else is on the pair
_QUEUE_BYTES = 10_000_000  # that wait for the bucket; the box's queue likewise


class _NoKernelLineError(Exception):
    """The kernel has no veth pairs, or no token buckets."""


def sweep() -> list[str]:
    """Take down the near ends of runs that have gone; returns their names."""
    gone = []
    for device in Path("/sys/class/net").glob(f"{_PREFIX}[0-9]*"):
        owner = device.name.removeprefix(_PREFIX)
        if owner.isdigit() and not Path("/proc", owner).exists():
            done = subprocess.run(["ip", "link", "delete", device.name], capture_output=True, check=False)
            gone += [device.name] if done.returncode == 0 else []
    return gone


class Network:
    """The namespace with its line; `links` makes the two hops, and `close` takes everything down.

    Attributes:
        device: the line's end on this side.
        made_of: what the line is made of, in words.
    """

    def __init__(self, settings: Settings) -> None:
        self._stack = contextlib.ExitStack()
        self._settings = settings
        self.device = f"{_PREFIX}{os.getpid()}"
        self.made_of = ""
        self._box_pid: int | None = None
        try:
            self._set_up()
        except OSError as error:
            self.close()
            remedy = _RIGHTS if error.errno in (errno.EPERM, errno.EACCES) else "see 'modprobe tun'"
            raise UnavailableError(f"no network namespace: {error.strerror}", remedy=remedy) from None
        except LatlabError as error:
            self.close()
            raise UnavailableError(f"no network namespace: {error}", remedy=_RIGHTS) from None
        except BaseException:  # an interrupt must not leave half a line behind either
            self.close()
            raise

    def _set_up(self) -> None:
        sweep()
        s = self._settings
        self._pid = self._namespace()
        place = os.getpid() % 16384 * 4
        self._here = f"10.{77 + (place >> 16)}.{place >> 8 & 255}.{(place & 255) + 1}"
        self._there = f"10.{77 + (place >> 16)}.{place >> 8 & 255}.{(place & 255) + 2}"
        boxed = bool(s.network_delay_ns or s.network_jitter_ns or s.network_loss)
        try:
            between = self._namespace() if boxed else None
            self._pair(between)
            self.made_of = "a veth pair"
            if s.network_rate_bits:
                self.made_of += " with a token bucket on both ends"
            if between is not None:
                self._box(between, rate_bits=0.0)
                self.made_of += ", behind a box between TUN devices that delays and loses"
        except _NoKernelLineError as missing:
            self._box(self._pid, rate_bits=s.network_rate_bits or 0.0)
            self.made_of = f"a box between TUN devices ({missing})"

    def _namespace(self) -> int:
        """The process that holds a new one, and ends with us."""
        holder = _processes.Child(["unshare", "--net", "sh", "-c", "echo ready; exec sleep 2147483647"])
        self._stack.callback(holder.close)
        holder.expect("ready")
        return holder.pid

    def _pair(self, between: int | None) -> None:
        """A veth pair from the namespace between (None: from here) to the broker's."""
        near = self.device if between is None else f"{_PREFIX}1"
        pair = ["ip", "link", "add", near, "address", _NEAR]
        pair += [] if between is None else ["netns", str(between)]
        pair += ["type", "veth", "peer", "name", f"{_PREFIX}0", "address", _FAR, "netns", str(self._pid)]
        self._kernel(pair)
        take_down = [*_in(between), "ip", "link", "delete", near]
        self._stack.callback(subprocess.run, take_down, capture_output=True, check=False)
        try:
            for place, device in ((between, near), (self._pid, f"{_PREFIX}0")):
                if self._settings.network_rate_bits:
                    self._bucket(place, device, self._settings.network_rate_bits)
        except _NoKernelLineError:
            subprocess.run(take_down, capture_output=True, check=False)
            raise
        if between is None:
            self._ip(None, "address", "add", self._here, "peer", self._there, "dev", near)
            self._ip(None, "link", "set", near, "up")
        else:
            self._ip(between, "link", "set", near, "up")
            self._ip(between, "route", "add", self._there, "dev", near)
        self._ip(self._pid, "address", "add", self._there, "peer", self._here, "dev", f"{_PREFIX}0")
        self._ip(self._pid, "link", "set", f"{_PREFIX}0", "up")
        # Nobody has to ask who has an address: the first message would wait for the answer.
        for place, address, hardware, device in (
            (between, self._there, _FAR, near), (self._pid, self._here, _NEAR, f"{_PREFIX}0")
        ):  # fmt: skip
            known = ["lladdr", hardware, "dev", device, "nud", "permanent"]
            self._ip(place, "neighbour", "add", address, *known)

    def _bucket(self, place: int | None, device: str, rate_bits: float) -> None:
        # What passes in 250 us: a timer that fires late by less than that costs no throughput.
        burst = max(3200, round(rate_bits / 8 * 250e-6))
        words = ["tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{round(rate_bits)}bit"]
        self._kernel([*_in(place), *words, "burst", str(burst), "limit", str(_QUEUE_BYTES)])

    def _box(self, place: int, *, rate_bits: float) -> None:
        """Our box between a TUN device here and one in the namespace of process `place`."""
        near, far_name = self._tun(self.device), f"{_PREFIX}2"
        with self._inside(place):
            far = self._tun(far_name)
            if place != self._pid:
                Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self._ip(None, "address", "add", self._here, "peer", self._there, "dev", self.device)
        if place == self._pid:
            self._ip(place, "address", "add", self._there, "peer", self._here, "dev", far_name)
        for where, device in ((None, self.device), (place, far_name)):
            self._ip(where, "link", "set", device, "up", "txqueuelen", "10000")
        if place != self._pid:
            self._ip(place, "route", "add", self._here, "dev", far_name)
        s = self._settings
        words = [f"delay={s.network_delay_ns}", f"jitter={s.network_jitter_ns}", f"seed={s.seed}"]
        words += [f"loss={round(s.network_loss * 1e6)}", f"rate={round(rate_bits)}"]
        command = [_processes.native_program("box"), str(near), str(far), *words]
        box = _processes.Child(command, pass_fds=[near, far])
        self._stack.callback(box.close)
        box.expect("ready")
        self._box_pid = box.pid

    def _tun(self, name: str) -> int:
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        self._stack.callback(os.close, fd)
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
        return fd

    def _ip(self, place: int | None, *words: str) -> None:
        done = subprocess.run([*_in(place), "ip", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise LatlabError(f"ip {' '.join(words)}: {done.stderr.strip()}")

    def _kernel(self, command: list[str]) -> None:
        """Run what an older or smaller kernel may not know."""
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise _NoKernelLineError(f"{command[0]} is not installed") from None
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            if "not permitted" in why:
                raise LatlabError(f"{' '.join(command)}: {why}")
            raise _NoKernelLineError(why)

    @contextlib.contextmanager
    def _inside(self, pid: int) -> Iterator[None]:
        """This thread in a process's namespace: what it opens there stays there."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/self/ns/net", "rb") as home, open(f"/proc/{pid}/ns/net", "rb") as away:
            if libc.setns(away.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            try:
                yield
            finally:
                libc.setns(home.fileno(), _CLONE_NEWNET)

    def link(self, *, inward: bool) -> Link:
        """A hop into the namespace, or out of it."""
        receiver = self._inside(self._pid) if inward else contextlib.nullcontext()
        sender = contextlib.nullcontext() if inward else self._inside(self._pid)
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

    def cpu_ns(self) -> int:
        """CPU time that the box took so far; 0 where the line has none."""
        return 0 if self._box_pid is None else _processes.cpu_ns(self._box_pid) or 0

    def close(self) -> None:
        """Take the line and the namespace down."""
        self._stack.close()


def _in(place: int | None) -> list[str]:
    """The words that put a command into the network namespace of a process; none for our own."""
    return [] if place is None else ["nsenter", "--net", "--target", str(place)]
