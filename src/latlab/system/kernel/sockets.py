"""The kernel's receive buffers of a process's UDP and TCP sockets: queues in front of its feed.

Fill and drops come from /proc/PID/net/{udp,udp6,tcp,tcp6} and the sockets' inodes from /proc/PID/fd
(proc(5)); a buffer's size from the kernel's socket diagnostics (sock_diag(7), what `ss -m` asks), where the
process shares our network namespace.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SocketFill", "receive_buffers"]

_PROTOCOLS = ("udp", "udp6", "tcp", "tcp6")
_TCP_WITH_DATA = {0x01, 0x04, 0x05, 0x08}  # ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT

# linux/sock_diag.h, linux/inet_diag.h, linux/netlink.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST, _NLM_F_DUMP = 0x1, 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_INET_DIAG_SKMEMINFO = 7
_INODE_AT, _DIAG_BYTES = 68, 72  # in struct inet_diag_msg
_SK_MEMINFO_RCVBUF = 1


@dataclass(frozen=True)
class SocketFill:
    """One receive buffer at one look.

    Attributes:
        protocol: udp, udp6, tcp or tcp6.
        local, remote: address:port.
        fill_bytes: what waits in it. Of UDP as the kernel accounts for it: with its own overhead.
        capacity_bytes: the buffer's size, in the same account; 0 where it can't be had.
        dropped: datagrams that found it full (UDP), since the socket was made; 0 for TCP, which makes its
            sender wait.
    """

    protocol: str
    local: str
    remote: str
    inode: int
    fill_bytes: int
    capacity_bytes: int
    dropped: int


def receive_buffers(pid: int, *, proc: Path = Path("/proc")) -> list[SocketFill]:
    """Every receive buffer of a process's UDP sockets and connected TCP sockets; [] where we may not look.

    Args:
        pid: the process.
        proc: for tests.
    """
    inodes = _inodes(proc / str(pid) / "fd")
    if not inodes:
        return []
    found = []
    for protocol in _PROTOCOLS:
        try:
            lines = (proc / str(pid) / "net" / protocol).read_text().splitlines()[1:]
        except OSError:
            continue  # no IPv6, or the process is gone
        sizes: dict[int, int] | None = None
        for line in lines:
            fields = line.split()
            inode = int(fields[9])
            if inode not in inodes:
                continue
            is_udp = protocol.startswith("udp")
            if not is_udp and int(fields[3], 16) not in _TCP_WITH_DATA:
                continue
            if sizes is None:
                sizes = _sizes(protocol) if _same_namespace(pid, proc) else {}
            found.append(
                SocketFill(
                    protocol=protocol,
                    local=_address(fields[1]),
                    remote=_address(fields[2]),
                    inode=inode,
                    fill_bytes=int(fields[4].split(":")[1], 16),
                    capacity_bytes=sizes.get(inode, 0),
                    dropped=int(fields[12]) if is_udp else 0,
                )
            )
    return found


def _inodes(folder: Path) -> set[int]:
    found: set[int] = set()
    try:
        descriptors = list(folder.iterdir())
    except OSError:
        return found
    for descriptor in descriptors:
        try:
            link = str(descriptor.readlink())
        except OSError:
            continue  # closed meanwhile
        if link.startswith("socket:["):
            found.add(int(link[8:-1]))
    return found


def _same_namespace(pid: int, proc: Path) -> bool:
    try:
        return (proc / str(pid) / "ns" / "net").readlink() == Path("/proc/self/ns/net").readlink()
    except OSError:
        return False


def _address(text: str) -> str:
    """ "0100007F:1F90" is 127.0.0.1:8080: each 32-bit word is in the machine's byte order."""
    host, port = text.split(":")
    words = struct.pack(f"={len(host) // 8}I", *(int(host[i : i + 8], 16) for i in range(0, len(host), 8)))
    family = socket.AF_INET if len(words) == 4 else socket.AF_INET6
    name = socket.inet_ntop(family, words)
    return f"{name if family == socket.AF_INET else f'[{name}]'}:{int(port, 16)}"


def _sizes(protocol: str) -> dict[int, int]:
    """The receive buffer's size by inode, of all sockets of a protocol in our network namespace."""
    family = socket.AF_INET6 if protocol.endswith("6") else socket.AF_INET
    number = socket.IPPROTO_UDP if protocol.startswith("udp") else socket.IPPROTO_TCP
    # struct inet_diag_req_v2: family, protocol, extensions (a bit each, from 1), padding, states, socket id
    request = struct.pack("=BBBBI", family, number, 1 << (_INET_DIAG_SKMEMINFO - 1), 0, 0xFFFFFFFF) + bytes(
        48
    )
    header = struct.pack(
        "=IHHII", 16 + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST | _NLM_F_DUMP, 1, 0
    )
    found: dict[int, int] = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as link:
            link.settimeout(1.0)
            link.send(header + request)
            while _read_answers(link.recv(1 << 16), found):
                pass
    except OSError:
        return {}  # no such diagnostics in this kernel or sandbox: sizes stay unknown
    return found


def _read_answers(data: bytes, found: dict[int, int]) -> bool:
    """Take the sizes out of one datagram of answers; False when it was the last."""
    at = 0
    while at + 16 <= len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        if kind in (_NLMSG_DONE, _NLMSG_ERROR) or length < 16:
            return False
        if length >= 16 + _DIAG_BYTES:
            (inode,) = struct.unpack_from("=I", data, at + 16 + _INODE_AT)
            attribute, end = at + 16 + _DIAG_BYTES, min(at + length, len(data))
            while attribute + 4 <= end:
                size, which = struct.unpack_from("=HH", data, attribute)
                if size < 4:
                    break
                if which == _INET_DIAG_SKMEMINFO and size >= 4 + 4 * (_SK_MEMINFO_RCVBUF + 1):
                    values = struct.unpack_from("=2I", data, attribute + 4)
                    found[inode] = values[_SK_MEMINFO_RCVBUF]
                attribute += (size + 3) & ~3
        at += (length + 3) & ~3
    return True
