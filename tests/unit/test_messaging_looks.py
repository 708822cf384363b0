from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from latlab.messaging.judging.looks import Looks


def test_a_look_that_a_signal_ends_is_not_kept_in_part(tmp_path: Path) -> None:
    schedstat = tmp_path / "schedstat"
    schedstat.write_text("100 20 3")
    interrupted = False

    def threads() -> Iterable[str]:
        if interrupted:
            raise KeyboardInterrupt
        return [str(schedstat)]

    looks = Looks({"sender": list, "receiver": threads}, {})
    looks.take()
    schedstat.write_text("300 70 5")
    looks.take()
    interrupted = True
    with pytest.raises(KeyboardInterrupt):
        looks.take()
    rows = looks.since(0)
    assert {name: len(values) for name, values in rows.items()} == dict.fromkeys(
        ("at_ns", "sender", "receiver", "throttled", "stopped"), 2
    )
    assert rows["receiver"] == (0, 50)
