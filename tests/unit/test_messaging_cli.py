from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from latlab.cli.messaging import messaging
from latlab.errors import ExitCode, UsageError
from latlab.messaging import analyse
from latlab.messaging._limit import RateLimit, RateProbe
from latlab.model.messaging.options import settings_of
from latlab.model.messaging.results import Facts, Measurement, Settings, Side


def measured(settings: Settings) -> Measurement:
    sent = np.arange(settings.total) * 1000
    return Measurement(
        settings=settings, facts=Facts("ring", "a ring", True, True, 1 << 20, "here", "native"),
        sent_ns=sent, received_ns=sent + 500, intended_ns=None, kernel_ns=None,
        sender=Side(count=settings.total), receiver=Side(count=settings.total),
        sender_samples=np.zeros((0, 3), dtype=np.int64), receiver_samples=np.zeros((0, 5), dtype=np.int64),
        broker_cpu_ns=None, process_cpu_ns=0, foreign_cpu_ns=None, elapsed_ns=1, network_bytes=None,
        ticks_hz=1e9, harness_ns=(1.0, 1.0, 1.0), bytes_per_message=16.0, locked=True, wait="poll",
    )  # fmt: skip


@pytest.mark.parametrize("more", [[], ["--sweep", "size=1,2"]])
def test_a_full_disk_loses_no_figure_of_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: list[str]
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def run(settings: Settings, told: Any = None) -> Any:
        m = measured(settings)
        return m, analyse(m)

    monkeypatch.setattr("latlab.messaging.save_run", full)
    monkeypatch.setattr("latlab.messaging.measure_and_analyse", run)
    monkeypatch.setattr("latlab.messaging._experiments.measure_and_analyse", run)
    order = ["run", "--transport", "ring", "--messages", "50", "--json", "-o", str(tmp_path / "kept")]
    done = CliRunner().invoke(messaging, [*order, *more], standalone_mode=False)
    document = json.loads(done.stdout)
    assert [one["received"] for one in document.get("points", [document])] == [50] * (2 if more else 1)
    assert "No space left on device" in done.stderr
    assert done.return_value == ExitCode.FAILED


@pytest.mark.parametrize(("option", "value"), [("messages", "5x"), ("rate", "fast"), ("buffer", "much")])
def test_a_value_that_means_nothing_is_told_with_its_option(option: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"^{option}: '{value}' isn't a size or count; write 64"):
        settings_of({"transport": "tcp", option: value})


@pytest.mark.parametrize(("quiet", "code"), [(True, ExitCode.FAILED), (False, ExitCode.NOT_TRUSTWORTHY)])
def test_where_not_even_the_lowest_rate_holds_it_is_said_which_one_that_was(
    monkeypatch: pytest.MonkeyPatch, quiet: bool, code: ExitCode
) -> None:
    fails = RateProbe(200.0, 30_000_000, False, "p99 is above the objective", not quiet)
    nothing = RateLimit(None, 200.0, 0, 1, 0.0, (fails,))
    monkeypatch.setattr("latlab.messaging.find_limit", lambda *_args, **_kw: nothing)
    order = ["find-limit", "--transport", "tcp", "--objective", "p99<20ms", "--low", "200"]
    done = CliRunner().invoke(messaging, order, standalone_mode=False)
    assert done.stdout == "p99<20ms does not hold at 200 messages/s, the lowest rate tried\n"
    assert done.return_value == code
