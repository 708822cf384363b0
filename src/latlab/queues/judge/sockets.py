"""The kernel's receive buffers: queues in front of the stages that read them, and what was dropped there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from latlab.model.evidence.queues import QueueEvidence
from latlab.model.evidence.said import said
from latlab.model.queues.analysis import SocketResult
from latlab.model.queues.observation import Observation

__all__ = ["overrun", "socket_results"]

# Of the buffer. A datagram that is larger than what is left is dropped, and what was read is given back to
# the buffer by quarters only (udp_rmem_release in net/ipv4/udp.c), while what is shown is without that.
_NEARLY_FULL = 0.6
_LEAST_DATAGRAM = 512  # bytes: SKB_TRUESIZE(0) in include/linux/skbuff.h is some more
_MOSTLY = 0.5  # of the looks: then the reader is too slow; less is a burst


def socket_results(observation: Observation, window: tuple[int, int]) -> tuple[SocketResult, ...]:
    """Every buffer that was looked at twice within a window, the one that dropped most first."""
    columns = observation.socket_samples
    if not columns or not len(columns["t_ns"]):
        return ()
    inside = (columns["t_ns"] >= window[0]) & (columns["t_ns"] <= window[1])
    found = []
    for socket in observation.sockets:
        rows = np.flatnonzero((columns["socket"] == socket.number) & inside)
        if len(rows) < 2:
            continue
        fill = columns["fill_bytes"][rows].astype(float)
        capacity = np.maximum(columns["capacity_bytes"][rows].astype(float), 1.0)
        dropped = columns["dropped"][rows]
        found.append(
            SocketResult(
                socket.name,
                socket.drain,
                int(dropped[-1]) - int(dropped[0]),
                float((fill >= _NEARLY_FULL * capacity).mean()),
                float(fill.mean()),
                int(capacity[-1]),
                _waiting(columns["fill_bytes"][rows]) if socket.protocol.startswith("udp") else None,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.dropped))


def _waiting(fills: NDArray[np.int64]) -> float | None:
    """Datagrams in a buffer, on average: what they take there is a multiple of what one takes.

    That is the socket buffer's whole size (truesize), with its header. Datagrams of several sizes have only
    the allocator's step in common, which is less than any of them.
    """
    one = int(np.gcd.reduce(fills.astype(np.int64), initial=0))
    return float(fills.mean()) / one if one >= _LEAST_DATAGRAM else None


def overrun(sockets: tuple[SocketResult, ...], stages: set[str]) -> tuple[SocketResult, bool, str] | None:
    """The buffer in front of one of these stages that dropped most; None where none did.

    Returns:
        The buffer, whether its reader is too slow (else bursts are larger than it), and a sentence.
    """
    worst = next((one for one in sockets if one.dropped > 0 and one.drain in stages), None)
    if worst is None:
        return None
    slow = worst.full >= _MOSTLY
    buffer = {"dropped": worst.dropped, "stage": worst.drain, "buffer": worst.name, "full": worst.full}
    return worst, slow, said(QueueEvidence.SOCKET, **buffer)
