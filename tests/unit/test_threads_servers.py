"""Servers and clients that sleep: who waits for work, and who lets others wait."""

from __future__ import annotations

import pytest
from tests.unit.threads_made import MS, Made, found_in

from latlab.model.schedule import SEVERAL, Source, Wait
from latlab.model.threads import LimitKind, ThreadFindings
from latlab.threads import analyse


def ticking(item: int, *, answers: bool = False, keeper: bool = False) -> Made:
    """A process that sleeps nearly always, and may wake a client's thread each time."""
    made = Made()
    server = made.thread("server")
    client = made.thread("client", 200)
    for at in range(0, 1000, 20):
        made.wait(server, at, at + 19.9, on=Wait.TIMER, source=Source.TIMER, item=item)
        made.run(server, at + 19.9, at + 20)
        if answers:
            made.wakes.append((int((at + 19.95) * MS), server, client, 0, Source.THREAD))
    made.wait(client, 0, 1000, source=Source.UNKNOWN, on=Wait.SOCKET, item=1)
    if keeper:
        thread = made.thread("keeper")
        made.turns(thread, 0.01, period=100, on=Wait.TIMER, item=-1, source=Source.TIMER)
    return made


def served(made: Made) -> ThreadFindings:
    return analyse(made.schedule(), listens=frozenset({100}))


@pytest.mark.parametrize("item", [SEVERAL, 3])
def test_a_server_that_looks_up_now_and_then_waits_for_work(item: int) -> None:
    assert served(ticking(item)).limit.kind is LimitKind.LOAD


def test_a_server_that_sleeps_before_it_answers_lets_its_clients_wait() -> None:
    limit = served(ticking(-1, answers=True)).limit
    assert (limit.kind, limit.name) == (LimitKind.TIMER, "server")


def test_a_server_that_sleeps_between_two_requests_of_clients_that_nobody_saw_lets_them_wait() -> None:
    made = Made()
    server = made.thread("server")
    for at in range(0, 1000, 100):
        made.wait(server, at, at + 45, on=Wait.TIMER, source=Source.TIMER, item=-1)
        made.wait(server, at + 45, at + 90, on=Wait.TIMER, source=Source.TIMER, item=-1)
        made.wait(server, at + 90, at + 99, on=Wait.POLL, item=1)
        made.run(server, at + 99, at + 100)
    limit = served(made).limit
    assert (limit.kind, limit.name) == (LimitKind.TIMER, "server")


def test_a_server_that_answers_when_its_timers_end_paces_itself() -> None:
    limit = served(ticking(SEVERAL, answers=True)).limit
    assert (limit.kind, limit.name) == (LimitKind.TIMER, "server")


def test_a_housekeeper_that_wakes_nobody_does_not_limit_an_idle_server() -> None:
    assert served(ticking(SEVERAL, keeper=True)).limit.kind is LimitKind.LOAD


def test_a_client_sleeping_is_load_for_a_server_and_a_server_behind_it_is_not() -> None:
    made = Made()
    server, other = made.thread("server"), made.thread("other", 200)
    for at in range(0, 1000, 10):
        made.run(server, at, at + 0.2)
        made.wait(server, at + 0.2, at + 10, other, on=Wait.SOCKET, item=1)
        made.wait(other, at, at + 9.8, on=Wait.TIMER, source=Source.TIMER, item=-1)
        made.run(other, at + 9.8, at + 10)
    assert served(made).limit.kind is LimitKind.LOAD
    limit = analyse(made.schedule(), listens=frozenset({100}), serve=frozenset({200})).limit
    assert (limit.kind, limit.name) == (LimitKind.PROCESS, "other")


def test_a_client_that_only_looks_up_waits_for_whom_it_is_connected_to() -> None:
    made = ticking(SEVERAL)
    assert found_in(made).limit.kind is LimitKind.TIMER
    assert analyse(made.schedule(), asks=frozenset({100})).limit.kind is LimitKind.LOAD


def test_of_a_client_that_gets_no_answer_nothing_is_named() -> None:
    made = Made()
    made.wait(made.thread("client"), 0, 1000, source=Source.UNKNOWN, on=Wait.POLL, item=-1)
    assert found_in(made).limit.kind is LimitKind.LOAD
    limit = analyse(made.schedule(), asks=frozenset({100})).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert any("diagnose --pid" in line for line in limit.why_not)


def test_a_client_that_looks_up_and_is_woken_now_and_then_is_not_told_to_sleep() -> None:
    made = Made()
    client, server = made.thread("client"), made.thread("server", 200)
    made.wait(server, 0, 1000, source=Source.UNKNOWN, on=Wait.SOCKET, item=1)
    for at in range(0, 1000, 100):
        for tick in range(0, 80, 20):
            made.wait(client, at + tick, at + tick + 19, on=Wait.TIMER, source=Source.TIMER, item=SEVERAL)
            made.run(client, at + tick + 19, at + tick + 20)
        made.wait(client, at + 80, at + 95, on=Wait.POLL, source=Source.NETWORK, item=1)
        made.run(client, at + 95, at + 100)
    assert found_in(made).limit.kind is LimitKind.TIMER
    assert analyse(made.schedule(), asks=frozenset({100})).limit.kind is LimitKind.UNKNOWN


def test_a_client_that_is_owed_an_answer_waits_for_the_program_that_owes_it() -> None:
    limit = analyse(ticking(SEVERAL).schedule(), asks=frozenset({100}), answers={100: "database"}).limit
    assert (limit.kind, limit.name) == (LimitKind.PROCESS, "database")


def test_a_client_that_goes_on_by_itself_is_told_to_sleep() -> None:
    asks = frozenset({100})
    limit = analyse(ticking(SEVERAL).schedule(), asks=asks, paces=asks).limit
    assert (limit.kind, limit.name) == (LimitKind.TIMER, "server")


def test_a_client_that_nothing_wakes_and_that_has_asked_waits_for_that_program() -> None:
    made = Made()
    made.wait(made.thread("client"), 0, 1000, source=Source.UNKNOWN, on=Wait.POLL, item=-1)
    limit = analyse(made.schedule(), asks=frozenset({100}), answers={100: "database"}).limit
    assert (limit.kind, limit.name) == (LimitKind.PROCESS, "database")
    assert any("database" in line for line in limit.evidence)


def test_a_server_that_sends_when_its_time_outs_end_paces_itself_though_nobody_is_seen_to_get_it() -> None:
    made = ticking(SEVERAL)
    limit = analyse(made.schedule(), listens=frozenset({100}), paces=frozenset({100})).limit
    assert (limit.kind, limit.name) == (LimitKind.TIMER, "server")


def arriving(item: int = SEVERAL) -> Made:
    """A client for which packets arrive every 40 ms, by interrupts."""
    made = Made()
    made.turns(made.thread("client"), 0.2, on=Wait.POLL, item=item, source=Source.NETWORK)
    return made


def test_whoever_waits_for_several_connections_waits_for_the_address_that_it_is_connected_to() -> None:
    limit = analyse(arriving().schedule(), far={100: "10.0.0.9:6379"}).limit
    assert (limit.kind, limit.name) == (LimitKind.NETWORK, "10.0.0.9:6379")


def test_no_peer_is_named_where_both_ends_are_of_the_program() -> None:
    limit = found_in(arriving()).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "no end of it outside of the program is known" in limit.why_not[0]


@pytest.mark.parametrize("wakes", [False, True])
def test_a_thread_that_looks_after_a_server_and_wakes_nobody_is_not_what_its_clients_wait_for(
    wakes: bool,
) -> None:
    """As of memcached: a worker answers a client that computes, and a keeper sleeps in a call of its own."""
    made = Made()
    made.wait(made.thread("cache"), 0, 1000, on=Wait.POLL, item=9, source=Source.UNKNOWN)
    worker, keeper = made.thread("worker"), made.thread("keeper")
    client = made.thread("client", pid=200)
    for at in range(0, 1000, 10):
        made.wait(worker, at, at + 9.8, client, on=Wait.POLL, item=1)
        made.run(worker, at + 9.8, at + 10)
        made.run(client, at, at + 9.8)
        made.wait(client, at + 9.8, at + 10, worker, on=Wait.SOCKET, item=2)
        made.wait(keeper, at, at + 9.9, on=Wait.TIMER, source=Source.TIMER, item=-1)
        made.run(keeper, at + 9.9, at + 10)
        if wakes:
            made.wakes.append((int((at + 9.95) * MS), keeper, client, 0, Source.THREAD))
    found = analyse(made.schedule(), listens=frozenset({100}), paces=frozenset({100}))
    assert ("cache: keeper: timer" in found.progress) == wakes
    assert found.limit.kind is LimitKind.LOAD
