"""An end that wakes up in steps while it waits: whether what is sent wakes it."""

from __future__ import annotations

import random

import pytest

from latlab.messaging.judging.woken import SENT, is_woken, step_of

STEP_S = 0.02


def sent_at(seed: int) -> list[float]:
    uneven, now, times = random.Random(seed), 0.0, []
    for _ in range(SENT):
        now += STEP_S * (1 + uneven.random())
        times.append(now)
    return times


@pytest.mark.parametrize("way_s", [1e-5, 0.009])
def test_who_has_a_message_at_the_next_look_polls_however_long_its_way(way_s: float) -> None:
    wrong = 0
    for seed in range(200):
        sent = sent_at(seed)
        looked = [way_s + STEP_S * (1 + at // STEP_S) for at in sent]
        wrong += is_woken(sent, looked, STEP_S)
    assert wrong <= 4


@pytest.mark.parametrize("way_s", [1e-5, 0.009])
def test_who_is_woken_is_although_a_third_came_late(way_s: float) -> None:
    for seed in range(200):
        uneven, sent = random.Random(-seed), sent_at(seed)
        came = [at + way_s + (STEP_S * 0.5 if uneven.random() < 0.3 else 0.0) for at in sent]
        assert is_woken(sent, came, STEP_S)


def test_who_has_fallen_behind_polls_though_late_messages_come_just_after_the_next_was_sent() -> None:
    sent = sent_at(1)
    came = [*(at + 1e-4 for at in sent[1:]), sent[-1] + STEP_S]
    assert not is_woken(sent, came, STEP_S)


def test_lost_messages_do_not_count_and_few_tell_nothing() -> None:
    sent = sent_at(1)
    assert is_woken(sent, [at + 1e-4 for at in sent[::2]], STEP_S)
    assert not is_woken(sent, [at + 1e-4 for at in sent[:5]], STEP_S)


def test_who_looks_a_thousand_times_a_second_polls_whatever_wakes_it() -> None:
    sent = sent_at(1)
    assert not is_woken(sent, sent, 0.001)


def test_few_wake_ups_are_no_steps() -> None:
    assert step_of(10, 1.0) is None
    assert step_of(50, 1.0) == pytest.approx(0.02)
