"""Queues that their program gives no name: each is called by its number, everywhere."""

from __future__ import annotations

from latlab.model.queues.observation import Queue, QueueKind, named


def test_a_queue_without_a_name_is_called_by_its_number_and_others_keep_theirs() -> None:
    found = named(Queue(number, name, QueueKind.BOUNDED, 8) for number, name in enumerate(["orders", "", ""]))
    assert [queue.name for queue in found] == ["orders", "queue 1", "queue 2"]
    assert [queue.number for queue in found] == [0, 1, 2]
