"""latlab beside other readers of ITCH, on the same generated day: rates, memory, and what could not be raced.

    python -m benchmarks.market_race [messages [symbols]] [--day FILE] [--sources FOLDER] [--rounds N]

Each contestant runs as a process of its own, one after the other, some rounds in turn; the median of the
rates and the greatest memory are told. --sources is a folder of checkouts (itch-order-book, itchcpp); what is
not in it is cloned from GitHub where that can be reached. A contestant that is not installed, can't be
fetched, can't be built or fails is told as such, never left out silently.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks._options import add_day, parser_of
from latlab.market import census, generate

LATLAB = [sys.executable, "-m", "latlab", "market"]
REPOSITORIES = {
    "itch-order-book": "https://github.com/charles-cooper/itch-order-book",
    "itchcpp": "https://github.com/bbalouki/itchcpp",
}
# In memory, so that disks don't count: decoded by the arrays' owner, or put into all books.
IN_MEMORY = """
import sys, time
import numpy as np
from latlab._core.market import Pipeline, RecordDecoder
data = np.fromfile(sys.argv[2], np.uint8)
begin = time.perf_counter()
if sys.argv[1] == "decode":
    decoder = RecordDecoder(False)
    for at in range(0, len(data), 1 << 22):
        decoder.feed(data[at : at + (1 << 22)])
        decoder.take()
else:
    pipeline = Pipeline.census("binary", False)
    pipeline.feed(data)
    pipeline.finish()
print("seconds", time.perf_counter() - begin)
"""
ITCHCPP = """
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>
#include "itch/book/book_manager.hpp"
#include "itch/parser.hpp"
int main(int, char** argv) {
  std::ifstream file{argv[2], std::ios::binary};
  std::vector<char> bytes{std::istreambuf_iterator<char>{file}, {}};
  itch::book::BookManager manager;
  itch::Parser parser;
  const bool books = std::strcmp(argv[1], "books") == 0;
  std::size_t count = 0;
  const auto begin = std::chrono::steady_clock::now();
  parser.parse(bytes.data(), bytes.size(), [&](const itch::Message& message) {
    ++count;
    if (books) manager.process(message);
  });
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  std::printf("messages %zu\\nseconds %f\\n", count, taken.count());
}
"""


@dataclass
class Contestant:
    """Who does one thing with the day: how to start it, and what it took."""

    what: str
    who: str
    command: Callable[[Path], list[str]]
    compressed: bool = False
    stdin: bool = False
    missing: str = ""
    rates: list[float] = field(default_factory=list)
    memory_mb: float = 0.0
    cores: float = 0.0

    def run(self, day: Path, packed: Path, folder: Path, messages: int) -> None:
        file = packed if self.compressed else day
        out = folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        begin = time.perf_counter()
        with file.open("rb") as stdin, (folder / "said").open("wb") as said:
            process = subprocess.Popen(
                self.command(file), stdin=stdin if self.stdin else None, stdout=said, stderr=said, cwd=out
            )
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begin
        lines = (folder / "said").read_text(errors="replace").splitlines()
        if process.returncode:
            self.missing = f"failed with {process.returncode}: {lines[-1] if lines else 'no word'}"
            return
        for line in lines:
            if line.startswith("seconds "):  # of the work alone, without the start and the reading
                seconds = float(line.split()[1])
        self.rates.append(messages / seconds / 1e6)
        self.memory_mb = max(self.memory_mb, used.ru_maxrss / 1024)
        self.cores = (used.ru_utime + used.ru_stime) / (time.perf_counter() - begin)


def source_of(name: str, sources: Path | None, folder: Path) -> Path | str:
    """A checkout, or why there is none."""
    if sources is not None and (sources / name).is_dir():
        return sources / name
    target = folder / name
    command = ["git", "clone", "--quiet", "--depth", "1", REPOSITORIES[name], str(target)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"can't be fetched: {error}"
    return target if done.returncode == 0 else f"can't be fetched: {done.stderr.strip().splitlines()[-1]}"


def built(name: str, sources: Path | None, folder: Path) -> tuple[Path, str]:
    """The program, and why there is none if there is none."""
    program = folder / f"{name}.bin"
    source = source_of(name, sources, folder)
    if isinstance(source, str):
        return program, source
    compiler = os.environ.get("CXX", "g++")
    if name == "itch-order-book":
        files = [source / "main.cpp", source / "bufferedreader.cpp"]
        flags = ["-O3", "-march=native", "-std=c++14", "-DNDEBUG", "-w"]
    else:
        (folder / "itchcpp.cpp").write_text(ITCHCPP)
        used = ("parser.cpp", "messages.cpp", "book/book_manager.cpp", "book/l3_book.cpp")
        files = [folder / "itchcpp.cpp", *(source / "src" / path for path in used)]
        flags = ["-O3", "-march=native", "-std=c++20", "-DNDEBUG", "-w", f"-I{source / 'include'}"]
    command = [compiler, *flags, *map(str, files), "-o", str(program)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return program, f"can't be built: {error}"
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    return program, "" if done.returncode == 0 else f"can't be built: {(errors or ['no word'])[0]}"


def contestants(sources: Path | None, folder: Path) -> list[Contestant]:
    def in_memory(what: str) -> Callable[[Path], list[str]]:
        return lambda file: [sys.executable, "-c", IN_MEMORY, what, str(file)]

    cooper, no_cooper = built("itch-order-book", sources, folder)
    itchcpp, no_itchcpp = built("itchcpp", sources, folder)
    no_itch_book = "" if importlib.util.find_spec("itch_book") else "not installed (PyPI: itch-book)"

    def parquet(file: Path) -> list[str]:
        return [*LATLAB, "inside", str(file), "-o", "inside.parquet"]

    def itch_book(tables: str) -> Callable[[Path], list[str]]:
        return lambda file: [
            *(sys.executable, "-m", "itch_book", "convert", "--tables", tables, "--no-md5"),
            *("--date", "2019-01-30", str(file), "itch-book"),
        ]

    plain, packed = "inside to Parquet", "inside to Parquet from .gz"
    return [
        Contestant("decode", "latlab", in_memory("decode")),
        Contestant("decode", "itchcpp", lambda f: [str(itchcpp), "decode", str(f)], missing=no_itchcpp),
        Contestant("books", "latlab", in_memory("books")),
        Contestant("books", "itch-order-book", lambda _: [str(cooper)], stdin=True, missing=no_cooper),
        Contestant("books", "itchcpp", lambda f: [str(itchcpp), "books", str(f)], missing=no_itchcpp),
        Contestant("every field to Parquet", "latlab", lambda f: [*LATLAB, "decode", str(f), "-o", "all"]),
        Contestant("every field to Parquet", "itch-book", itch_book("messages"), missing=no_itch_book),
        Contestant(plain, "latlab", parquet),
        Contestant(plain, "itch-book", itch_book("bbo"), missing=no_itch_book),
        Contestant(packed, "latlab", parquet, compressed=True),
        Contestant(packed, "itch-book", itch_book("bbo"), compressed=True, missing=no_itch_book),
    ]


def main() -> int:
    parser = parser_of(__doc__)
    add_day(parser, "a day of ITCH 5.0, plain; by default one is generated")
    parser.add_argument("--sources", type=Path, help="folder of checkouts of the others")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        day = chosen.day or folder / "day.itch"
        if not day.exists():
            generate(day, seed=1, messages=chosen.messages, symbols=chosen.symbols)
        packed = day.with_name(day.name + ".gz")
        if not packed.exists():
            packed = folder / "day.itch.gz"
            with day.open("rb") as plain, gzip.open(packed, "wb", compresslevel=1) as target:
                shutil.copyfileobj(plain, target, 1 << 20)
        messages = census(day).messages
        racing = contestants(chosen.sources, folder)
        for _ in range(chosen.rounds):
            for one in racing:
                if not one.missing:
                    one.run(day.resolve(), packed.resolve(), folder, messages)
        print(f"{messages:,} messages, median of {chosen.rounds} rounds in turn")
        for one in racing:
            result = one.missing or (
                f"{median(one.rates):.2f} M messages/s, {one.memory_mb:,.0f} MB, {one.cores:.2f} cores"
            )
            print(f"{one.what}: {one.who}: {result}")
    print("CppTrader and JayBeams: not raced: they need libraries of their own or Boost; see their build")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
