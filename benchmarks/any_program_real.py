"""Programs of the distribution, as they are: what does `latlab diagnose` say limits them?

    python -m benchmarks.any_program_real [--seconds 4] [--only TEXT]

Each is held against what its documentation and a look by perf and top say; docs/explanation/any-program.md has
the cases one by one. What isn't installed is left out.
"""

# ruff: noqa: E501 - a table of commands

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._bars import Bar, report


@dataclass(frozen=True)
class Real:
    """A program.

    Attributes:
        command: run by a shell in a folder with text (`words`, 30 MB) and C files; None: `server` is looked at.
        server: started before, and asked by `load` meanwhile.
        kinds, name: that are right.
    """

    title: str
    needs: tuple[str, ...]
    kinds: tuple[str, ...]
    name: str
    command: str | None = None
    server: str | None = None
    load: str | None = None


CASES = (
    Real("pigz -p2", ("pigz",), ("thread", "cpu"), "compress|deflate|pigz|CPU", "pigz -p2 -11 -c words > /dev/null"),
    Real("pbzip2 -p2", ("pbzip2",), ("thread", "cpu"), "consumer|BZ2|pbzip2|CPU", "pbzip2 -p2 -c words > /dev/null"),
    Real("xz -T2", ("xz",), ("thread", "cpu"), "xz|lzma|worker|CPU", "xz -T2 --block-size=1MiB -c words > /dev/null"),
    Real("zstd -T2 -19", ("zstd",), ("thread", "cpu"), "zstd|ZSTD|POOL|CPU", "zstd -T2 -15 -c words > /dev/null"),
    Real("sort --parallel=2", ("sort",), ("thread", "cpu"), "sort|CPU", "tr ' ' '\\n' < words > lines; exec sort --parallel=2 lines -o /dev/null"),
    Real("gzip, one thread", ("gzip",), ("thread",), "gzip|deflate", "gzip -9 -c words > /dev/null"),
    Real("tar | gzip", ("tar",), ("process", "thread"), "gzip", "tar -c words words1 words2 | gzip -6 > /dev/null"),
    Real("make -j2", ("make", "cc"), ("process", "cpu"), "cc1|CPU", "make -s -B -j2"),
    Real("dd, every block durable", ("dd",), ("disk",), "", "dd if=/dev/zero of=out bs=4k count=100000 oflag=dsync"),
    Real("find, cold nothing", ("find",), ("thread",), "find", "for i in $(seq 40); do find /usr -name '*.zzz'; done"),
    Real("ffmpeg, filter and encoder", ("ffmpeg",), ("thread", "cpu"), "x264|enc|ffmpeg|CPU|filter|thread",
         "ffmpeg -loglevel error -y -f lavfi -i testsrc=size=640x360:rate=30 -t 60 -vf gblur=sigma=20 -c:v mpeg4 -f null -"),
    Real("redis under load", ("redis-server", "redis-benchmark"), ("thread", "load"), "redis|load", None,
         "redis-server --port 7391 --save '' --appendonly no", "redis-benchmark -p 7391 -q -n 10000000 -c 20 -t get"),
    Real("redis, idle", ("redis-server",), ("load",), "load", None, "redis-server --port 7391 --save '' --appendonly no"),
    Real("redis, every write durable", ("redis-server", "redis-benchmark"), ("disk",), "", None,
         "redis-server --port 7391 --save '' --appendonly yes --appendfsync always", "redis-benchmark -p 7391 -q -n 10000000 -c 2 -t set"),
    Real("nginx under wrk", ("nginx", "wrk"), ("thread", "process", "load", "cpu"), "nginx|load|CPU", None,
         "nginx -p . -c nginx.conf", "wrk -t1 -c8 -d30 http://127.0.0.1:7392/words3"),
    Real("python -m http.server, asked seldom", ("curl",), ("load",), "load", None,
         "python3 -m http.server 7393 --bind 127.0.0.1", "while :; do curl -s http://127.0.0.1:7393/nginx.conf; sleep 0.05; done"),
)  # fmt: skip

NGINX = """
daemon off; worker_processes 1; pid nginx.pid; error_log stderr;
events {{ worker_connections 64; }}
http {{ access_log off; server {{ listen 127.0.0.1:7392; root {root}; }} }}
"""


def prepared(folder: Path) -> None:
    draw = random.Random(5)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(2, 9))) for _ in range(4000)]
    for name, count in (
        ("words", 5_000_000),
        ("words1", 2_000_000),
        ("words2", 2_000_000),
        ("words3", 2_000),
    ):
        (folder / name).write_text(" ".join(draw.choices(words, k=count)))
    (folder / "nginx.conf").write_text(NGINX.format(root=folder))
    lines = []
    for number in range(60):
        body = "".join(
            f"int f{number}_{i}(int x) {{ return x * {i} + f{number}_{i - 1}(x / 2); }}\n"
            for i in range(1, 400)
        )
        (folder / f"part{number}.c").write_text(f"int f{number}_0(int x) {{ return x; }}\n{body}")
        lines.append(f"part{number}.o: part{number}.c\n\tcc -O2 -c $< -o $@\n")
    (folder / "Makefile").write_text(
        "all: " + " ".join(f"part{i}.o" for i in range(60)) + "\n" + "".join(lines)
    )


@contextlib.contextmanager
def running(command: str | None, folder: Path) -> Iterator[int | None]:
    """A shell command in a session of its own, and the process that it became."""
    if command is None:
        yield None
        return
    process = subprocess.Popen(
        ["sh", "-c", command if ";" in command else f"exec {command}"], cwd=folder, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        time.sleep(0.7)
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=10)


def diagnosed(case: Real, folder: Path, seconds: float) -> tuple[str, dict[str, Any]]:
    words = [sys.executable, "-m", "latlab", "diagnose", "--no-forecast", "--json", "--seconds", str(seconds)]
    with running(case.server, folder) as pid, running(case.load, folder):
        target = ["--pid", str(pid)] if case.command is None else ["--", "sh", "-c", case.command]
        done = subprocess.run(
            [*words, *target], cwd=folder, capture_output=True, text=True, timeout=seconds + 120, check=False
        )
    answer: dict[str, Any] = json.loads(done.stdout[done.stdout.find("{") :])
    limit = answer["limit"]
    if limit["kind"] == "unknown" or done.returncode == 3:
        return "withheld", answer
    shown = " ".join([limit["name"], answer["sentence"], *(one["function"] for one in limit["code"])])
    return ("right" if limit["kind"] in case.kinds and re.search(case.name, shown) else "wrong"), answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    marks = []
    with tempfile.TemporaryDirectory(prefix="any-program-") as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)  # for nginx's workers
        prepared(folder)
        for case in CASES:
            missing = [one for one in case.needs if shutil.which(one) is None]
            if given.only not in case.title or missing:
                continue
            found, answer = diagnosed(case, folder, given.seconds)
            marks.append(found)
            print(f"{found:9} {case.title:32} | {answer['limit']['kind']}: {answer['sentence']}", flush=True)
    if not marks:
        print("none of them is installed")
        return 0
    return report(
        [
            Bar("right", marks.count("right") / len(marks), 0.8, at_least=True),
            Bar("wrong", marks.count("wrong") / len(marks), 0.02),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
