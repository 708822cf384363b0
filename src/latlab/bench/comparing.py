"""`compare`: two pieces of code, measured in interleaved processes by one call from Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from latlab.bench.measuring.experiment import Asked, Comparison, drawn_seed, run_suite
from latlab.bench.measuring.plain import default_settings
from latlab.bench.results.api import couples_of, with_discovery_rate
from latlab.bench.results.recorder import Recorder
from latlab.bench.results.targets import parse
from latlab.model.bench import Judgement
from latlab.model.framed import Framed
from latlab.words import share

__all__ = ["Compared", "compare"]


@dataclass(frozen=True, repr=False)
class Compared(Framed):
    """What became faster or slower, by the name of the benchmark.

    Attributes:
        judged: the judgement of each, with everything that a reader may doubt.
    """

    judged: Mapping[str, Judgement]

    @property
    def finding(self) -> str:
        """The verdicts."""
        return "; ".join(
            f"{name}: {one.result.verdict}"
            + ("" if one.result.effect is None else f" {share(one.result.effect, signed=True)}")
            for name, one in self.judged.items()
        )

    def columns(self) -> dict[str, list[Any]]:
        """One row a benchmark: effects are relative changes of B's time, with their interval; times in ns."""
        results = [one.result for one in self.judged.values()]
        return {
            "benchmark": list(self.judged),
            "verdict": [str(one.verdict) for one in results],
            "effect": [one.effect for one in results],
            "low": [one.interval[0] for one in results],
            "high": [one.interval[1] for one in results],
            "p_value": [one.p_value for one in results],
            "pairs": [one.pairs for one in results],
            "a_ns": [one.typical_ns[0] for one in self.judged.values()],
            "b_ns": [one.typical_ns[1] for one in self.judged.values()],
        }

    def _bars(self) -> str:
        return "effect"


def compare(
    a: str,
    b: str,
    *,
    seconds: float = 10.0,
    smallest_effect: float | None = None,
    parameters: Mapping[str, Any] | None = None,
    seed: int | None = None,
    control: bool = True,
) -> Compared:
    """Compare A with B in interleaved process pairs, as `latlab bench ab` does.

    Args:
        a: FILE.py[:Fixture], FILE.so[:Fixture or symbol], PROGRAM[:Fixture], or a command line.
        b: likewise; it is judged against A.
        seconds: budget of a comparison.
        smallest_effect: the relative change that matters; None: 1 %, or up to 5 % where the
            budget can't tell less.
        parameters: of the fixtures, by name.
        seed: of the order of the sides; None: drawn anew by each call.
        control: whether a host that failed `latlab bench aa` gets no verdict.

    Raises:
        UsageError: the two don't go together.
        LatlabError: no comparison could be judged.
    """
    couples, _report = couples_of(parse(a, parameters or {}), parse(b, parameters or {}))
    asked = Asked(
        seconds=seconds, smallest_effect=smallest_effect, seed=drawn_seed() if seed is None else seed
    )
    suite = run_suite(
        {name: Comparison(one, other) for name, (one, other) in couples.items()},
        default_settings(),
        asked,
        Recorder(),
        control=control,
    )
    if not suite.judged:
        raise next(iter(suite.failed.values()))
    return Compared(with_discovery_rate(suite.judged))
