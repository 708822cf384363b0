"""What tasks say of their waits at a counted asyncio.Queue."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from latlab._core import counting
from latlab.queues._inject.latlab_injected import waits
from latlab.queues.count import counted, tasks


class FakeStage:
    """A stage's place, as a list of what it was told."""

    made: ClassVar[list[FakeStage]] = []

    def __init__(self, *, type: str, name: str, wait: int) -> None:  # noqa: A002
        self.name, self.said = name, list[str]()
        self.task = asyncio.current_task()
        FakeStage.made.append(self)

    def count(self) -> None: ...

    def busy(self) -> None:
        self._enter("busy")

    def idle(self) -> None:
        self._enter("idle")

    def blocked(self) -> None:
        self._enter("blocked")

    def _enter(self, state: str) -> None:
        if self.said[-1:] != [state]:
            self.said.append(state)


class FakeSlot:
    """A queue's place, which counts nothing."""

    def put_one(self) -> None: ...

    def get_one(self) -> None: ...


@pytest.fixture(autouse=True)
def nothing_published(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(counted, "slot_of", lambda *_, **__: FakeSlot())
    monkeypatch.setattr(tasks, "note_holds", lambda: None)
    monkeypatch.setattr(tasks, "_times", weakref.WeakKeyDictionary())
    monkeypatch.setattr(counting, "Stage", FakeStage)
    FakeStage.made = []
    yield
    FakeStage.made = []


def told() -> list[tuple[str, list[str]]]:
    return [(stage.name, stage.said) for stage in FakeStage.made]


def letters(capacity: int = 4, *, held: int = 0) -> Any:
    made = tasks.AsyncQueue(capacity, name="letters", source="postbox", drain="reader")
    for n in range(held):
        made.put_nowait(n)
    return made


def notes() -> Any:
    return tasks.AsyncQueue(1, name="notes", source="reader", drain="archiver")


def test_every_task_that_takes_from_a_full_queue_tells_its_waits_for_room() -> None:
    async def use() -> None:
        full, behind = letters(20, held=20), notes()

        async def reader() -> None:
            while True:
                await behind.put(await full.get())

        readers = [asyncio.create_task(reader()) for _ in range(3)]
        for _ in range(8):
            await asyncio.sleep(0)
            await behind.get()
        await asyncio.sleep(0)
        for one in readers:
            one.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

    asyncio.run(use())
    waits = [said for name, said in told() if name == "reader"]
    assert len(waits) == 3
    assert all("blocked" in said for said in waits)


def test_a_task_that_takes_a_single_event_is_no_stage() -> None:
    async def use() -> None:
        q = letters()

        async def reader() -> None:
            await q.get()

        for full in (True, True, False, False):
            if full:
                q.put_nowait(1)
            else:
                asyncio.get_running_loop().call_soon(q.put_nowait, 1)
            await asyncio.create_task(reader())

    asyncio.run(use())
    assert told() == []


def test_a_task_whose_wait_for_an_event_ended_in_vain_is_busy_when_it_has_the_next() -> None:
    async def use() -> None:
        q = letters()
        for _ in range(3):
            q.put_nowait(1)
            await q.get()
        wait = asyncio.create_task(asyncio.sleep(0))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await q.get()
        await wait
        q.put_nowait(1)
        await q.get()

    asyncio.run(use())
    assert told() == [("reader", ["busy", "idle", "busy"])]


def test_a_task_whose_wait_for_room_was_cut_short_works_on() -> None:
    async def use() -> None:
        q, behind = letters(), notes()
        for _ in range(3):
            q.put_nowait(1)
            await q.get()
        behind.put_nowait(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await behind.put(2)

    asyncio.run(use())
    assert told() == [("reader", ["busy", "blocked", "busy"])]


def test_what_a_task_waits_for_by_another_task_is_its_own_wait() -> None:
    async def use() -> None:
        q, behind = letters(held=4), notes()

        async def reader() -> None:
            while True:
                item = await asyncio.create_task(q.get())
                await asyncio.create_task(behind.put(item))

        working = asyncio.create_task(reader())
        for _ in range(20):
            await asyncio.sleep(0)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    asyncio.run(use())
    assert told() == [("reader", ["busy", "blocked", "busy"])]


def test_get_and_put_are_coroutine_functions() -> None:
    assert asyncio.iscoroutinefunction(tasks.AsyncQueue.get)
    assert asyncio.iscoroutinefunction(tasks.AsyncQueue.put)


class Counts:
    """What is said at a queue that is counted by injection."""

    def __init__(self, user: Any) -> None:
        self.user, self.waited = user, list[Any]()

    def waits(self, for_event: bool) -> None:
        self.waited.append((self.user(), for_event))

    def found_nothing(self) -> None: ...


def test_injected_who_waits_by_a_task_of_its_own_is_the_one_that_called() -> None:
    class Injected(asyncio.Queue[Any]):
        _latlab_counts: Any = None

    def user() -> Any:
        return waits.user_of(asyncio.current_task())

    waits.patch_tasks(Injected, user)

    async def use() -> None:
        q = Injected(1)
        q._latlab_counts = Counts(user)
        me = asyncio.current_task()
        get = asyncio.create_task(q.get())
        await asyncio.sleep(0)
        await q.put(1)
        await get
        await q.put(2)
        put = asyncio.create_task(q.put(3))
        await asyncio.sleep(0)
        await q.get()
        await put
        assert q._latlab_counts.waited == [(me, True), (me, False)]

    asyncio.run(use())
    assert asyncio.iscoroutinefunction(Injected.get)
