"""Who may read what latlab serves: the right host name, and a token.

A page of anybody's, open in the same browser, can have its own name point to 127.0.0.1 and then read what is
served there (DNS rebinding): so a request must name this machine. Another user of the machine can connect,
too: so it must bring the token, as `?token=…` or as `Authorization: Bearer …`.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

__all__ = ["bad_host", "has_token", "link", "new_token"]


class Headers(Protocol):
    """Of a request."""

    def get(self, name: str, failobj: str, /) -> str:
        """A header's value, or what is given."""


def new_token() -> str:
    """That nobody guesses."""
    return secrets.token_urlsafe(16)


def bad_host(headers: Headers, address: str) -> bool:
    """Whether a request names another host: no address, no name of ours, not what we listen at."""
    try:
        given = urlsplit(f"//{headers.get('Host', '')}").hostname or ""
        if given in ("localhost", address.lower(), socket.gethostname().lower()):
            return False
        ipaddress.ip_address(given)
    except ValueError:
        return True
    return False  # an address is never looked up, so nobody can have it point elsewhere


def has_token(headers: Headers, path: str, token: str | None) -> bool:
    """Whether a request brings the token; always where there is none."""
    if token is None:
        return True
    asked = parse_qs(urlsplit(path).query).get("token", [""])[0]
    kind, _, borne = headers.get("Authorization", "").partition(" ")
    given = asked or (borne.strip() if kind.lower() == "bearer" else "")
    return hmac.compare_digest(given.encode(), token.encode())


def link(address: str, port: int, path: str, token: str | None) -> str:
    """To click: the address with the token."""
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}{path}{'' if token is None else f'?token={token}'}"
