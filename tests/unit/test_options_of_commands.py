"""One kit of options over all commands: what is spelled the same means the same, and each has its help."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from functools import cache

import click
import pytest
from click.testing import CliRunner

from latlab.cli._main import latlab, main
from latlab.cli.kit.options import Count, CpuList, Duration, Seconds, Share, renamed
from latlab.model.messaging.options import cpus_of


def every(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from every(inner, (*path, name))


@cache
def commands() -> dict[str, click.Command]:
    return dict(every(latlab, ("latlab",)))


def options(spelling: str | None = None) -> dict[str, click.Option]:
    return {
        f"{name} {parameter.opts[-1]}": parameter
        for name, command in commands().items()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        if spelling is None or spelling in parameter.opts
    }


def test_every_option_of_every_command_has_a_sentence_of_help() -> None:
    assert len(options()) > 400
    bad = {
        name: option.help
        for name, option in options().items()
        if not re.match(r"[A-Z`'\"]|\w+: |SCHED_FIFO", option.help or "") or option.help[-1] not in ".])"  # type: ignore[index]
    }
    assert bad == {}


def test_every_command_says_what_it_does() -> None:
    assert [name for name, command in commands().items() if not (command.help or "").strip()] == []


def test_seconds_are_seconds_everywhere_with_or_without_their_unit() -> None:
    found = options("--seconds") | options("--timeout") | options("--duration")
    assert len(found) > 20
    for name, option in found.items():
        assert isinstance(option.type, Seconds), name
        assert [option.type.convert(text, option, None) for text in ("5", "5s", "5000ms")] == [5.0] * 3, name


def test_every_command_that_ends_with_a_result_has_it_as_json() -> None:
    # What serves or draws until it is stopped, and a line for a shell.
    without = {"completion", "dashboard", "messaging broker", "queues serve", "queues top"}
    leaves = {name for name, one in commands().items() if not isinstance(one, click.Group)}
    found = {name for name in leaves if f"{name} --json" not in options("--json")}
    assert found == {f"latlab {name}" for name in without}


def test_json_is_asked_for_in_one_wording() -> None:
    found = options("--json")
    assert len(found) > 50
    assert {
        name: o.help for name, o in found.items() if not str(o.help).startswith("Print the result as JSON")
    } == {}
    assert {name: o.name for name, o in found.items() if not o.is_flag} == {}


def test_what_is_written_is_named_by_one_option() -> None:
    # `latlab jitter` alone keeps the letters of the test that it follows: there -o bounds the outliers.
    other = [name for name, one in options("-o").items() if "--output" not in one.opts]
    assert other == ["latlab jitter --outbuf"]


@pytest.mark.parametrize("path", [name for name, one in commands().items() if isinstance(one, click.Group)])
def test_an_unknown_command_is_answered_with_the_nearest(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group = commands()[path]
    assert isinstance(group, click.Group)
    name = max(group.list_commands(click.Context(group)), key=len)
    with pytest.raises(SystemExit) as left:
        main([*path.split()[1:], name[:-1] + "_"])
    assert left.value.code == 2
    assert capsys.readouterr().err.endswith(f"; did you mean '{name}'?\n")  # a remedy is enough


@pytest.mark.parametrize(
    "path", ["", "bench run", "jitter", "queues record", "messaging run", "stubs play", "market inside"]
)
def test_an_unknown_option_is_answered_with_the_nearest(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([*path.split(), "--hepl"])
    assert left.value.code == 2
    assert capsys.readouterr().err.endswith("unknown option '--hepl'; did you mean '--help'?\n")


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("completion fsh", "fish"),
        ("stubs play --pace shedule x", "schedule"),
        ("stubs play --pace loop x", ""),
    ],
)
def test_a_value_that_is_none_of_an_options_words_is_answered_with_the_nearest(
    typed: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(typed.split())
    assert left.value.code == 2
    remedy = f"; did you mean '{near}'?" if near else " --help'"
    assert capsys.readouterr().err.endswith(f"{remedy}\n")


def test_an_old_spelling_works_and_prints_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    command = commands()["latlab jitter"]
    with command.make_context("latlab jitter", ["--fifo", "7"], resilient_parsing=False) as ctx:
        assert ctx.params["priority"] == 7
    assert "--fifo is now --priority" in capsys.readouterr().err
    with command.make_context("latlab jitter", ["--priority", "8"]) as ctx:
        assert ctx.params["priority"] == 8
    assert capsys.readouterr().err == ""


def test_cpu_lists_are_read_as_the_kernel_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latlab.system.cpus.online_cpus", lambda: list(range(8)))
    for name, option in options("--cpus").items():
        if "messaging" in name:  # who has which: of them `cpus_of` reads a range
            continue
        assert isinstance(option.type, CpuList), name
        assert option.type.convert("0-2,4", option, None) == (0, 1, 2, 4), name
    assert cpus_of("0-2") == (0, 1, 2)


# The types whose values are numbers; what else there is are texts, paths, choices and lists of CPUs.
NUMBERS = (click.types.IntParamType, click.types.FloatParamType, Count, Duration, Seconds, Share)


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e400", "9" * 30, "-1", "-0.5", ""])
def test_no_option_takes_a_number_that_is_endless_negative_or_larger_than_the_core_holds(text: str) -> None:
    numbers = {name: option for name, option in options().items() if isinstance(option.type, NUMBERS)}
    assert len(numbers) > 150
    taken = {}
    for name, option in numbers.items():
        ctx = click.Context(commands()[name.rpartition(" ")[0]])
        with contextlib.suppress(click.UsageError):
            taken[name] = option.process_value(ctx, [text] if option.multiple else text)
    assert taken == {}


RENAMED = {
    "queues record": "--budget --cpu-share",
    "queues simulate": "--speed --faster",
    "messaging compare": "--threshold --effect",
    "market stats": "--scheduler --dask",
    "stubs load": "--memory --memory-rate",
}


@pytest.mark.parametrize(("path", "spellings"), RENAMED.items())
def test_an_option_that_meant_something_else_elsewhere_has_a_name_of_its_own(
    path: str, spellings: str
) -> None:
    old, new = spellings.split()
    shown = {
        spelling: one.hidden
        for one in commands()[f"latlab {path}"].params
        if isinstance(one, click.Option)
        for spelling in one.opts
    }
    assert (shown[new], shown[old]) == (False, True)


def test_a_default_gives_way_to_the_old_spelling() -> None:
    @click.command()
    @renamed("--effect", "--threshold", type=float, default=0.05)
    @renamed("--faster", "--speed", "speeds", multiple=True)
    def one(effect: float, speeds: tuple[str, ...]) -> None:
        click.echo((effect, speeds))

    def said(*arguments: str) -> tuple[str, str]:
        done = CliRunner().invoke(one, arguments)
        return done.stdout, done.stderr

    assert said() == ("(0.05, ())\n", "")
    assert said("--effect", "0.1", "--faster", "a=2") == ("(0.1, ('a=2',))\n", "")
    assert said("--threshold", "0.2", "--speed", "a=2") == (
        "(0.2, ('a=2',))\n",
        "one: --threshold is now --effect\none: --speed is now --faster\n",
    )
