"""Why the slow requests are slow, from parts that were written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from latlab.model.evidence.requests import NoTail, Occupant
from latlab.model.evidence.said import kind_of, said
from latlab.model.requests import CommonTrait
from latlab.requests.connections import REQUEST
from latlab.requests.judging.answer import holding, tail_answer
from latlab.requests.judging.common import traits_of
from latlab.requests.occupants import OBSERVED
from latlab.requests.parts import Spent
from latlab.requests.where import function_of, held_by, in_function, ran_in, waited_in

USUAL: list[Spent] = [{("running", "server"): 40.0}] * 50
RUNS: Spent = {("running", ran_in("server", "compute")): 1_000.0}
WAITS: Spent = {("receive-queue", "server was busy"): 1_000.0, ("running", "server"): 40.0}


def size(large: int, amount: float) -> CommonTrait:
    return CommonTrait("answer's size", "20.0 MB and more", large, 10, 0, 50, 1e-9, amount)


def test_who_waits_behind_a_computation_is_late_by_that_computation() -> None:
    tail = [RUNS, WAITS] * 5
    caused: list[Spent] = [
        RUNS,
        {("running", ran_in("server", "compute")): 1_000.0, ("running", "server"): 40.0},
    ] * 5
    alone = tail_answer(tail, USUAL)
    said = tail_answer(tail, USUAL, caused, USUAL)
    assert alone.withheld == "no single part makes most of them longer"
    assert (said.withheld, said.kind, said.where) == ("", "running", "server in compute")
    assert 0.4 < said.behind < 0.6


def test_the_largest_part_by_far_in_nearly_each_slow_request_is_named_below_a_half() -> None:
    one: Spent = {("disk", "fsync"): 450.0, ("running", "a"): 280.0, ("runnable", ""): 270.0}
    said = tail_answer([one] * 10, USUAL)
    assert (said.withheld, said.kind) == ("", "disk")


def test_two_parts_of_one_size_are_not_told_apart() -> None:
    one: Spent = {("disk", "fsync"): 400.0, ("timer", ""): 390.0, ("lock", ""): 210.0}
    assert tail_answer([one] * 10, USUAL).withheld == "no single part makes most of them longer"


def test_who_computes_and_touches_pages_is_told_with_its_function_also_where_the_pages_take_longer() -> None:
    one: Spent = {("fault", "pages"): 440.0, ("running", ran_in("a", "b")): 410.0, ("disk", "fsync"): 150.0}
    said = tail_answer([one] * 10, USUAL)
    assert (said.withheld, said.kind, said.where) == ("", "running", ran_in("a", "b"))


def test_a_large_answer_is_named_by_its_size_whichever_part_of_making_it_is_the_longest() -> None:
    one: Spent = {("fault", "pages"): 500.0, ("running", "a"): 300.0, ("send", ""): 200.0}
    said = tail_answer([one] * 10, USUAL, common=[size(9, 20e6)])
    assert (said.kind, said.where) == ("send", "answers of 20.0 MB and more, made and sent")


def test_few_bytes_that_take_long_to_compute_are_not_their_size() -> None:
    said = tail_answer([RUNS] * 10, USUAL, common=[size(9, 20.0)])
    assert said.kind == "running"


def test_what_the_holder_of_a_lock_does_is_told() -> None:
    one: Spent = {("lock", "futex 0x40"): 900.0, ("running", "server"): 40.0}
    held: Spent = {("disk", "fsync"): 800.0, ("running", "server"): 100.0}
    said = tail_answer([one] * 10, USUAL, held=[held] * 10)
    assert (said.kind, said.holder, said.ran) == ("lock", "disk (fsync)", "")
    late: Spent = {
        ("runnable", ""): 500.0,
        ("running", ran_in("server", "pack")): 300.0,
        ("running", "a"): 100.0,
    }
    assert tail_answer([one] * 10, USUAL, held=[late] * 10).ran == "server in pack"


NEIGHBOUR = said(Occupant.HAD, name="neighbour")


def test_what_holders_of_a_lock_do_as_well_as_those_who_wait_for_it_is_one_cause() -> None:
    one: Spent = {("runnable", NEIGHBOUR): 480.0, ("lock", "futex 0x40"): 400.0, ("thread", "worker"): 120.0}
    beyond: Spent = {("runnable", NEIGHBOUR): 880.0, ("thread", "worker"): 120.0}
    found = tail_answer([one] * 10, USUAL, tail_through=[beyond] * 10, median_through=USUAL)
    assert (found.withheld, found.kind, found.where) == ("", "runnable", NEIGHBOUR)
    assert 0.35 < found.behind < 0.45
    assert tail_answer([one] * 10, USUAL).withheld == said(NoTail.NO_SINGLE)


def test_what_only_the_holders_of_a_lock_do_is_not_what_the_slow_ones_do() -> None:
    one: Spent = {("disk", "fsync"): 100.0, ("lock", "futex 0x40"): 450.0, ("timer", ""): 450.0}
    beyond: Spent = {("disk", "fsync"): 550.0, ("timer", ""): 450.0}
    found = tail_answer([one] * 10, USUAL, tail_through=[beyond] * 10, median_through=USUAL)
    assert found.withheld == said(NoTail.NO_SINGLE)


def test_who_waits_for_the_interpreters_lock_is_late_by_what_the_thread_does_that_has_it() -> None:
    lock: Any = ("lock", "the interpreter's lock, held by python")
    faults: Any = ("fault", "pages that were touched for the first time")
    tail: list[Spent] = [{faults: 900.0, ("running", "a"): 100.0}] * 4 + [{lock: 1_000.0}] * 6
    through: list[Spent] = [{faults: 900.0, ("running", "a"): 100.0}] * 10
    found = tail_answer(tail, USUAL, tail_through=through, median_through=USUAL)
    assert (found.withheld, found.kind) == ("", "fault")
    assert 0.5 < found.behind < 0.6
    # One that answers nobody has it: it is no request that is slow by itself.
    hog: list[Spent] = [{("running", "hog"): 1_000.0}] * 10
    assert tail_answer([{lock: 1_000.0}] * 10, USUAL, tail_through=hog, median_through=USUAL).kind == "lock"
    # Nor is it what they do where that one has no CPU at times, as they have none themselves.
    own_too: list[Spent] = [{lock: 700.0, ("runnable", NEIGHBOUR): 300.0}] * 10
    hog = [{("runnable", NEIGHBOUR): 1_000.0}] * 10
    assert tail_answer(own_too, USUAL, tail_through=hog, median_through=USUAL).kind == "lock"
    # A lock of the program's own is what they wait for.
    own: Any = ("lock", "futex 0x40, held by python")
    tail = [{faults: 900.0, ("running", "a"): 100.0}] * 4 + [{own: 1_000.0}] * 6
    assert tail_answer(tail, USUAL, tail_through=through, median_through=USUAL).kind == "lock"


def test_a_client_that_has_the_cpu_while_it_receives_a_large_answer_is_part_of_sending_it() -> None:
    sends: Spent = {("send", ""): 300.0, ("running", "a"): 310.0, ("interrupt", ""): 70.0}
    one: Spent = {**sends, ("runnable", said(Occupant.CLIENT, name="client")): 320.0}
    found = tail_answer([one] * 10, USUAL, common=[size(9, 20e6)])
    assert (found.withheld, found.kind) == ("", "send")
    assert found.share > 0.9
    by_other: Spent = {**sends, ("runnable", said(Occupant.HAD, name="neighbour")): 320.0}
    other = tail_answer([by_other] * 10, USUAL, common=[size(9, 20e6)])
    assert other.where != found.where


def test_a_commit_is_the_disk_s_though_the_function_that_syncs_runs_for_longer() -> None:
    commits: Spent = {
        ("disk", waited_in("fsync", "book_sale")): 300.0, ("running", ran_in("python", "book_sale")): 250.0,
        ("running", "python"): 190.0, ("runnable", said(Occupant.HAD, name="python")): 260.0,
    }  # fmt: skip
    found = tail_answer([commits] * 10, USUAL)
    assert (found.withheld, found.kind) == ("", "disk")
    assert found.where == "fsync, and what book_sale runs beside it"
    # Not where another function runs, the disk is the lesser part of it, or the median ones wait for it, too.
    elsewhere: Spent = {
        **commits,
        ("running", ran_in("python", "book_sale")): 0.0,
        ("running", ran_in("python", "count")): 250.0,
    }
    brief: Spent = {**commits, ("disk", waited_in("fsync", "book_sale")): 90.0, ("running", "python"): 400.0}
    assert tail_answer([elsewhere] * 10, USUAL).kind != "disk"
    assert tail_answer([brief] * 10, USUAL).kind != "disk"
    usual: list[Spent] = [{("disk", waited_in("fsync", "book_sale")): 100.0}] * 100
    assert tail_answer([commits] * 10, usual).where != found.where


def test_that_those_had_the_cpu_who_ask_is_no_cause_in_the_server() -> None:
    client, neighbour = (said(which, name="python") for which in (Occupant.CLIENT, Occupant.HAD))
    mostly: Spent = {("runnable", client): 700.0, ("runnable", neighbour): 300.0}
    found = tail_answer([mostly] * 10, USUAL)
    assert (kind_of(found.withheld), found.kind) == (NoTail.CLIENTS, "runnable")
    # Of another program that is called as the client is, it is told.
    other: Spent = {("runnable", client): 300.0, ("runnable", neighbour): 700.0}
    assert tail_answer([other] * 10, USUAL).withheld == ""


def test_who_is_late_by_what_observes_decides_nothing() -> None:
    disk: Spent = {("disk", "fsync"): 600.0, ("running", "a"): 340.0}
    watched: Spent = {("runnable", OBSERVED): 4_000.0, ("running", "a"): 340.0}
    found = tail_answer([disk] * 10 + [watched] * 8, USUAL)
    assert (found.withheld, found.kind, found.of_slow) == ("", "disk", 10)
    assert tail_answer([watched] * 8, USUAL).of_slow == 8


def test_one_median_request_of_few_that_is_longer_by_chance_shows_not_the_same() -> None:
    slow: list[Spent] = [{("runnable", NEIGHBOUR): 900.0, ("running", "server"): 40.0}] * 8
    late: Spent = {("runnable", NEIGHBOUR): 200.0, ("running", "server"): 40.0}
    few = [*USUAL[:4], late]
    assert kind_of(tail_answer(slow, few).withheld) is NoTail.TOO_FEW
    many = [*USUAL[:34], *[late] * 6]
    assert kind_of(tail_answer(slow, many).withheld) is NoTail.USUAL


def test_a_process_that_the_holder_of_a_lock_waited_for_is_told_by_what_kept_it() -> None:
    one: Spent = {
        ("lock", held_by(waited_in("futex 0x40", "ask", lock=True), "server")): 900.0,
        ("running", "server"): 40.0,
    }
    held: Spent = {("process", waited_in("peer", "ask")): 890.0}
    stopped: Spent = {("process", "stopped by a signal, or frozen"): 880.0}
    found = tail_answer([one] * 10, USUAL, held=[held] * 10, beyond=[stopped] * 10)
    assert found.holder == "process (peer, in ask)"
    assert found.further == "process (stopped by a signal, or frozen)"
    computes: Spent = {("running", ran_in("server", "crunch")): 890.0}
    assert tail_answer([one] * 10, USUAL, held=[computes] * 10, beyond=[stopped] * 10).further == ""


def rows(slow_every_ns: int) -> Any:
    made = np.zeros(400, REQUEST)
    made["arrived"] = np.arange(400) * 1_000_000 + 137_000 * (np.arange(400) % 7)
    slow = np.arange(0, 400_000_000, slow_every_ns) // 1_000_000
    made["sent"] = made["arrived"] + 50_000
    made["sent"][slow] += 3_000_000
    made["bytes_out"] = 60
    made["kind"] = np.arange(400) % 3
    made["kind"][slow] = 3
    return made


def test_slow_requests_have_their_kind_and_their_period_in_common() -> None:
    table = rows(20_000_000)
    tail = np.flatnonzero(table["kind"] == 3).tolist()
    median = np.flatnonzero(table["kind"] != 3).tolist()
    spent = ([RUNS] * len(tail), [USUAL[0]] * len(median))
    found = traits_of(table, tail, median, spent, ("A", "B", "C", "KEYS"), ("port",), lambda _: 0)
    said = {one.what: one for one in found}
    assert said["kind"].value == "KEYS"
    assert abs(said["period"].amount - 20_000_000) < 400_000
    assert set(said) == {"kind", "period"}


def test_slow_requests_that_are_like_the_others_have_nothing_in_common() -> None:
    table = rows(20_000_000)
    chosen = np.random.default_rng(3).permutation(400)
    tail, median = chosen[:20].tolist(), chosen[20:].tolist()
    spent = ([USUAL[0]] * 20, [USUAL[0]] * 380)
    assert traits_of(table, tail, median, spent, ("A", "B", "C", "KEYS"), ("port",), lambda at: at % 2) == ()


def test_the_slowest_may_hold_the_lock_that_the_others_wait_for() -> None:
    waits: Spent = {("lock", waited_in("futex 0x40", "hold", lock=True)): 900.0, ("running", "server"): 40.0}
    held: Spent = {("running", ran_in("server", "rebuild")): 800.0}
    around = tail_answer([{("running", ran_in("server", "rebuild")): 1_500.0}] * 10, USUAL)
    hundredth = tail_answer([waits] * 90, USUAL, held=[held] * 90)
    assert holding(around, hundredth).kind == "lock"
    asleep = tail_answer([waits] * 90, USUAL, held=[{("timer", ""): 800.0}] * 90)
    assert holding(around, asleep).kind == "running"
    few = tail_answer([waits] * 3, USUAL)
    assert holding(few, hundredth) is hundredth
    assert holding(around, few) is around


SERVE = waited_in("futex 0x40", "serve", lock=True)


def test_a_file_whose_name_looks_like_a_place_keeps_it() -> None:
    odd = "/data/sales, in 2026/book"
    commits: Spent = {("disk", odd): 300.0, ("running", ran_in("python", "2026/book")): 640.0}
    assert "runs beside it" not in tail_answer([commits] * 10, USUAL).where
    tail: list[Spent] = [{("disk", waited_in(odd, name)): 900.0} for name in "abcdefghij"]
    assert tail_answer(tail, USUAL).where == odd
    assert function_of(waited_in(odd, "store")) == "store"
    assert function_of(odd) == ""


def test_a_function_that_others_call_is_told_without_them_where_they_differ() -> None:
    tail: list[Spent] = [
        {("running", ran_in("a", in_function("copy", name))): 900.0} for name in "abcdefghij"
    ]
    assert tail_answer(tail, USUAL).where == "a in copy"
    assert tail_answer(tail[:1] * 10, USUAL).where == "a in copy, called by a"


def test_a_place_is_told_without_its_function_where_that_differs() -> None:
    tail: list[Spent] = [{("lock", held_by(SERVE, ran_in("server", name))): 900.0} for name in "abcdefghij"]
    assert tail_answer(tail, USUAL).where == "futex 0x40 in serve, held by server"
    assert tail_answer(tail[:1] * 10, USUAL).where == "futex 0x40 in serve, held by server in a"
    tail = [{("lock", held_by(SERVE, ran_in(name, name))): 900.0} for name in "abcdefghij"]
    assert tail_answer(tail, USUAL).where == "futex 0x40 in serve"
    tail = [
        {("lock", held_by(waited_in("futex 0x40", name, lock=True), name)): 900.0} for name in "abcdefghij"
    ]
    assert tail_answer(tail, USUAL).where == "futex 0x40"
    tail = [{("disk", waited_in("fsync", name)): 900.0} for name in "abcdefghij"]
    assert tail_answer(tail, USUAL).where == "fsync"


def test_several_threads_that_had_the_cpus_together_are_told_with_their_shares() -> None:
    had = [said(Occupant.HAD, name=name) for name in ("backup", "indexer", "a", "b", "c", "d")]
    tail: list[Spent] = [{("running", "server"): 40.0, ("runnable", had[at % 2]): 900.0} for at in range(10)]
    found = tail_answer(tail, USUAL)
    assert found.where == "backup 50 % and indexer 50 % had the CPU"
    # One that has not nearly all of it isn't given the others' part.
    many: list[Spent] = [{("runnable", had[at]): 450.0 / (1 + at) ** 1.7 for at in range(6)}] * 10
    assert tail_answer(many, USUAL).where == "backup 63 %, indexer 19 % and 4 others had the CPU"
    mostly: list[Spent] = [
        {("runnable", had[0]): 600.0, ("runnable", had[1]): 300.0, ("running", "server"): 40.0}
    ] * 10
    assert tail_answer(mostly, USUAL).where == "backup 67 % and indexer 33 % had the CPU"
    nobody: list[Spent] = [
        {("runnable", had[0]): 500.0, ("runnable", said(Occupant.NOBODY)): 400.0, ("running", "server"): 40.0}
    ] * 10
    assert tail_answer(nobody, USUAL).where == "backup 56 % and no thread 44 % had the CPU"


def test_many_of_which_none_had_the_cpus_for_most_of_the_time_are_no_cause() -> None:
    # As in benchmarks/requests_unseen/plain_node, in which nothing is planted.
    shares = {"core-tests": 530.0, "bash": 300.0, "kdamond.0": 188.0, "node": 110.0, "a": 71.0, "b": 61.0}
    slow: Spent = {("runnable", said(Occupant.HAD, name=name)): ns for name, ns in shares.items()}
    found = tail_answer([{**slow, ("running", "node"): 40.0}] * 10, USUAL)
    assert (kind_of(found.withheld), found.where) == (NoTail.NO_CPU, "")
    # Two that share the CPUs between them are told.
    pair: Spent = {
        ("runnable", said(Occupant.HAD, name=name)): ns for name, ns in (("a", 440.0), ("b", 430.0))
    }
    other: Spent = {**pair, ("runnable", said(Occupant.HAD, name="c")): 60.0, ("running", "server"): 40.0}
    assert tail_answer([other] * 10, USUAL).where == "a 47 % and b 46 % had the CPU"


def test_who_had_the_cpus_is_not_told_where_it_is_not_known_of_too_much() -> None:
    nobody: list[Spent] = [{("runnable", said(Occupant.NOBODY)): 300.0, ("runnable", ""): 600.0}] * 10
    assert kind_of(tail_answer(nobody, USUAL).withheld) is NoTail.NO_CPU
