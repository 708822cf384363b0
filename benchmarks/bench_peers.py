"""How often latlab and its peers call identical and changed code different.

`python -m benchmarks.bench_peers [--pairs N] [--changes 0,5,10,20,50] [--tools a,b] [--cells a,b]
[--outcomes FILE] [--svg FILE]`

Each tool compares a workload with itself and with the same made slower by some thousandths, judged as its own
documentation has it: pyperf by `compare_to` (a t test on all values), hyperfine by Welch's t test on the runs
of its `--export-json` (its `scripts/welch_ttest.py`), Google Benchmark by the U test of `compare.py` on 20
repetitions, pytest-benchmark by `--benchmark-compare-fail=median:1%` (it has a threshold and no test), latlab
by `bench ab`. The tools take turns, pair by pair, so that all meet the same machine. A
tool that is not installed is left out and said. `--outcomes` keeps every comparison as a line of JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import latlab
from benchmarks.bench_calibration import compiled
from latlab import bench

COMPARE = Path("/usr/share/benchmark/compare.py")  # where Debian's libbenchmark-tools puts it
PROGRAM = """
#include <cstdint>
#include <cstdlib>
#include <latlab/bench.hpp>
int main(int, char** argv) {
  const std::uint64_t steps = std::strtoull(argv[1], nullptr, 10);
  std::uint64_t state = 1;
  for (std::uint64_t i = 0; i < steps; ++i) {
    state = state * 6364136223846793005U + i;
    latlab::bench::do_not_optimize(state);
  }
}
"""
GOOGLE = """
#include <benchmark/benchmark.h>
#include <cstdint>
#include <cstdlib>
#include <map>
static const std::uint64_t change = std::strtoull(std::getenv("CHANGE"), nullptr, 10);
static std::uint64_t next(std::uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return state;
}
static void loop(benchmark::State& state) {
  for (auto _ : state) {
    const std::uint64_t count = 10'000 + 10 * change;
    std::uint64_t x = 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      x = x * 6364136223846793005U + i;
      benchmark::DoNotOptimize(x);
    }
  }
}
static void map(benchmark::State& state) {
  std::map<std::uint64_t, std::uint64_t> nodes;
  std::uint64_t key = 1;
  while (nodes.size() < 20'000) nodes[next(key) >> 40U] = key;
  for (auto _ : state) {
    std::uint64_t at = 7;
    for (std::uint64_t i = 0; i < 1'000 + change; ++i) {
      const auto found = nodes.lower_bound(next(at) >> 40U);
      benchmark::DoNotOptimize(found);
    }
  }
}
BENCHMARK(loop);
BENCHMARK(map);
BENCHMARK_MAIN();
"""
# What a tool said: 1 (B is slower), -1 (faster), 0 (no difference).
Compare = Callable[[int, int], int]


def build(folder: Path, name: str, source: str, *libraries: str) -> Path | None:
    path = folder / f"{name}.cpp"
    path.write_text(source)
    command = ["g++", "-O2", "-std=c++20", f"-I{latlab.get_include()}", str(path), "-o", str(folder / name)]
    done = subprocess.run([*command, *libraries], capture_output=True, check=False)
    return folder / name if done.returncode == 0 else None


def quietly(command: Sequence[str], **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout


def hyperfine(folder: Path) -> dict[str, Compare]:
    program = build(folder, "loop", PROGRAM)
    if shutil.which("hyperfine") is None or program is None:
        return {}
    from scipy import stats

    def loop(change: int, _seed: int) -> int:
        out = folder / "hyperfine.json"
        sides = [f"{program} {5_000 * (1000 + c)}" for c in (0, change)]
        quietly(["hyperfine", "-N", "--style", "none", "--warmup", "3", "--runs", "50",
                 "--export-json", str(out), *sides])  # fmt: skip
        a, b = (result["times"] for result in json.loads(out.read_text())["results"])
        test = stats.ttest_ind(a, b, equal_var=False)
        return 0 if test.pvalue >= 0.05 else 1 if sum(b) > sum(a) else -1

    return {"loop": loop}


def google(folder: Path) -> dict[str, Compare]:
    program = build(folder, "google", GOOGLE, "-lbenchmark", "-lpthread")
    if program is None or not COMPARE.exists():
        return {}

    def of(name: str) -> Compare:
        def compare(change: int, _seed: int) -> int:
            files = [folder / f"google-{side}.json" for side in "ab"]
            for file, c in zip(files, (0, change), strict=True):
                quietly([str(program), f"--benchmark_filter=^{name}$", "--benchmark_repetitions=20",
                         "--benchmark_min_time=0.01", f"--benchmark_out={file}",
                         "--benchmark_out_format=json"], CHANGE=str(c))  # fmt: skip
            out = folder / "google-verdict.json"
            quietly([sys.executable, str(COMPARE), "-d", str(out), "benchmarks", *map(str, files)])
            found = json.loads(out.read_text())
            row = next(r for r in found if r.get("utest"))
            if row["utest"]["time_pvalue"] >= 0.05:
                return 0
            return 1 if row["measurements"][0]["time"] > 0 else -1

        return compare

    return {name: of(name) for name in ("loop", "map")}


def pyperf(folder: Path) -> dict[str, Compare]:
    try:
        quietly([sys.executable, "-m", "pyperf", "--help"])
    except subprocess.CalledProcessError:
        return {}

    def python(change: int, _seed: int) -> int:
        files = [folder / f"pyperf-{side}.json" for side in "ab"]
        for file, c in zip(files, (0, change), strict=True):
            file.unlink(missing_ok=True)
            quietly([sys.executable, "-m", "pyperf", "timeit", "--fast", "-q", "-o", str(file), "--name", "x",
                     f"for i in range({10_000 + 10 * c}): pass"])  # fmt: skip
        said = quietly([sys.executable, "-m", "pyperf", "compare_to", *map(str, files)])
        return 0 if "not significant" in said.lower() else 1 if "slower" in said else -1

    return {"python": python}


def pytest_benchmark(folder: Path) -> dict[str, Compare]:
    try:
        quietly([sys.executable, "-c", "import pytest_benchmark"])
    except subprocess.CalledProcessError:
        return {}
    (folder / "test_loop.py").write_text(
        "import os\n"
        "STEPS = range(10_000 + 10 * int(os.environ['CHANGE']))\n"
        "def work():\n"
        "    for _ in STEPS:\n"
        "        pass\n"
        "def test_loop(benchmark):\n"
        "    benchmark(work)\n"
    )

    def python(change: int, _seed: int) -> int:
        medians = []
        for c in (0, change):
            out = folder / "pytest.json"
            quietly([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                     "-p", "pytest_benchmark.plugin",
                     f"--benchmark-json={out}", str(folder / "test_loop.py")],
                    CHANGE=str(c), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")  # fmt: skip
            medians.append(json.loads(out.read_text())["benchmarks"][0]["stats"]["median"])
        ratio = medians[1] / medians[0] - 1
        return 0 if abs(ratio) <= 0.01 else 1 if ratio > 0 else -1

    return {"python": python}


def ours(folder: Path) -> dict[str, Compare]:
    so = compiled(folder)
    (folder / "cells.py").write_text(
        "class Loop:\n"
        "    def __init__(self, change=0):\n"
        "        self.steps = range(10_000 + 10 * change)\n"
        "    def run(self):\n"
        "        for _ in self.steps:\n"
        "            pass\n"
    )
    texts = {"loop": f"{so}:RegisterLoop", "map": f"{so}:Map", "python": f"{folder / 'cells.py'}:Loop"}
    seconds = {"loop": 0.5, "map": 5.0, "python": 5.0}

    def of(name: str) -> Compare:
        def compare(change: int, seed: int) -> int:
            judgement, _ = bench.run_ab(
                bench.parse(texts[name], {"change": 0}),
                bench.parse(texts[name], {"change": change}),
                dataclasses.replace(bench.default_settings(), timeout_s=120.0),
                bench.Asked(seconds=seconds[name], seed=seed),
                bench.Recorder(),
                control=False,
            )
            return {"slower": 1, "faster": -1}.get(judgement.result.verdict.value, 0)

        return compare

    return {name: of(name) for name in texts}


TOOLS = {
    "latlab": ours,
    "pyperf": pyperf,
    "hyperfine": hyperfine,
    "google": google,
    "pytest-benchmark": pytest_benchmark,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--changes", default="0,5,10,20,50", help="Thousandths.")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--cells", default="loop,map,python", help="Workloads.")
    parser.add_argument("--outcomes", type=Path, help="Appended to; what it holds isn't repeated.")
    parser.add_argument("--svg", type=Path, help="The curves as a picture.")
    arguments = parser.parse_args()
    changes = [int(c) for c in arguments.changes.split(",")]
    lines = []
    if arguments.outcomes is not None and arguments.outcomes.exists():
        lines = [json.loads(line) for line in arguments.outcomes.read_text().splitlines()]
    made = {(x["tool"], x["cell"], x["change"], x["pair"]) for x in lines}
    with tempfile.TemporaryDirectory() as text:
        tools = {}
        for name in arguments.tools.split(","):
            (folder := Path(text) / name).mkdir()
            tools[name] = TOOLS[name](folder)
            if not tools[name]:
                print(f"# {name} is not installed here, or its workload can't be built", file=sys.stderr)
        for pair in range(arguments.pairs):
            for change in changes:
                for tool, cells in tools.items():
                    for cell, compare in cells.items():
                        if cell not in arguments.cells.split(",") or (tool, cell, change, pair) in made:
                            continue
                        begin = time.monotonic()
                        try:
                            said = compare(change, 1000 * pair + change + 1)
                        except subprocess.CalledProcessError as error:
                            print(f"# {tool} failed: {error}", file=sys.stderr)
                            continue
                        lines.append(
                            {"tool": tool, "cell": cell, "change": change, "pair": pair, "said": said,
                             "seconds": time.monotonic() - begin, "load_1min": os.getloadavg()[0]}
                        )  # fmt: skip
                        if arguments.outcomes is not None:
                            with open(arguments.outcomes, "a") as file:
                                file.write(json.dumps(lines[-1]) + "\n")
    rows = table(lines)
    print("\n".join(rows))
    if arguments.svg is not None:
        arguments.svg.write_text(picture(lines))


def rates(lines: Sequence[dict[str, float]]) -> dict[tuple[str, str], dict[int, tuple[int, int, float]]]:
    """(tool, cell): change -> (called different, of a change rightly; comparisons; seconds)."""
    out: dict[tuple[str, str], dict[int, tuple[int, int, float]]] = {}
    for x in lines:
        at = out.setdefault((str(x["tool"]), str(x["cell"])), {})
        said, count, seconds = at.get(int(x["change"]), (0, 0, 0.0))
        hit = x["said"] != 0 if x["change"] == 0 else x["said"] == 1
        at[int(x["change"])] = (said + int(hit), count + 1, seconds + x["seconds"])
    return out


def table(lines: Sequence[dict[str, float]]) -> list[str]:
    found = rates(lines)
    changes = sorted({c for at in found.values() for c in at})
    head = ["tool", "workload", *(f"{c / 10:g} %" if c else "identical" for c in changes), "seconds each"]
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for (tool, cell), at in sorted(found.items(), key=lambda item: (item[0][1], item[0][0])):
        cells = [f"{at[c][0]} of {at[c][1]}" if c in at else "" for c in changes]
        mean = sum(a[2] for a in at.values()) / sum(a[1] for a in at.values())
        out.append("| " + " | ".join([tool, cell, *cells, f"{mean:.1f}"]) + " |")
    return out


def picture(lines: Sequence[dict[str, float]]) -> str:
    """The share called different against the change, one panel a workload."""
    found = rates(lines)
    cells = sorted({cell for _, cell in found})
    colours = {
        "latlab": "#0b6",
        "pyperf": "#c33",
        "hyperfine": "#36c",
        "google": "#a60",
        "pytest-benchmark": "#939",
    }
    changes = sorted({c for at in found.values() for c in at})
    width, height, left = 300, 200, 40
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{len(cells) * (width + left) + 20}" '
        f'height="{height + 70}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for index, cell in enumerate(cells):
        x0 = left + index * (width + left)

        def x(change: int, x0: int = x0) -> float:
            return x0 + 10 + changes.index(change) * (width - 40) / max(1, len(changes) - 1)

        def y(rate: float) -> float:
            return 30 + height * (1 - rate)

        out.append(f'<text x="{x0}" y="18" font-weight="bold">{cell}</text>')
        for rate in (0, 0.5, 1):
            out.append(
                f'<line x1="{x0}" x2="{x0 + width - 20}" y1="{y(rate)}" y2="{y(rate)}" stroke="#ddd"/>'
            )
            out.append(f'<text x="{x0 - 34}" y="{y(rate) + 4}">{rate:.0%}</text>')
        for change in changes:
            name = f"{change / 10:g} %" if change else "same"
            out.append(f'<text x="{x(change) - 10}" y="{height + 48}">{name}</text>')
        for row, ((tool, of), at) in enumerate(sorted(t for t in found.items() if t[0][1] == cell)):
            points = " ".join(f"{x(c):.1f},{y(at[c][0] / at[c][1]):.1f}" for c in sorted(at))
            out.append(f'<polyline points="{points}" fill="none" stroke="{colours[tool]}" stroke-width="2"/>')
            out.append(f'<text x="{x0 + 60 + 70 * row}" y="18" fill="{colours[tool]}">{tool}</text>')
            assert of == cell
    return "\n".join([*out, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()
