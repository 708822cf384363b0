"""Who counts as a sender of packets that woke a program's threads."""

from __future__ import annotations

import os
import socket

from latlab.schedule.capture import _sends
from latlab.schedule.sockets import local_sockets


def test_who_has_no_connection_to_a_network_sent_nothing() -> None:
    assert not _sends(os.getpid(), 0.9, {})


def test_who_has_one_may_have_sent_it() -> None:
    with socket.create_server(("127.0.0.1", 0)):
        assert _sends(os.getpid(), 0.01, local_sockets())


def test_of_who_has_gone_its_part_of_the_packets_tells() -> None:
    gone = 2**22 + 1  # beyond the greatest number of a process

    assert _sends(gone, 0.5, {})
    assert not _sends(gone, 0.1, {})
