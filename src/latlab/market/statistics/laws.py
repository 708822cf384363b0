"""How unequal symbols are: which law their counts follow, and how events bunch in time."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.errors import InputError, UsageError
from latlab.market.records.decoding import read_events
from latlab.market.statistics.stats import AGGREGATE, COLUMNS
from latlab.model.market import CountFit, CountLaw, Microbursts, StatisticsTable

Counts = npt.NDArray[np.float64]
_LEAST_SYMBOLS = 20
_BINS = 50
_WINDOW_NS = 100_000_000_000


def read_statistics(path: str | PathLike[str]) -> StatisticsTable:
    """A table that `latlab market stats` wrote, or another with its column names (*.csv, *.csv.gz).

    Raises:
        InputError: it can't be read, lacks a column, or holds something else than numbers.
    """
    try:
        raw = Path(path).read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
        rows = list(csv.reader(io.StringIO(text)))
    except (OSError, EOFError, UnicodeDecodeError, gzip.BadGzipFile, csv.Error) as error:
        raise InputError(path, f"can't be read as statistics: {error}") from error
    header = rows[0] if rows else []
    if missing := [name for name in COLUMNS if name not in header]:
        raise InputError(path, f"is not a table of statistics: column {missing[0]} is missing")
    places = {name: header.index(name) for name in COLUMNS[1:]}
    kept = [row for row in rows[1:] if row]
    try:
        columns = {name: np.array([float(row[at]) for row in kept]) for name, at in places.items()}
        names = tuple(row[header.index("Name")] for row in kept)
    except (ValueError, IndexError) as error:
        raise InputError(path, f"is not a table of statistics: {error}") from error
    return StatisticsTable(names, columns)


def without_aggregate(table: StatisticsTable) -> StatisticsTable:
    """The symbols alone."""
    keep = np.array([name != AGGREGATE for name in table.names], bool)
    names = tuple(name for name in table.names if name != AGGREGATE)
    return StatisticsTable(names, {name: column[keep] for name, column in table.columns.items()})


def fit_counts(table: StatisticsTable) -> CountFit:
    """Which law the symbols' counts follow: a chi-square test of the geometric, and likelihoods of others.

    Every law is fitted by maximum likelihood to the symbols that have any event; counts are taken as
    continuous, but for the geometric. Laws are compared with the likeliest by Vuong's test of the ratio of
    likelihoods (Vuong, Likelihood ratio tests for model selection and non-nested hypotheses, Econometrica 57
    (1989)), as Clauset, Shalizi and Newman do for power laws (Power-law distributions in empirical data, SIAM
    Review 51 (2009)).

    Raises:
        UsageError: there are too few symbols for a fit.
    """
    from scipy import stats as distributions

    counts = without_aggregate(table).columns["NSamples"]
    counts = counts[counts > 0]
    if len(counts) < _LEAST_SYMBOLS or counts.min() == counts.max():
        raise UsageError(f"a fit needs {_LEAST_SYMBOLS} symbols of different counts, not {len(counts)}")
    share = 1.0 / counts.mean()
    laws = sorted(_laws(counts), key=lambda law: law[2].sum(), reverse=True)
    best = laws[0][2]
    fitted = []
    for name, parameters, logs, cumulative in laws:
        ratio = best - logs
        spread = float(ratio.std()) * np.sqrt(len(counts))
        z = float(ratio.sum() / spread) if spread > 0 else 0.0
        p = float(2 * distributions.norm.sf(abs(z))) if spread > 0 else 1.0
        total = float(logs.sum())
        fitted.append(CountLaw(name, parameters, total, 2 * len(parameters) - 2 * total, z, p, cumulative))
    # Bins that the geometric fills equally: each expects as many symbols.
    bins = min(_BINS, len(counts) // 5)
    inner = distributions.geom.ppf(np.arange(1, bins) / bins, share)
    edges = np.unique(np.concatenate([[0.0], inner, [np.inf]]))
    expected = np.diff(distributions.geom.cdf(edges, share)) * len(counts)
    # Counts are whole: (low, high] of each bin.
    place = np.searchsorted(edges, counts, side="left") - 1
    observed = np.bincount(place, minlength=len(expected))
    chi_square = float(((observed - expected) ** 2 / expected).sum())
    freedom = max(1, len(expected) - 2)
    return CountFit(
        symbols=len(counts),
        chi_square=chi_square,
        degrees_of_freedom=freedom,
        p_value=float(distributions.chi2.sf(chi_square, freedom)),
        laws=tuple(fitted),
    )


_Law = tuple[str, dict[str, float], Counts, Callable[[Any], Any]]


def _laws(counts: Counts) -> list[_Law]:
    from scipy import stats as distributions

    share = 1.0 / counts.mean()
    geometric = distributions.geom(share)
    found: list[_Law] = [("geometric", {"p": share}, geometric.logpmf(counts), geometric.cdf)]
    logs = np.log(counts)
    frozen = distributions.lognorm(s=logs.std(), scale=np.exp(logs.mean()))
    found.append(("lognormal", {"mu": logs.mean(), "sigma": logs.std()}, frozen.logpdf(counts), frozen.cdf))
    least = float(counts.min())
    alpha = len(counts) / np.log(counts / least).sum()
    pareto = distributions.pareto(alpha, scale=least)
    found.append(("power law", {"alpha": alpha, "least": least}, pareto.logpdf(counts), pareto.cdf))
    for name, family in (("Weibull", distributions.weibull_min), ("gamma", distributions.gamma)):
        shape, _, scale = family.fit(counts, floc=0)
        law = family(shape, scale=scale)
        found.append((name, {"shape": shape, "scale": scale}, law.logpdf(counts), law.cdf))
    return [(name, {k: float(v) for k, v in ps.items()}, np.asarray(ls), cdf) for name, ps, ls, cdf in found]


def microbursts(path: str | PathLike[str], *, lenient: bool = False) -> Microbursts:
    """Messages in the busiest millisecond, and in the mean one, of every 100 seconds.

    Milliseconds begin at whole ones of the feed's clock.

    Raises:
        InputError: the input is bad.
    """
    windows: dict[int, tuple[int, int]] = {}
    last, pending = -1, 0

    def close(ms: int, count: int) -> None:
        window = ms * 1_000_000 // _WINDOW_NS
        most, total = windows.get(window, (0, 0))
        windows[window] = (max(most, count), total + count)

    for events in read_events(path, lenient=lenient):
        values, counts = np.unique(events["ts_ns"] // np.uint64(1_000_000), return_counts=True)
        for ms, count in zip(values.tolist(), counts.tolist(), strict=True):
            if ms == last:
                pending += count
                continue
            if pending:
                close(last, pending)
            last, pending = ms, count
    if pending:
        close(last, pending)
    order = sorted(windows)
    return Microbursts(
        at_s=tuple(window * _WINDOW_NS / 1e9 for window in order),
        mean_per_ms=tuple(windows[window][1] / (_WINDOW_NS / 1e6) for window in order),
        most_in_ms=tuple(windows[window][0] for window in order),
    )
