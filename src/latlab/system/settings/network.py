"""What a network card holds back, or sends to sleep: coalescing of interrupts, energy-efficient Ethernet.

Both are asked of the driver (ioctl SIOCETHTOOL, linux/ethtool.h): no file shows them.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from latlab.errors import UnavailableError
from latlab.model.evidence.machine import SettingUnknown, SettingValue
from latlab.model.evidence.said import said

__all__ = ["coalescing", "energy_efficient_ethernet"]

_SIOCETHTOOL = 0x8946
_GET_COALESCE, _GET_EEE = 0x0000000E, 0x00000044
# Of struct ethtool_coalesce, in words: rx_coalesce_usecs, tx_coalesce_usecs, use_adaptive_rx_coalesce.
_RX_US, _TX_US, _ADAPTIVE_RX, _COALESCE_WORDS = 1, 5, 10, 23
_EEE_ACTIVE, _EEE_ENABLED, _EEE_WORDS = 4, 5, 10  # of struct ethtool_eee
_HELD_BACK_US = 5  # what nobody notices beside the 5 to 50 µs of a packet's way
Ask = Callable[[str, int, int], tuple[int, ...]]


def cards(root: Path) -> list[str]:
    """The network interfaces that are devices, and not the kernel's own."""
    return sorted(path.parent.name for path in root.glob("sys/class/net/*/device"))


def ask(card: str, command: int, words: int) -> tuple[int, ...]:
    """A structure of the driver, in words of 32 bits; OSError where it doesn't know it."""
    import ctypes

    answer = ctypes.create_string_buffer(struct.pack(f"{words}I", command, *[0] * (words - 1)))
    request = struct.pack("16sP16x", card.encode(), ctypes.addressof(answer))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCETHTOOL, request)
    return struct.unpack(f"{words}I", answer.raw[: 4 * words])


def _asked(root: Path, command: int, words: int, ask: Ask) -> dict[str, tuple[int, ...]]:
    names = cards(root)
    if not names:
        raise UnavailableError(said(SettingUnknown.NO_CARD))
    found = {}
    for name in names:
        try:
            found[name] = ask(name, command, words)
        except OSError:
            continue
    if not found:
        raise UnavailableError(said(SettingUnknown.NOT_TOLD, cards=", ".join(names)))
    return found


def coalescing(root: Path, ask: Ask = ask) -> tuple[str, bool]:
    """For how long each card holds interrupts back."""
    told, good = list[str](), True
    for name, words in _asked(root, _GET_COALESCE, _COALESCE_WORDS, ask).items():
        kind = SettingValue.COALESCED_ADAPTIVELY if words[_ADAPTIVE_RX] else SettingValue.COALESCED
        told.append(said(kind, card=name, received_us=words[_RX_US], sent_us=words[_TX_US]))
        good = good and words[_RX_US] <= _HELD_BACK_US and not words[_ADAPTIVE_RX]
    return told[0] if len(told) == 1 else "; ".join(told), good


def energy_efficient_ethernet(root: Path, ask: Ask = ask) -> tuple[str, bool]:
    """Whether a link may sleep."""
    found = _asked(root, _GET_EEE, _EEE_WORDS, ask)
    enabled = [name for name, words in found.items() if words[_EEE_ENABLED]]
    told = {
        name: "off" if name not in enabled else said(SettingValue.LINK_SLEEPS) if words[_EEE_ACTIVE] else "on"
        for name, words in found.items()
    }
    return "; ".join(f"{name}: {text}" for name, text in told.items()), not enabled
