"""What a diagnosis says of a server that answered too few requests to tell of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from latlab.lab.diagnosis.applications import thread_capture
from latlab.lab.diagnosis.next_commands import of_requests
from latlab.lab.diagnosis.question import Question
from latlab.requests import Found
from latlab.requests.connections import REQUEST


@pytest.mark.parametrize(("seen", "told"), [(13, 13), (3, 3), (2, 0), (0, 0)])
def test_of_a_server_with_too_few_requests_their_number_is_kept(
    seen: int, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Found(np.zeros(seen, REQUEST), ("80",), ("GET /",))
    monkeypatch.setattr("latlab.requests.find_requests", lambda *_: found)
    moved: Any = [object()]
    given: Any = None
    assert thread_capture._requests(moved, given) == {"requests": None, "few_requests": told}
    assert thread_capture._requests([], given) == {"requests": None, "few_requests": 0}


def test_too_few_requests_are_told_with_how_long_to_observe_for_enough() -> None:
    said = of_requests(Question(pid=4711, seconds=6), 13)
    assert said.what == "where slow requests spend their time: 13 requests were seen, too few to tell"
    assert said.command == "latlab requests record --seconds 50 -o run --pid 4711"
    command = of_requests(Question(command=("./server", "80"), seconds=6), 3).command
    assert command == "latlab requests record --seconds 200 -o run -- ./server 80"
