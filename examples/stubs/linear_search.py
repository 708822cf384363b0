"""The stub of a linear search costs the same however long the search is.

Builds linear_search.cpp with the specification that latlab writes for the class, runs it, and draws time a
call over the number of entries, original and stub: python examples/stubs/linear_search.py [FOLDER]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import latlab
from latlab.reports.html import Page
from latlab.stubs.components.cxx_spec import spec

HERE = Path(__file__).parent
INCLUDE = Path(latlab.__file__).parent / "include"


def measured(folder: Path) -> dict[str, dict[int, list[float]]]:
    """Nanoseconds a call of every run, by what was called and the number of entries."""
    text, marked = spec(HERE / "connections.hpp", "Connection")
    assert marked == 0
    (folder / "connections_spec.hpp").write_text(text)
    program = folder / "linear_search"
    subprocess.run(
        ["g++", "-std=c++20", "-O2", f"-I{INCLUDE}", f"-I{HERE}", f"-I{folder}",
         str(HERE / "linear_search.cpp"), "-o", str(program)],
        check=True,
    )  # fmt: skip
    done = subprocess.run([program, folder / "trace"], check=True, capture_output=True, text=True)
    found: dict[str, dict[int, list[float]]] = {"original": defaultdict(list), "stub": defaultdict(list)}
    for line in done.stdout.splitlines():
        entries, what, _, ns = line.split(";")
        found[what][int(entries)].append(float(ns))
    return found


def summary(runs: list[float]) -> tuple[float, float, float, float]:
    """Minimum, average, maximum, squared coefficient of variation (variance / mean²)."""
    mean = sum(runs) / len(runs)
    variance = sum((one - mean) ** 2 for one in runs) / (len(runs) - 1)
    return min(runs), mean, max(runs), variance / mean**2


def curve(name: str, runs: dict[int, list[float]], colour: str) -> list[dict[str, object]]:
    entries = sorted(runs)
    low, mean, high, _ = zip(*(summary(runs[n]) for n in entries), strict=True)
    band = {
        "x": [*entries, *reversed(entries)], "y": [*high, *reversed(low)], "fill": "toself", "mode": "lines",
        "line": {"width": 0}, "fillcolor": colour, "opacity": 0.25, "showlegend": False,
    }  # fmt: skip
    line = {"x": entries, "y": list(mean), "name": name, "mode": "lines+markers", "line": {"color": colour}}
    return [band, line]


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    with tempfile.TemporaryDirectory() as build:
        found = measured(Path(build))
    rows = []
    for entries in sorted(found["original"]):
        rows.append(
            [entries, *(f"{x:.3g}" for what in ("original", "stub") for x in summary(found[what][entries]))]
        )
    original, stub = found["original"][400], found["stub"][400]
    page = Page(
        "What does the search itself cost?", "Connections::get(id), the last entry, five runs of 2000 calls"
    )
    page.verdict(
        f"With 400 entries a call takes {summary(original)[1]:.0f} ns, and its stub "
        f"{summary(stub)[1]:.1f} ns, which doesn't depend on the number of entries.",
        "good",
    )
    data = curve("original", found["original"], "#2563a8") + curve("stub", found["stub"], "#d97706")
    layout = {
        "xaxis": {"title": {"text": "entries"}},
        "yaxis": {"title": {"text": "ns a call"}, "type": "log"},
    }
    page.figure(
        {"data": data, "layout": layout}, "Average of five runs; the band goes from minimum to maximum."
    )
    names = [f"{what} {one}" for what in ("original", "stub") for one in ("min", "avg", "max", "cv²")]
    page.table(
        ["entries", *names], rows, "ns a call; cv² is the squared coefficient of variation over the runs."
    )
    page.write(folder / "linear-search.html")
    for row in (rows[0], rows[len(rows) // 2], rows[-1]):
        print(*row, sep="\t")


if __name__ == "__main__":
    main()
