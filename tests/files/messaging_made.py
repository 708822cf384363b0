"""What a run of messages measured, made up."""

from __future__ import annotations

from typing import Any

import numpy as np

from latlab.model.messaging.results import Facts, Measurement, Settings, Side


def measurement(settings: Settings, facts: Facts, sent: Any, received: Any, **changes: Any) -> Measurement:
    """A run in which nothing disturbed.

    Args:
        sent, received: times in ns, of each message.
        changes: fields that differ from those of a run that nothing disturbed.
    """
    values: dict[str, Any] = {
        "intended_ns": None,
        "kernel_ns": None,
        "sender": Side(count=len(sent)),
        "receiver": Side(count=len(sent)),
        "sender_samples": np.zeros((0, 3), dtype=np.int64),
        "receiver_samples": np.zeros((0, 5), dtype=np.int64),
        "broker_cpu_ns": None,
        "foreign_cpu_ns": None,
        "network_bytes": None,
        "ticks_hz": 1e9,
        "harness_ns": (1.0, 1.0, 1.0),
        "bytes_per_message": 16.0,
        "locked": True,
    }
    values |= changes
    return Measurement(settings=settings, facts=facts, sent_ns=sent, received_ns=received, **values)
