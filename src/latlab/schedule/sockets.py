"""Sockets by their inode: what they are, and which two are the ends of one local connection."""

from __future__ import annotations

import ipaddress
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["DropWatch", "doors_asked", "local_peers", "local_sockets", "socket_ends"]

_TRIES = 3  # to find out whose a socket is


def _address(text: str) -> str:
    host, _, port = text.partition(":")
    raw = bytes.fromhex(host)
    # Words of four bytes, each in the byte order of the machine (proc(5)).
    raw = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
    address = ipaddress.ip_address(raw)
    shown = getattr(address, "ipv4_mapped", None) or address
    return f"[{shown}]:{int(port, 16)}" if shown.version == 6 else f"{shown}:{int(port, 16)}"


def _internet(kind: str, text: str) -> dict[int, tuple[str, str, str]]:
    found = {}
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) > 9 and words[9].isdigit():
            found[int(words[9])] = (kind, _address(words[1]), _address(words[2]))
    return found


def socket_ends(root: Path = Path("/proc/net")) -> dict[int, tuple[str, bool]]:
    """Inode of a socket -> its own address, and whether a socket listens there.

    Of unix sockets those of which one end alone has a name: an accepted one has its listener's.
    """
    ends: dict[int, str] = {}
    listening: set[str] = set()
    for kind in ("tcp", "tcp6"):
        try:
            lines = (root / kind).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if len(words) > 9 and words[9].isdigit():
                near = _address(words[1])
                if words[3] == "0A":  # TCP_LISTEN
                    listening.add(near.rpartition(":")[2])
                ends[int(words[9])] = near
    found = {inode: (near, near.rpartition(":")[2] in listening) for inode, near in ends.items() if inode}
    pairs = _unix_pairs()
    for inode, (peer, path) in pairs.items():
        other = pairs.get(peer, (0, ""))[1]
        if peer and bool(path) != bool(other):  # else it isn't known which was called
            found[inode] = f"unix {path or other}", bool(path)
    return found


class DropWatch:
    """How many datagrams the kernel dropped in front of a program's UDP sockets while it was watched.

    Args:
        root: of /proc.
    """

    def __init__(self, root: Path = Path("/proc")) -> None:
        """Nothing seen yet."""
        self._root = root
        self._first: dict[int, int] = {}  # by inode
        self._last: dict[int, tuple[str, int]] = {}
        self._tries: dict[int, int] = {}
        self._owners: dict[int, int] = {}
        self._looked = False

    def look(self, pids: Iterable[int]) -> None:
        """Read the kernel's counts; whose a socket is, is looked for where it drops."""
        grown = set()
        for kind in ("udp", "udp6"):
            for words in map(str.split, _text(self._root / "net" / kind).splitlines()[1:]):
                if len(words) < 13 or not (words[9].isdigit() and words[12].isdigit()):
                    continue
                inode, dropped = int(words[9]), int(words[12])
                before = self._first.setdefault(inode, 0 if self._looked else dropped)
                if dropped > before:
                    self._last[inode] = f"UDP {_address(words[1])}", dropped - before
                    grown.add(inode)
        self._looked = True
        wanted = {one for one in grown - self._owners.keys() if self._tries.get(one, 0) < _TRIES}
        for pid in pids if wanted else ():
            for inode in _sockets_of(self._root, pid) & wanted:
                self._owners.setdefault(inode, pid)
        for inode in wanted:
            self._tries[inode] = self._tries.get(inode, 0) + 1

    @property
    def dropped(self) -> tuple[tuple[str, int, int], ...]:
        """Of each of its sockets that dropped: its address, whose it is, and how many, most first."""
        found = [(self._last[inode][0], pid, self._last[inode][1]) for inode, pid in self._owners.items()]
        return tuple(sorted(found, key=lambda one: -one[2]))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # without IPv6
        return ""


def _sockets_of(root: Path, pid: int) -> set[int]:
    """The inodes of a process's sockets; none where it has ended, or is another user's."""
    try:
        links = [str(one.readlink()) for one in (root / str(pid) / "fd").iterdir()]
    except OSError:
        return set()
    inodes = (link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:["))
    return {int(inode) for inode in inodes if inode.isdigit()}


def _unix_pairs() -> dict[int, tuple[int, str]]:
    """Inode of a unix socket -> its peer's inode and its path, by `ss` where it is installed."""
    try:
        shown = subprocess.run(["ss", "-xaH"], capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found = {}
    for line in shown.splitlines():
        match = re.search(r"(\S+) (\d+)\s+(\S+) (\d+)\s*(?:users:.*)?$", line)
        if match is not None:
            path = next((one for one in (match[1], match[3]) if one != "*"), "")
            found[int(match[2])] = (int(match[4]), path)
    return found


def doors_asked(pid: int) -> set[str]:
    """The files of servers' unix sockets that a process is connected to, by `ss` where it is installed."""
    pairs = _unix_pairs()
    found: set[str] = set()
    try:
        links = [str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:  # it has ended, or is another user's
        return found
    for link in links:
        inode = link.removeprefix("socket:[").rstrip("]")
        if inode.isdigit() and int(inode) in pairs:
            path = pairs.get(pairs[int(inode)][0], (0, ""))[1]
            if path and not path.startswith("/run/systemd/"):  # the log, which answers nothing
                found.add(path)
    return found


def local_sockets(root: Path = Path("/proc/net")) -> Mapping[int, str]:
    """What each socket is, by inode, as "tcp 127.0.0.1:80 - 127.0.0.1:4711".

    The two ends of a connection on this machine have one name: the lesser address stands first.
    """
    names: dict[int, str] = {}
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        try:
            text = (root / kind).read_text()
        except OSError:
            continue
        for inode, (_, near, far) in _internet(kind, text).items():
            if inode == 0:
                continue
            if far.endswith(":0"):
                names[inode] = f"{kind.removesuffix('6')} {near}"
            else:
                names[inode] = f"{kind.removesuffix('6')} {' - '.join(sorted((near, far)))}"
    for inode, (peer, path) in _unix_pairs().items():
        pair = min(inode, peer) if peer else inode
        names[inode] = f"unix {path or 'pair'} [{pair}]"
    return names


def local_peers(
    objects: Mapping[int, str], servers: Mapping[int, str] | Mapping[object, str]
) -> dict[int, str]:
    """Which of these objects are connections to a server on this machine: its name for each.

    Args:
        objects: as `Schedule.objects`: of a connection "tcp ADDRESS - ADDRESS".
        servers: port -> name of the process that listens there, of other programs.
    """
    found = {}
    for number, name in objects.items():
        kind, _, ends = name.partition(" ")
        if kind != "tcp":
            continue
        for end in ends.split(" - "):
            host, _, port = end.rpartition(":")
            if port.isdigit() and int(port) in servers and _is_here(host):
                found[number] = servers[int(port)]
    return found


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
