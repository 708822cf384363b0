"""The file that a diagnosis is asked by."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from latlab.errors import InputError
from latlab.lab.diagnosis.question import OBSERVED_S, read_question
from latlab.lab.trading.feeds import require_file


def written(folder: Path, text: str) -> Path:
    path = folder / "question.toml"
    path.write_text(text)
    return path


def test_everything_has_a_default(tmp_path: Path) -> None:
    question = read_question(written(tmp_path, ""))

    assert question.layout is not None
    assert question.budget_s == 180.0
    assert question.objective is None


def test_what_is_known_is_read(tmp_path: Path) -> None:
    question = read_question(
        written(
            tmp_path,
            '[diagnose]\nseconds = 2\nbudget_s = 60\nstages = ["book"]\n'
            'objective = { "p99.9_ns" = 500_000 }\ninput = "day.itch"\n[stages.book]\ncount = 3\n',
        )
    )

    assert (question.seconds, question.budget_s, question.stages) == (2.0, 60.0, ("book",))
    assert question.input == tmp_path / "day.itch"
    assert question.objective is not None
    assert (question.objective.quantile, question.objective.limit_ns) == (0.999, 500_000)
    assert question.layout is not None
    assert question.layout.stages["book"].count == 3


def test_a_command_of_ones_own_has_no_layout(tmp_path: Path) -> None:
    question = read_question(written(tmp_path, '[diagnose]\ncommand = ["./app", "--fast"]\n'))

    assert question.layout is None
    assert question.command == ("./app", "--fast")
    assert question.seconds == OBSERVED_S


def test_components_are_read_where_the_command_is_given_beside_the_file(tmp_path: Path) -> None:
    question = read_question(written(tmp_path, '[diagnose.components]\nstore = "work:store"\n'))

    assert question.components == {"store": "work:store"}


def test_an_input_that_is_missing_is_named_by_the_file_and_key_that_name_it(tmp_path: Path) -> None:
    path = written(tmp_path, '[diagnose]\ninput = "no-such.itch"\n')
    question = read_question(path)
    assert question.input is not None

    with pytest.raises(InputError) as raised:
        require_file(question.input, question.input_from)

    assert str(raised.value).startswith(f"{path}: diagnose.input: there is no file '{tmp_path}/no-such.itch'")


def test_a_command_is_observed_for_as_long_as_the_file_says(tmp_path: Path) -> None:
    question = read_question(written(tmp_path, '[diagnose]\ncommand = ["./app"]\nseconds = 7\n'))

    assert question.seconds == 7.0


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[diagnose]\nsecond = 2\n", "diagnose.second"),
        ("[diagnose]\nseconds = 'x'\n", "diagnose.seconds"),
        ('[diagnose]\nstages = ["bok"]\n', "diagnose.stages"),
        ('[diagnose]\nobjective = { "p12" = 3 }\n', "diagnose.objective"),
        ('[diagnose]\nobjective = { "p99_ns" = -3 }\n', "diagnose.objective.p99_ns"),
        ('[diagnose]\ncommand = "app"\n', "diagnose.command"),
        ('[diagnose]\ncommand = ["app"]\n[stages.book]\ncount = 2\n', "stages"),
    ],
)
def test_what_it_does_not_understand_is_named_by_file_and_key(tmp_path: Path, text: str, place: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(InputError) as raised:
        read_question(path)

    assert str(raised.value).startswith(f"{path}: {place}")


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ('[diagnose]\nstages = ["nosuch"]\n', "name one of: decoder, market"),
        ('[diagnose]\nobjective = { "p98_ns" = 5 }\n', 'write objective = { "p99.9_ns" = 500_000 }'),
        ('[diagnose]\ncommand = "python app.py"\n', 'write command = ["…", "…"]'),
    ],
)
def test_a_refusal_says_in_words_what_to_write(tmp_path: Path, text: str, remedy: str) -> None:
    with pytest.raises(InputError, match=re.escape(remedy)):
        read_question(written(tmp_path, text))
