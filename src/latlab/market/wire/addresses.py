"""The address of a feed: its lines, and what belongs to them."""

from __future__ import annotations

from dataclasses import dataclass
from socket import inet_aton
from urllib.parse import parse_qsl, urlsplit

from latlab.errors import UsageError

__all__ = ["UdpAddress", "host_and_port", "parse_udp"]


@dataclass(frozen=True)
class UdpAddress:
    """Lines on the wire and what belongs to them; see `parse_udp`.

    Args:
        lines: (group or address, port) of each.
        protocol: ``mold`` (ITCH in MoldUDP64) or ``pitch`` (PITCH sequenced units).
        requests: of the server that repeats what was lost.
        interface: the address of the interface for multicast.
        idle_s: a silence so long is the end.
        url: as it was given.
    """

    lines: tuple[tuple[str, int], ...]
    requests: tuple[str, int] | None
    interface: str
    idle_s: float
    url: str
    protocol: str = "mold"


def parse_udp(url: str) -> UdpAddress:
    """``udp://GROUP:PORT[,GROUP:PORT...][?protocol=pitch&requests=HOST:PORT&interface=ADDRESS&idle=SECONDS]``.

    Lines behind the first (a secondary) carry the same messages. The protocol is mold (ITCH) or pitch, for
    which there is no server of requests. Idle is 10 s unless it is said.

    Raises:
        UsageError: it is none.
    """
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = set(options) - {"protocol", "requests", "interface", "idle"}
    protocol = options.get("protocol", "mold")
    try:
        idle = float(options.get("idle", "10"))
        inet_aton(interface := options.get("interface", "0.0.0.0"))
    except (ValueError, OSError):
        idle, interface = -1.0, ""
    strange = unknown or protocol not in ("mold", "pitch")
    if parts.scheme != "udp" or parts.path not in ("", "/") or strange or not idle > 0:
        raise UsageError(
            "a feed is udp://GROUP:PORT[,GROUP:PORT]"
            f"[?protocol=mold|pitch&requests=HOST:PORT&interface=ADDRESS&idle=SECONDS], not '{url}'"
        )
    if protocol == "pitch" and "requests" in options:
        raise UsageError(f"'{url}' asks for requests: a PITCH feed has no server of MoldUDP64 requests")
    lines = tuple(host_and_port(line, url) for line in parts.netloc.split(","))
    requests = host_and_port(options["requests"], url) if "requests" in options else None
    return UdpAddress(lines, requests, interface, idle, url, protocol)


def host_and_port(text: str, url: str) -> tuple[str, int]:
    """A host's name or address, and a port.

    Raises:
        UsageError: it is none.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"'{text}' in '{url}' is not HOST:PORT")
    return host, int(port)
