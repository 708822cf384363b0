from __future__ import annotations

import numpy as np
import pytest

from latlab.queues.sample.scheduler import FUTEX, FUTEX_END, SWITCH, WAKING, ThreadStates

STAGE, HOG, OWNER = 10, 20, 30
NAMES = {STAGE: "stage", HOG: "hog", OWNER: "owner"}


def threads(*rows: tuple[int, int, int, int, int]) -> ThreadStates:
    """Rows of t_ns, event, tid, other, value; all on CPU 3."""
    names = ("t_ns", "event", "tid", "other", "value")
    columns = {name: np.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    return ThreadStates({**columns, "cpu": np.full(len(rows), 3)}, NAMES)


def test_a_thread_that_another_took_the_cpu_from_was_ready_and_says_by_whom() -> None:
    seen = threads((0, SWITCH, 0, STAGE, 0), (100, SWITCH, STAGE, HOG, 0), (900, SWITCH, HOG, STAGE, 1))
    share = seen.share(STAGE, 50, 1_000)
    assert share is not None
    assert (share.ran_ns, share.run_queue_ns, share.asleep_ns) == (150, 800, 0)
    assert share.cpu_held_by == "hog (20)"


def test_a_thread_that_waits_for_a_lock_slept_in_a_futex_until_its_owner_woke_it() -> None:
    seen = threads(
        (0, SWITCH, 0, STAGE, 0),
        (90, FUTEX, STAGE, 0, 0xABC),
        (100, SWITCH, STAGE, 0, 1),
        (700, WAKING, STAGE, OWNER, 0),
        (720, SWITCH, 0, STAGE, 0),
        (725, FUTEX_END, STAGE, 0, 0),
        (800, SWITCH, STAGE, 0, 1),
    )
    share = seen.share(STAGE, 0, 800)
    assert share is not None
    assert (share.futex_ns, share.wake_up_ns, share.ran_ns) == (600, 20, 180)
    assert share.woken_by == "owner (30)"
    assert (share.run_queue_ns, share.cpu_held_by) == (20, "")
    # Out of the futex again, it sleeps for something else.
    later = seen.share(STAGE, 800, 900)
    assert later is not None
    assert (later.futex_ns, later.asleep_ns) == (0, 100)


def test_the_shares_of_a_stretch_add_up_to_it() -> None:
    seen = threads(
        (0, SWITCH, 0, STAGE, 0),
        (10, SWITCH, STAGE, HOG, 0),
        (35, SWITCH, HOG, STAGE, 0),
        (50, SWITCH, STAGE, HOG, 2),
        (80, WAKING, STAGE, 0, 0),
        (85, SWITCH, HOG, STAGE, 0),
    )
    share = seen.share(STAGE, 5, 100)
    assert share is not None
    parts = (share.ran_ns, share.run_queue_ns, share.futex_ns, share.asleep_ns)
    assert (sum(parts), parts) == (95, (35, 30, 0, 30))
    assert share.wake_up_ns == 5
    assert share.woken_by == "an interrupt"


def test_nothing_is_said_of_a_thread_before_its_first_event_or_of_one_that_never_ran() -> None:
    seen = threads((100, SWITCH, 0, STAGE, 0))
    assert seen.share(STAGE, 0, 50) is None
    assert seen.share(HOG, 0, 50) is None
    assert seen.share(STAGE, 100, 100) is None


@pytest.mark.parametrize(
    ("events", "end", "waited", "woken_late", "held_by"),
    [
        pytest.param(
            [(0, SWITCH, 0, STAGE, 0), (10, SWITCH, STAGE, HOG, 1),
             (40, WAKING, STAGE, OWNER, 0), (90, SWITCH, HOG, STAGE, 1)],
            100, 50, 50, "hog (20)", id="who had it when the thread was woken",
        ),
        pytest.param(
            [(0, SWITCH, 0, STAGE, 0), (10, SWITCH, STAGE, HOG, 0),
             (90, SWITCH, HOG, OWNER, 0), (95, SWITCH, OWNER, STAGE, 1)],
            100, 85, 0, "hog (20)", id="who had it for longest, and not who left it last",
        ),
        pytest.param(
            [(0, SWITCH, STAGE, 0, 1), (40, WAKING, STAGE, OWNER, 0), (45, SWITCH, 0, STAGE, 0)],
            50, 5, 5, "", id="no thread where it was idle",
        ),
    ],
)  # fmt: skip
def test_a_cpu_that_a_thread_waits_for_was_held_by(
    events: list[tuple[int, int, int, int, int]], end: int, waited: int, woken_late: int, held_by: str
) -> None:
    share = threads(*events).share(STAGE, 0, end)
    assert share is not None
    assert (share.run_queue_ns, share.wake_up_ns, share.cpu_held_by) == (waited, woken_late, held_by)


def test_who_wakes_a_thread_is_named() -> None:
    seen = threads((0, SWITCH, 0, STAGE, 0), (10, SWITCH, STAGE, HOG, 1), (40, WAKING, STAGE, OWNER, 0))
    share = seen.share(STAGE, 0, 100)
    assert share is not None
    assert share.woken_by == "owner (30)"
