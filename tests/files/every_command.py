"""One call of every command that there is, which ends by itself within seconds; and the files that they take.

A word in capitals is a file or folder of `make`; OUT is a place to write to. The table must have a row for
every command: `test_every_command` fails for a new one that has none.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click

from latlab.cli._main import latlab as root

Path_ = tuple[str, ...]

TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "examples"
LATLAB = [sys.executable, "-m", "latlab"]

_BENCH = "--iterations 3 --warmup 0 --seconds 0.2 --scheduling other --no-lock-memory"
_PYTHON = f"-- {sys.executable} -c pass"
_APP = f"-- {sys.executable} APP"
CALLS: dict[str, str] = {
    "bench aa": f"FIXTURE --comparisons 1 --pairs 2 {_BENCH}",
    "bench ab": f"FIXTURE FIXTURE --pairs 2 {_BENCH} -o OUT",
    "bench accept": "LEVEL --accepted OUT",
    "bench command": f"{_BENCH} --processes 2 -o OUT {_PYTHON}",
    "bench compare": "PAIRS --html OUT",
    "bench history": "BENCH BENCH2",
    "bench rev": f"HEAD HEAD --command true --pairs 2 {_BENCH} -o OUT",
    "bench run": f"FIXTURE {_BENCH} --processes 2 -o OUT",
    "bench study": "FIXTURE --blocks 1 --factors load --iterations 3 --warmup 0 -o OUT",
    "clean": "--list",
    "completion": "bash",
    "dashboard": "LIVE --port 0",
    "demo": "--seconds 0.3 --symbols 4 -o OUT",
    "diagnose": f"--seconds 1 --no-forecast -o OUT {_PYTHON}",
    "jitter": "-r 0.1 --no-trace --output OUT",
    "jitter compare": "JITTER JITTER2",
    "jitter merge": "JITTER JITTER2 -o OUT",
    "jitter periods": "OUTLIERS",
    "jitter study": "-r 0.01 --rounds 1 --html OUT",
    "market bars": "DAY --every 60s -o OUT.csv",
    "market census": "DAY",
    "market decode": "DAY -o OUT",
    "market delay": "DAY DAY2",
    "market depth": "DAY",
    "market generate": "--messages 100 --symbols 2 -o OUT",
    "market inside": "DAY -o OUT",
    "market lobster": "DAY --symbol AAAB -o OUT",
    "market receive": "udp://127.0.0.1:1?idle=0.1 -o OUT",
    "market replay": "DAY --to OUT --messages 10",
    "market snapshot": "DAY --every 3600s -o OUT.csv",
    "market stats": "DAY -o OUT",
    "market trades": "DAY -o OUT.csv",
    "messaging ab": "WORKLOAD WORKLOAD --pairs 2 --seconds 1 --no-control",
    "messaging broker": "--listen nowhere.invalid:0 --runs 1",
    "messaging calibrate": "--json",
    "messaging compare": "MESSAGES MESSAGES2",
    "messaging conform": "--transport redis --messages 100",
    "messaging export": "MESSAGES -o OUT",
    "messaging find-limit": "--transport pipe --objective p99<1s --high 2000 --seconds 0.1 --repeats 1",
    "messaging report": "MESSAGES MESSAGES2 -o OUT",
    "messaging run": "--transport pipe --messages 100 --output OUT",
    "messaging transports": "",
    "queues analyse": "QUEUES",
    "queues compare": "QUEUES QUEUES",
    "queues export": "QUEUES --to csv -o OUT",
    "queues list": "--json",
    "queues model": "QUEUES -o OUT",
    "queues overhead": "--rounds 1 --period 10ms --seconds 0.2 -o OUT",
    "queues record": "LIVE --seconds 0.3 -o OUT",
    "queues report": "QUEUES -o OUT",
    "queues serve": "LIVE --port 0",
    "queues simulate": "MODEL --events 100",
    "queues tail": "QUEUES",
    "queues top": "LIVE",
    "queues verify": "QUEUES",
    "queues watch": "LIVE --count 1",
    "requests compare": "REQUESTS REQUESTS2",
    "requests record": f"--seconds 1 -o OUT {_PYTHON}",
    "requests show": "REQUESTS --html OUT",
    "requests top": "--pid LIVE --count 1 --json",
    "runs compare": "JITTER JITTER2",
    "runs export": "RUN -o OUT.tar",
    "runs list": "RUNS",
    "runs remove": "OUT --yes --json",
    "runs show": "RUN",
    "show": "JITTER",
    "stubs calibrate": "--kind spin-wall --time 10 --seconds 0.01",
    "stubs capture": f"-o OUT {_PYTHON}",
    "stubs compare": "TIMELINE TIMELINE --html OUT",
    "stubs decode": "TRACE",
    "stubs edit": "TIMELINE --thread 0 --idle -o OUT",
    "stubs emit": "TIMELINE --language python -o OUT",
    "stubs load": f"--cores 1 {_PYTHON}",
    "stubs play": "TIMELINE --timeout 5 -o OUT",
    "stubs record": f"--component work:score -o OUT {_APP}",
    "stubs replay": f"TRACE --component work:score --no-compare {_APP}",
    "stubs spec": "HEADER --class outer::deep::Item -o OUT",
    "stubs study": f"STUDY --dry-run {_APP}",
    "stubs validate": f"--component work:score -o OUT {_APP}",
    "system check": "",
    "system clocks": "",
    "system restore": "",
    "system show": "--json",
    "system tune": "",
}


def commands(group: click.Command, path: Path_ = ()) -> Iterator[tuple[Path_, bool]]:
    """Every command that there is, groups included; whether it does something by itself."""
    if not isinstance(group, click.Group):
        yield path, True
        return
    yield path, group.invoke_without_command
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from commands(command, (*path, name))


EVERY = sorted({path for path, _ in commands(root)})
CALLABLE = sorted({" ".join(path) for path, does in commands(root) if does})


def make(folder: Path) -> dict[str, str]:
    """The files that the calls name; what could not be made here has a path where nothing is."""
    for name in ("app.py", "work.py", "study.toml"):
        shutil.copy(EXAMPLES / "study" / name, folder)
    # A call that is made with each of eight faults needs no long program, and no header of half the library.
    (folder / "app.py").write_text((folder / "app.py").read_text().replace("range(8)", "range(2)"))
    with (TESTS / "data/jitter/planted-100hz.csv").open() as found:  # nor a search through a whole recording
        (folder / "outliers.csv").write_text("".join(islice(found, 200)))
    (folder / "item.hpp").write_text("namespace outer::deep { class Item { int number = 1; }; }\n")
    (folder / "workload.toml").write_text('transport = "pipe"\nmessages = 200\n')
    (folder / "fixture.py").write_text("class Nothing:\n    def run(self) -> None:\n        pass\n")
    files = {
        "APP": "app.py", "BENCH": "bench", "BENCH2": "bench2", "DAY": "day", "DAY2": "day2",
        "FIXTURE": "fixture.py", "HEADER": "item.hpp", "JITTER": "jitter", "JITTER2": "jitter2",
        "LEVEL": "bench",
        "MESSAGES": "messages", "MESSAGES2": "messages2", "MODEL": "model.toml",
        "OUTLIERS": "outliers.csv", "PAIRS": "pairs", "QUEUES": "queues",
        "REQUESTS": "requests", "REQUESTS2": "requests2",
        "STUDY": "study.toml", "TIMELINE": "timeline", "TRACE": "stub.trace",
        "WORKLOAD": "workload.toml",
    }  # fmt: skip
    made = {word: str(folder / name) for word, name in files.items()}
    made |= {
        "RUN": str(TESTS / "data/recordings/v1"),
        "RUNS": str(TESTS / "data/recordings"),
    }
    generate = "market generate --messages 500 --symbols 2 --seed"
    for line in (
        f"{generate} 1 -o DAY", f"{generate} 2 -o DAY2",
        f"bench run FIXTURE {_BENCH} --processes 2 -o BENCH",
        f"bench run FIXTURE {_BENCH} --processes 2 -o BENCH2",
        f"bench ab FIXTURE FIXTURE --pairs 2 {_BENCH} -o PAIRS",
        "jitter -r 0.1 --no-trace --output JITTER", "jitter -r 0.1 --no-trace --output JITTER2",
        "messaging run --transport pipe --messages 200 --output MESSAGES",
        "messaging run --transport pipe --messages 200 --output MESSAGES2",
        "demo --seconds 0.3 --symbols 4 -o QUEUES",
        "queues model QUEUES -o MODEL",
        f"requests record --seconds 1 -o REQUESTS {_PYTHON}",
        f"requests record --seconds 1 -o REQUESTS2 {_PYTHON}",
        f"stubs capture -o TIMELINE {_PYTHON}",
        f"stubs record --component work:score -o TRACE {_APP}",
    ):  # fmt: skip
        subprocess.run([*LATLAB, *words(line, made)], check=False, capture_output=True, cwd=folder)
    return made


def words(call: str, made: dict[str, str], output: str = "") -> list[str]:
    """A call's words, with paths in place of names."""
    named = {**made, "OUT": output, "OUT.csv": f"{output}.csv", "OUT.tar": f"{output}.tar"}
    return [named.get(word, word) for word in call.split()]


_PUBLISHES = """
import queue, sys, threading, time
from latlab.queues import Queue
one = Queue(8, name="one", source="a", drain="b")
print("ready", flush=True)
while not sys.stdin.closed:
    one.put(1); time.sleep(0.001); one.get()
"""


@contextlib.contextmanager
def published() -> Iterator[str]:
    """An application that publishes a queue, as long as the block: its process id."""
    with subprocess.Popen(
        [sys.executable, "-c", _PUBLISHES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as application:
        assert application.stdout is not None
        try:
            assert application.stdout.readline() == "ready\n"
            yield str(application.pid)
        finally:
            application.kill()
