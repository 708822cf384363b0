from __future__ import annotations

import json

import pytest
from tests.files import started


def latlab(*arguments: str, code: int = 0) -> str:
    done = started.latlab("system", *arguments)
    assert done.returncode == code, done.stderr
    return done.stdout or done.stderr


@pytest.mark.side_by_side
def test_show_says_what_is_unavailable() -> None:
    facts = json.loads(latlab("show", "--json"))["facts"]
    assert "kernel.release" in facts
    assert all(("value" in fact) != ("unavailable" in fact) for fact in facts.values())


@pytest.mark.side_by_side
def test_check_judges_every_setting() -> None:
    document = json.loads(latlab("check", "--json"))
    assert document["schema"] == 1
    assert {"governor", "real-time limit", "steal time"} <= {one["name"] for one in document["settings"]}
    assert "settings disturb measurements" in latlab("check")


def test_clocks_are_measured_and_one_is_recommended() -> None:
    document = json.loads(latlab("clocks", "--json"))
    names = {one["name"] for one in document["clocks"]}
    assert {"TSC", "CLOCK_MONOTONIC_RAW", "getrusage", "time.perf_counter_ns"} <= names
    assert set(document["use"].values()) <= names


@pytest.mark.side_by_side
def test_tune_is_a_dry_run_by_default() -> None:
    document = json.loads(latlab("tune", "--for", "jitter", "--json"))
    assert document["applied"] is False
    assert "applied" not in {one["outcome"] for one in document["changes"]}


@pytest.mark.side_by_side
def test_a_dry_run_runs_no_command() -> None:
    assert "a dry run runs no command" in latlab("tune", "--", "true", code=2)
