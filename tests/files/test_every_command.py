"""The table of calls has every command, so that what is tested by it is tested of a new command, too."""

from __future__ import annotations

from every_command import CALLABLE, CALLS


def test_the_table_of_calls_has_a_row_for_every_command_and_no_other() -> None:
    assert sorted(CALLS) == CALLABLE
