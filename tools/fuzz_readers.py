"""Every reader of files against spoiled ones: each either reads, or refuses with an error of ours.

    python tools/fuzz_readers.py [--bytes N] [--seconds S] [--seed N] [--jobs N] [READER…]

A valid file is spoiled in one of the ways in which files are: bits, cuts, repeats, lengths that lie, numbers
that no writer writes, pieces of other files. What escapes is a fault of the reader: its input is kept beside
the corpus (`tests/data/fuzz/READER-…`), and stays there as a test once the reader is mended.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from latlab.errors import LatlabError
from latlab.system.scratch import shared_memory

CORPUS = Path(__file__).resolve().parent.parent / "tests/data/fuzz"
_SLOW_S = 5.0  # for a file of a few thousand bytes
_LIES = (0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1,
         (1 << 64) - 1)  # fmt: skip
_WORDS = (b"-1", b"1e999", b"nan", b"inf", b"99999999999999999999999", b"null", b"[]", b"{}", b'""', b"\x00",
          b"\xff\xfe", b"\xc3\x28", b"0x10", b"1_0", "١".encode(), b"\x1b[2J", b"true", b"'", b'"', b"=",
          b"\r",           b"1979-05-27", b"[[", b"\n\n", b",,,", b"-0.0", b"1e-400")  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """One reader.

    Attributes:
        seed: writes a valid file into a folder, and gives its path (or that of the part to be spoiled).
        read: reads the file as a command would.
    """

    seed: Callable[[Path], Path]
    read: Callable[[Path], Any]


def _text(name: str, text: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_text(text)
        return folder / name

    return write


def _recording(part: str, *, complete: bool) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        from latlab.formats.recording import RecordingWriter
        from latlab.model.machine.environment import Environment, Fact

        writer = RecordingWriter(
            folder / "run", "queues", parameters={"a": 1}, environment=Environment({"host.name": Fact("h")})
        )
        for at in range(3):
            writer.append("fills", {"t": [at, 2, 3], "name": ["a", "b", None]})
        writer.put("answer", {"schema": 1, "sentence": "book limits.", "list": [1, 2.5, None, {"a": "b"}]})
        writer.close() if complete else writer.abandon()
        return folder / "run" / part

    return write


def _read_recording(path: Path) -> None:
    from latlab.formats.recording import open_recording
    from latlab.formats.runs import find_runs

    find_runs(path.parent.parent)
    found = open_recording(path.parent)
    for name in found.documents():
        found.document(name)
    for name in found.names():
        found.unfinished_bytes(name)
        found.series(name)


def _hlog(folder: Path) -> Path:
    from latlab.formats.hdr.hlog import LogWriter
    from latlab.model.statistics.histogram import Histogram

    path = folder / "a.hlog"
    with LogWriter(path) as log:
        for at in range(3):
            log.write(Histogram.of([1, 1000, 50_000 + at]), float(at), at + 1.0, "a" if at else None)
    return path


def _payload(folder: Path) -> Path:
    """What a log holds in its last field, unpacked."""
    import base64
    import zlib

    packed = base64.b64decode(_hlog(folder).read_text().splitlines()[-1].rpartition(",")[2])
    path = folder / "payload"
    path.write_bytes(zlib.decompress(packed[8:]))
    return path


def _read_payload(path: Path) -> None:
    import base64
    import struct
    import zlib

    from latlab.formats.hdr.hlog import merged, read_log

    packed = zlib.compress(path.read_bytes())
    field = base64.b64encode(struct.pack(">II", 0x1C849304 | 0x10, len(packed)) + packed).decode()
    log = path.with_name("b.hlog")
    log.write_text(f"#[Histogram log format version 1.3]\n0.0,1.0,1.0,{field}\n")
    merged(read_log(log).intervals)


def _hgrm(folder: Path) -> Path:
    from latlab.formats.hdr.hlog import write_hgrm
    from latlab.model.statistics.histogram import Histogram

    write_hgrm(folder / "a.hgrm", Histogram.of(np.arange(1, 2000)))
    return folder / "a.hgrm"


def _perf_script(folder: Path) -> Path:
    line = (
        "app 100 [001] 12.000000: sched:sched_switch: prev_comm=app prev_pid=100 prev_prio=120 prev_state=S"
    )
    line += " ==> next_comm=swapper/1 next_pid=0 next_prio=120\n"
    (folder / "a.txt").write_text(line * 3)
    return folder / "a.txt"


def _trace(folder: Path) -> Path:
    from latlab.formats.event_traces import files as traces

    records = np.zeros(4, traces.RECORD)
    head = np.zeros(1, traces._HEADER)
    head["magic"], head["version"], head["lanes"], head["lane_records"] = traces.MAGIC, traces.VERSION, 2, 4
    head["lane_bytes"], head["pid"], head["every"] = 64 + records.nbytes, 1, 1
    lane = np.array([4, 0], "<u8").tobytes().ljust(64, b"\0") + records.tobytes()
    path = folder / "a.traces"
    path.write_bytes(head.tobytes().ljust(traces.HEADER_BYTES, b"\0") + lane * 2)
    return path


def _stub_trace(folder: Path) -> Path:
    from latlab.stubs.components import trace

    path = folder / "a.trace"
    values = [trace.Value(1, 1, 0, b"abcdefgh"), trace.Value(2, 1, 0, None)]
    trace.write(path, [trace.Definition("parse", "int", "q", values)])
    return path


def _program(folder: Path) -> Path:
    """A shared library of ours, the smallest one."""
    import latlab

    ours = (Path(latlab.__file__).parent).rglob("*.so")
    smallest = min(ours, key=lambda one: one.stat().st_size)
    (folder / "a.so").write_bytes(smallest.read_bytes())
    return folder / "a.so"


def _read_program(path: Path) -> None:
    from latlab.system.kernel.binaries.elf_code import CodeFile
    from latlab.system.kernel.binaries.unwind_table import UnwindTable

    table, code = UnwindTable.read(str(path)), CodeFile.read(str(path))
    for place in range(0, path.stat().st_size, 1009):
        if table is not None:
            table.around(place)
        if code is not None:
            code.function(place)
            code.name(place)
            code.stub(place)
            code.slot(place, 64)


def _module(name: str, attribute: str) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        from importlib import import_module

        return getattr(import_module(name), attribute)(path)

    return read


def _parse_jit_map(lines: list[str]) -> None:
    from latlab.system.kernel.jit_map import jit_name, parse_jit_map

    jit_name(parse_jit_map(lines), 0x7F08)


def _action_folder(folder: Path) -> Path:
    (folder / "1.actions").write_text(
        "run 1000\nlock a\nrepeat 3\nrun 5.5\nend\nunlock a\nsignal b\nwait b\n"
        "memory 1000\nio read 10 5\nexit\n"
    )
    return folder / "1.actions"


_LAYOUT = (Path(__file__).resolve().parent.parent / "examples/trading.toml").read_text(encoding="utf-8")
_STUDY = 'component = "work:score"\nkind = "python"\nseconds = 2.5\nrounds = 20\nslow = []\n'
_MODEL = """schema = 1
[[source]]
queue = "q"
rate_hz = 1000.0
variation = 1
saturated = false
period_us = 100
counts = [1, 2, 3]
[[stage]]
name = "book"
service_us = 10.0
variation = 1.0
workers = 1
[[queue]]
name = "q"
source = "feed"
drain = "book"
capacity = 64
share = 1.0
"""
_BASELINE = "bench-baseline"
_PYPERF = (
    '{"version": "1.0", "metadata": {}, "benchmarks": [{"metadata": {"name": "a"},'
    ' "runs": [{"values": [1.0, 2.0]}]}]}'
)
_HYPERFINE = '{"results": [{"command": "a", "times": [0.1, 0.2, 0.3]}]}'

READERS: dict[str, Reader] = {
    "recording-manifest": Reader(_recording("recording.json", complete=True), _read_recording),
    "recording-environment": Reader(_recording("environment.json", complete=True), _read_recording),
    "recording-document": Reader(_recording("answer.json", complete=True), _read_recording),
    "recording-end": Reader(_recording("complete.json", complete=True), _read_recording),
    "recording-series": Reader(_recording("fills.arrows", complete=True), _read_recording),
    "recording-cut-series": Reader(_recording("fills.arrows", complete=False), _read_recording),
    "traces": Reader(_trace, _module("latlab.formats.event_traces.files", "read_traces")),
    "hlog": Reader(_hlog, _module("latlab.formats.hdr.hlog", "read_log")),
    "hlog-payload": Reader(_payload, _read_payload),
    "hgrm": Reader(_hgrm, _module("latlab.formats.hdr.hlog", "read_hgrm")),
    "sample-blocks": Reader(
        _text(
            "a.txt",
            "timestamp = 1\ninCount = 5\noutCount = 3\nqueueId = 0\n---\n"
            "timestamp = 2\ninCount = 7\noutCount = 3\n---\n",
        ),
        _module("latlab.formats.event_traces.texts", "read_sample_blocks"),
    ),
    "perf-script": Reader(_perf_script, _module("latlab.stubs.timelines.events", "from_perf_script")),
    "baseline": Reader(
        _text(
            "a.json",
            '{"schema": 1, "kind": "'
            + _BASELINE
            + '", "runs": [{"at": "a", "environment": {"b": "c"}, "tests": {"a": [[1.0, 2.0]]}}]}',
        ),
        _module("latlab.bench.results.imports", "load"),
    ),
    "pairs": Reader(
        _text("a.txt", "1,2\n3,4\n# x\n"), _module("latlab.formats.event_traces.texts", "read_pairs")
    ),
    "queue-model": Reader(_text("a.toml", _MODEL), _module("latlab.formats.queue_model", "read_model")),
    "layout": Reader(_text("a.toml", _LAYOUT), _module("latlab.lab.trading.layout", "load_layout")),
    "study": Reader(_text("a.toml", _STUDY), _module("latlab.stubs.studies.question", "load_plan")),
    "outliers": Reader(
        _text("a.csv", "x,y\n1.5,2\n3,4.25\n"), _module("latlab.jitter._files", "read_outliers")
    ),
    "actions": Reader(
        _action_folder, lambda path: _module("latlab.stubs.timelines.actions", "load")(path.parent)
    ),
    "stub-trace": Reader(_stub_trace, _module("latlab.stubs.components.trace", "read")),
    "pyperf": Reader(_text("a.json", _PYPERF), _module("latlab.bench.results.imports", "load")),
    "program": Reader(_program, _read_program),
    "jit-map": Reader(
        _text("a.map", "7f00 10 parse\n7f10 20 a name of words\n"),
        lambda path: _parse_jit_map(path.read_text(errors="replace").splitlines()),
    ),
    "hyperfine": Reader(_text("a.json", _HYPERFINE), _module("latlab.bench.results.imports", "load")),
}


def spoiled(data: bytes, random_: random.Random) -> bytes:
    """A file as something or somebody has left it."""
    out = bytearray(data)
    for _ in range(random_.choice((1, 1, 1, 2, 4, 8))):
        at = random_.randrange(len(out) + 1)
        kind = random_.randrange(9)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << random_.randrange(8)
        elif kind == 1 and out:
            out[at % len(out)] = random_.randrange(256)
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at : at + random_.randrange(1, 17)]
        elif kind == 4:
            size = random_.choice((1, 2, 4, 8))
            at -= at % size
            out[at : at + size] = (random_.choice(_LIES) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        elif kind == 5:
            out[at:at] = random_.choice(_WORDS)
        elif kind == 6:
            # In the place of a word or number: what a text has there.
            end = at
            while end < len(out) and (out[end : end + 1].isalnum() or out[end] in b".-"):
                end += 1
            out[at:end] = random_.choice(_WORDS)
        elif kind == 7:
            begin = random_.randrange(len(out) + 1)
            out[at:at] = out[begin : begin + random_.randrange(1, 65)]
        else:
            out[at:at] = random_.randbytes(random_.randrange(1, 33))
    return bytes(out)


def inputs(name: str, seed: int) -> Iterator[tuple[Path, bytes]]:
    """An endless series of spoiled files, each written in place of the valid one."""
    with tempfile.TemporaryDirectory(prefix="latlab-fuzz-", dir=shared_memory()) as folder:
        path = READERS[name].seed(Path(folder))
        valid = path.read_bytes()
        random_ = random.Random(seed)
        yield path, valid
        while True:
            data = spoiled(valid, random_)
            path.write_bytes(data)
            yield path, data


def fault(name: str, path: Path) -> str | None:
    """What is wrong with how a reader takes a file; None where it reads it, or refuses it in one line."""
    began = time.process_time()  # not what others take of the CPU
    try:
        READERS[name].read(path)
    except LatlabError as error:
        if "\n" in str(error):
            return f"an error of several lines: {error!r}"
    except Exception as error:  # noqa: BLE001 - whatever escapes is the finding
        return f"{type(error).__name__} escapes: {error}"
    took = time.process_time() - began
    return f"it took {took:.1f} s of a CPU" if took > _SLOW_S else None


def kept(name: str) -> list[Path]:
    """The inputs that once were faults."""
    return sorted(CORPUS.glob(f"{name}-*"))


def fuzzed(name: str, most_bytes: float, seconds: float, seed: int) -> tuple[bool, str]:
    """Feed a reader spoiled files, so many bytes or so long: whether a fault was found, and what to say."""
    total, count, end = 0, 0, time.monotonic() + seconds
    found: dict[str, bytes] = {}
    said = []
    for path, data in inputs(name, seed):
        wrong = fault(name, path)
        if wrong is not None and wrong.split(":")[0] not in found:
            found[wrong.split(":")[0]] = data
            place = CORPUS / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
            CORPUS.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            said.append(f"{name}: {wrong}\n  kept as {place}")
        total, count = total + len(data), count + 1
        if total >= most_bytes or time.monotonic() > end:
            break
    said.append(f"{name}: {count} files, {total} bytes, {len(found)} faults (seed {seed})")
    return bool(found), "\n".join(said)


def main() -> int:
    """Fuzz from the command line."""
    parser = argparse.ArgumentParser(description="Feed spoiled files to every reader.")
    parser.add_argument("readers", nargs="*", choices=[*READERS, []], help="all by default")
    parser.add_argument("--bytes", type=float, default=1e6, help="of input for each")
    parser.add_argument("--seconds", type=float, default=60.0, help="at most, for each")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--jobs", type=int, default=1, help="readers at a time")
    given = parser.parse_args()
    failed = False
    with ProcessPoolExecutor(given.jobs) as pool:
        names = list(given.readers or READERS)
        rest = (repeat(one) for one in (given.bytes, given.seconds, given.seed))
        for found, said in pool.map(fuzzed, names, *rest):
            failed |= found
            print(said, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
