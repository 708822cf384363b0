"""`latlab diagnose` as a user runs it, on the pipeline and on applications of one's own.

Over 400 lines: one command, and a test of each thing that its users do with it.
"""

from __future__ import annotations

import html
import json
import re
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.files import started

from latlab.errors import ExitCode, UnavailableError
from latlab.schedule.collect import Collector
from latlab.words import count, duration, share

pytestmark = pytest.mark.timeout(300)  # a diagnosis is many runs, and this machine may be busy


def _untraceable() -> str | None:
    try:
        with Collector("auto"):
            return None
    except UnavailableError as error:
        return str(error)


REASON = _untraceable()
traced = pytest.mark.skipif(REASON is not None, reason=f"tracing: {REASON}")


latlab = partial(started.latlab, timeout=280)


APP = textwrap.dedent(
    """
    import queue, sys, threading, time
    from latlab.queues import instrument

    a = instrument(queue.Queue(64), name="a", source="reader", drain="parser")
    b = instrument(queue.Queue(64), name="b", source="parser", drain="writer")

    def busy(seconds):
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass

    def stage(source, drain, seconds):
        while (item := source.get()) is not None:
            if seconds:
                time.sleep(seconds)
            if drain is not None:
                drain.put(item)
        if drain is not None:
            drain.put(None)

    threads = [
        threading.Thread(target=stage, args=(a, b, 0)),
        threading.Thread(target=stage, args=(b, None, 0.002)),
    ]
    for thread in threads:
        thread.start()
    for number in range(int(sys.argv[1])):
        a.put(number)
    a.put(None)
    for thread in threads:
        thread.join()
    print("done")
    """
)


def the_forecast(answer: dict[str, Any]) -> dict[str, Any]:
    """The one that was made; a machine on which equal runs differ too much for it has none to test."""
    if not answer["forecasts"] and any("is withheld" in reason for reason in answer["distrust"]):
        pytest.skip("; ".join(answer["distrust"]))
    if any("does not fit" in step["detail"] for step in answer["steps"]):
        pytest.skip("this machine is too slow for the budget")
    (forecast,) = answer["forecasts"]
    return dict(forecast)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A diagnosis of the pipeline with 60 µs planted in the books, in as little time as it takes."""
    folder = tmp_path_factory.mktemp("diagnose") / "run"
    question = folder.parent / "question.toml"
    question.write_text('[diagnose]\nseconds = 0.8\nobjective = { "p99_ns" = 1_000 }\n')
    done = latlab(
        "diagnose", str(question), "--slow", "book=60000", "--budget", "55", "--json", "-o", str(folder)
    )
    assert done.returncode in (ExitCode.OK, ExitCode.NOT_TRUSTWORTHY), done.stderr
    return folder, json.loads(done.stdout)


def test_the_planted_stage_is_named_and_its_forecast_made(planted: tuple[Path, dict[str, Any]]) -> None:
    _, answer = planted

    assert answer["schema"] == 1
    assert answer["limiting_stage"] == "book"
    forecast = the_forecast(answer)
    assert (forecast["method"], forecast["stage"]) == ("stub", "book")
    assert "making `book` 20 % faster takes p99.9 from" in forecast["sentence"]


def test_without_its_planted_time_the_stage_carries_more(planted: tuple[Path, dict[str, Any]]) -> None:
    forecast = the_forecast(planted[1])

    flat = forecast["points"][-1]
    assert flat["speedup"] == 1.0
    assert flat["achieved"] > 0.9
    assert flat["capacity_hz"]["value"] > 2 * forecast["baseline"]["capacity_hz"]["value"]


def test_the_budget_sums_to_the_tail(planted: tuple[Path, dict[str, Any]]) -> None:
    budget = planted[1]["budget"]

    assert sum(part["ns"] for part in budget["parts"]) == pytest.approx(budget["total_ns"])
    assert {part["kind"] for part in budget["parts"]} == {"floor", "service", "waiting", "unexplained"}


def test_an_objective_that_is_missed_is_said(planted: tuple[Path, dict[str, Any]]) -> None:
    objective = planted[1]["objective"]

    assert objective["met"] is False
    assert objective["reached_ns"] > objective["limit_ns"]


def test_every_step_is_in_the_recording(planted: tuple[Path, dict[str, Any]]) -> None:
    folder, answer = planted

    saved = json.loads((folder / "answer.json").read_text())
    assert saved["limiting_stage"] == answer["limiting_stage"]
    assert [step["name"] for step in saved["steps"]] == [
        *("floor", "settings", "observation", "limiting stage", "budget", "slowest events", "forecast"),
    ]
    assert (folder / "observation" / "samples.arrows").exists()
    assert (folder / "report.html").read_text().count('href="#stages"') >= 1


def dead_links(report: Path) -> set[str]:
    """Links within a page that lead nowhere."""
    page = report.read_text()
    links = re.findall(r'href="#([^"]+)"', page)
    assert len(links) > 10
    return set(links) - set(re.findall(r'id="([^"]+)"', page))


def test_every_link_of_the_report_leads_to_a_view(planted: tuple[Path, dict[str, Any]]) -> None:
    assert dead_links(planted[0] / "report.html") == set()


def test_a_diagnosis_compared_with_itself_shows_no_change(planted: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = planted

    done = latlab("diagnose", "compare", str(folder), str(folder), "--json")

    assert done.returncode == ExitCode.OK, done.stderr
    found = json.loads(done.stdout)
    assert {change["verdict"] for change in found["changes"]} == {"same"}
    assert found["regression"] is False


@pytest.mark.smoke
def test_the_slow_stage_of_a_command_is_named(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP)

    command = ("diagnose", "--no-forecast", "--json", "-o", str(tmp_path / "run"))
    done = latlab(*command, "--", sys.executable, str(app), "2500")

    assert done.returncode in (ExitCode.OK, ExitCode.NOT_TRUSTWORTHY), done.stderr
    answer = json.loads(done.stdout)
    assert answer["limiting_stage"] == "writer"
    assert answer["budget"]["quantile"] is None
    assert dead_links(tmp_path / "run" / "report.html") == set()
    assert any("traces" in one["what"] for one in answer["unknown"])


def test_a_stage_whose_component_is_known_is_stubbed(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(
        "import time\n\ndef store(item):\n    until = time.thread_time() + 0.002\n"
        "    while time.thread_time() < until:\n        pass\n    return item\n"
    )
    (tmp_path / "app.py").write_text(
        "import queue, threading\nfrom latlab.queues import instrument\nimport work\n"
        'items = instrument(queue.Queue(16), name="items", source="read", drain="store")\n'
        "def store():\n    while (item := items.get()) is not None:\n        work.store(item)\n"
        "thread = threading.Thread(target=store)\nthread.start()\n"
        "for n in range(1, 400):\n    items.put(n)\nitems.put(None)\nthread.join()\n"
    )
    question = tmp_path / "question.toml"
    question.write_text(
        f'[diagnose]\ncommand = ["{sys.executable}", "app.py"]\nbudget_s = 30\n'
        '[diagnose.components]\nstore = "work:store"\n'
    )

    command = ("diagnose", str(question), "--stage", "store", "--json", "-o", str(tmp_path / "run"))
    done = latlab(*command, cwd=tmp_path)

    assert done.returncode in (ExitCode.OK, ExitCode.NOT_TRUSTWORTHY), done.stderr
    answer = json.loads(done.stdout)
    forecast = the_forecast(answer)
    assert (forecast["method"], forecast["stage"]) == ("stub", "store")
    assert forecast["points"][-1]["time_ns"]["value"] < 0.8 * forecast["baseline"]["time_ns"]["value"]


@pytest.mark.side_by_side
def test_a_diagnosis_is_printed_again_from_its_recording(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    said = latlab("diagnose", "--no-forecast", "-o", run, "--", "sleep", "0.5").stdout
    said, _, report = said.rpartition("\nreport: ")
    assert report == f"{run}/report.html\n"
    assert latlab("show", run).stdout == said
    again = json.loads(latlab("show", "--json", run).stdout)
    assert again["sentence"].split() == said.split()[: len(again["sentence"].split())]


def test_a_stage_of_an_unknown_component_is_forecast_by_a_model_alike_in_text_json_and_page(
    tmp_path: Path,
) -> None:
    app, run = tmp_path / "app.py", tmp_path / "run"
    app.write_text(APP)
    done = latlab("diagnose", "--stage", "writer", "-o", str(run), "--", sys.executable, str(app), "1500")

    assert done.returncode in (ExitCode.OK, ExitCode.NOT_TRUSTWORTHY), done.stderr
    answer = json.loads(latlab("show", "--json", str(run)).stdout)
    inline = re.sub(r"</?(a|abbr|b|code|em|i|span|strong)\b[^>]*>", "", (run / "report.html").read_text())
    page = re.sub(r"<[^>]*>", " ", inline)
    told = {"text": _plain(done.stdout), "page": _plain(html.unescape(page))}
    total, parts = answer["budget"]["total_ns"], answer["budget"]["parts"]
    rows = [
        f"{part['kind']} {part['where']} {duration(part['ns'])} {share(part['ns'] / total)}"
        for part in parts
        if part["ns"] > 0
    ]
    (forecast,) = answer["forecasts"]
    assert (forecast["method"], forecast["stage"]) == ("model", "writer")
    assert forecast["kind"] in ("total", "limited", "open")
    assert forecast["sentence"].startswith("by a model, making `writer` 20 % faster would take")
    assert forecast["points"][0]["rate_hz"]["value"] > 1.1 * forecast["baseline"]["rate_hz"]["value"]
    for point in (forecast["baseline"], *forecast["points"]):
        name = "as it is" if point["speedup"] is None else f"{share(point['speedup'], digits=0)} faster"
        bound = "≥ " if forecast["kind"] == "open" else ""
        rows.append(f"{name} {bound}{count(point['rate_hz']['value'])}")
    said = [answer["sentence"], forecast["sentence"][1:], *answer["evidence"], *answer["distrust"], *rows]
    (service,) = [part["ns"] for part in parts if (part["kind"], part["where"]) == ("service", "writer")]
    assert service == pytest.approx(forecast["service_ns"], rel=0.05)
    missing = {(where, one) for one in said for where, text in told.items() if _plain(one) not in text}
    assert missing == set()


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "").split())


def test_too_few_events_leave_the_answer_to_the_threads(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP.replace("0.002", "0.02"))  # few events, and long enough for its queues to be observed

    command = ("diagnose", "--no-forecast", "--json", "-o", str(tmp_path / "run"))
    done = latlab(*command, "--", sys.executable, str(app), "60")

    answer = json.loads(done.stdout)
    if answer["trustworthy"]:  # its writer sleeps
        assert (answer["verdict"], done.returncode) == ("timer", ExitCode.OK), done.stderr
        # That its queues could not tell is no evidence for what the threads name.
        assert any("slept otherwise" in one for one in answer["evidence"])
        assert not any("too few" in one or "does not support" in one for one in answer["evidence"])
    else:  # a full machine
        assert (answer["verdict"], done.returncode) == ("cannot tell", ExitCode.NOT_TRUSTWORTHY), done.stderr
    (tail,) = [one for one in answer["unknown"] if "traces" in one["what"]]
    assert subprocess.run(
        [sys.executable, "-m", *tail["command"].split()], capture_output=True, check=False, timeout=100
    ).returncode == 0  # fmt: skip


@pytest.mark.side_by_side
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('command = ["{python}", "app.py"]\n[diagnose.components]\nb = "nomodule:nofunc"\n',
         "diagnose.components.b: there is no module 'nomodule'"),
        ('input = "no-such.itch"\n', "diagnose.input: there is no file"),
    ],
)  # fmt: skip
def test_what_a_file_names_in_vain_is_refused_before_anything_is_measured(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "app.py").write_text(APP)
    question = tmp_path / "question.toml"
    question.write_text("[diagnose]\n" + text.replace("{python}", sys.executable))

    done = latlab("diagnose", str(question), "-o", str(tmp_path / "run"), cwd=tmp_path)

    assert done.returncode == ExitCode.FAILED
    assert f"{question}: {said}" in done.stderr
    assert "measuring" not in done.stderr
    assert not (tmp_path / "run").exists()


CHILD = """
import os, time
up, down = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(up[1])
    while os.read(up[0], 1):
        end = time.perf_counter() + 0.004
        while time.perf_counter() < end:
            pass
        os.write(down[1], b"x")
    os._exit(0)
for _ in range(250):
    os.write(up[1], b"x")
    os.read(down[0], 1)
os.close(up[1])
"""


@traced
def test_a_program_that_publishes_nothing_gets_an_answer_by_its_threads(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CHILD)
    done = latlab(
        "diagnose", "--json", "-o", str(tmp_path / "run"), "--", sys.executable, str(tmp_path / "app.py")
    )

    answer = json.loads(done.stdout)
    # On a loaded machine it may well be the CPUs; it is never the one that waits.
    assert answer["limit"]["kind"] in ("process", "cpu", "unknown")
    assert (answer["limit"]["kind"] == "unknown") == (done.returncode == ExitCode.NOT_TRUSTWORTHY)
    assert {"name", "count", "pids", "running", "runnable", "blocked"} <= set(answer["roles"][0])
    assert {"from", "to", "kind", "per_second", "waiting"} <= set(answer["edges"][0])
    assert "pipe" in {edge["kind"] for edge in answer["edges"]}
    assert "Threads" in (tmp_path / "run" / "report.html").read_text()


@traced
def test_a_running_process_is_observed_and_goes_on(tmp_path: Path) -> None:
    program = "import time\nwhile True: time.sleep(0.01)"
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        done = latlab(
            "diagnose", "--json", "--seconds", "1", "-o", str(tmp_path / "run"), "--pid", str(process.pid)
        )
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()

    assert json.loads(done.stdout)["limit"]["kind"] == "timer"
    assert done.returncode == ExitCode.OK


@pytest.mark.side_by_side
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--", "no-such-program"], "there is no program 'no-such-program'"),
        (["compare", "only-one"], "compare takes two diagnoses"),
        (["--slow", "bok=3"], "unknown stage 'bok'"),
        (["no-such.toml"], "no-such.toml"),
        (["--pid", "1", "--", "true"], "two targets"),
        (["--pid", "99999999"], "there is no process with this id"),
        (["--input", "no-such.itch"], "no-such.itch: there is no such file"),
        (["pyproject.toml.txt"], "there is no program 'pyproject.toml.txt'"),
        ([__file__], "is a file that can't be executed"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = latlab("diagnose", "-o", str(tmp_path / "run"), *arguments)

    assert "measuring" not in done.stderr
    assert not (tmp_path / "run").exists()

    assert done.returncode in (ExitCode.FAILED, ExitCode.USAGE)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.side_by_side
def test_an_interrupt_keeps_the_steps_that_had_ended_and_says_where(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    waits = "import time; time.sleep(60)"
    command = [
        sys.executable,
        "-m",
        "latlab",
        "diagnose",
        "-o",
        str(folder),
        "--",
        sys.executable,
        "-c",
        waits,
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "from outside" not in (line := process.stderr.readline()):
            assert line
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()

    assert process.returncode == 130
    assert f"the steps that had ended are kept: see 'latlab runs show {folder}'" in said
    assert latlab("runs", "show", str(folder)).returncode == 0
    assert (folder / "floor.json").exists()
