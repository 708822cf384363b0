"""How steady is the machine's own speed, and what does the pipeline at full load make of it?

    python -m benchmarks.machine_speed [--rounds N]

Each round takes work in registers, reads in random order from memory of three sizes, and a run of the trading
pipeline as fast as it takes its input. Neither stolen time nor a clock shows a neighbour on the host who
shares a core or the last-level cache: only such times do. It has no bar: nothing of it is latlab's doing.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks._options import parser_of
from latlab.lab.forecast.one_speed import varied
from latlab.lab.forecast.stage_runs import Stubbing, measure_unmodified
from latlab.lab.trading.demo import DemoOptions, feeds_for
from latlab.model.diagnosis.layout import Layout
from latlab.system.core_speed import CacheSpeed, CoreSpeed
from latlab.system.environment import capture

_SIZES = {"512 KiB": 1 << 19, "6 MiB": 6 << 20, "128 MiB": 128 << 20}
_READS = 200_000
_BLOCK = 10  # rounds


def _deviation(values: NDArray[np.float64]) -> float:
    """The standard deviation, as a share of the mean."""
    return float(values.std(ddof=1) / values.mean()) if values.size > 1 and values.mean() else 0.0


def main() -> None:
    """Measure in rounds, print a row each and how much they vary."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    speed = CoreSpeed(sorted(os.sched_getaffinity(0)))
    memories = {name: CacheSpeed(size, _READS) for name, size in _SIZES.items()}
    measures = ["work, µs", *(f"a read from {name}, ns" for name in _SIZES)]
    rows: dict[str, list[float]] = {
        name: [] for name in (*measures, "events/s at full load", "taken, share of the CPUs")
    }
    with tempfile.TemporaryDirectory() as temporary:
        demo = DemoOptions(layout=Layout(), seconds=2.5, output=Path(temporary) / "unused")
        feeds = feeds_for(demo, Path(temporary), lambda _: None)
        stubbing = Stubbing(demo.layout, feeds, demo.seconds, capture(), demo.seed)
        for _ in range(options.rounds):
            speed.look()
            rows["work, µs"].append(float(np.mean([looks[-1] for looks in speed.looks.values()])) / 1e3)
            for name, memory in memories.items():
                rows[f"a read from {name}, ns"].append(memory.look())
            run = measure_unmodified(stubbing, "decoder", 0, 1)[1][0]
            rows["events/s at full load"].append(run.rate_hz)
            rows["taken, share of the CPUs"].append(run.taken)
    print(f"{options.rounds} rounds: least, median, most; deviation of one, and of the mean of {_BLOCK}")
    for name, row in rows.items():
        values = np.array(row)
        blocks = values[: len(values) // _BLOCK * _BLOCK].reshape(-1, _BLOCK).mean(axis=1)
        shown = "".join(f"{value:12,.4g}" for value in (values.min(), np.median(values), values.max()))
        print(f"{name:28} {shown} {_deviation(values):9.1%} {_deviation(blocks):7.1%}")
    if (seen := speed.varied()) is not None:
        print(varied(*seen))


if __name__ == "__main__":
    main()
