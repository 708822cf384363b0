"""Statistics of a day's symbols as a page: how unequal they are, and how events bunch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from latlab.model.market import CountFit, Microbursts, StatisticsTable
from latlab.reports.html import Page
from latlab.reports.sections.figures import Figure

__all__ = ["statistics_page"]

_Values = npt.NDArray[np.float64]
_LABELLED = 12
_DRAWN_LAWS = ("geometric", "lognormal", "power law", "Weibull")


def statistics_page(
    title: str, symbols: StatisticsTable, fit: CountFit | None, bursts: Microbursts | None
) -> Page:
    """The page of a statistics table.

    Args:
        title: what it is of.
        symbols: without the aggregate.
        fit: of the counts; None where there are too few symbols.
        bursts: None where only the table is known.
    """
    counts = symbols.columns["NSamples"]
    page = Page(title, f"{len(symbols.names):,} symbols, {int(counts.sum()):,} events")
    if fit is not None:
        best = fit.laws[0]
        page.verdict(
            f"Of the laws tried, the {best.name} fits the counts best. The geometric is "
            + ("refuted" if fit.p_value < 0.01 else "not refuted")
            + f": chi-square {fit.chi_square:,.0f} with {fit.degrees_of_freedom} degrees of freedom."
        )
    page.section("How many events a symbol has", "Symbols by their number of events, the aggregate left out.")
    page.figure(_histogram(counts, fit), "Bars: symbols. Lines: what each fitted law expects. Both axes log.")
    if fit is not None:
        rows = [
            [
                law.name,
                ", ".join(f"{k} {v:.4g}" for k, v in law.parameters.items()),
                f"{law.log_likelihood:,.1f}",
                f"{law.aic:,.1f}",
                f"{law.vuong_z:.2f}",
                f"{law.vuong_p:.2g}",
            ]
            for law in fit.laws
        ]
        columns = ["law", "parameters", "log-likelihood", "AIC", "z behind the best", "p"]
        page.table(columns, rows, "Fitted by maximum likelihood; compared by Vuong's test.")
    page.section(
        "Busy seconds",
        "The rate that a symbol's trailing second exceeds for 0.1 % of the time, against its events in all.",
    )
    page.figure(_busiest(symbols), "Each point is a symbol; the busiest have their names.", height=460)
    if bursts is not None and bursts.at_s:
        page.section("Microbursts", "Stretches of 100 seconds: the busiest millisecond against the mean one.")
        page.figure(_bursts(bursts), "The distance between the lines is what an average hides.")
    return page


def _histogram(counts: _Values, fit: CountFit | None) -> Figure:
    some = counts[counts > 0]
    if not len(some):
        return {"data": [], "layout": {}}
    edges = np.unique(np.round(np.geomspace(some.min(), some.max() + 1, 51)))
    if len(edges) < 2:
        edges = np.array([some.min(), some.min() + 1])
    seen, _ = np.histogram(some, edges)
    middle = np.sqrt(edges[:-1] * edges[1:])
    width = np.diff(edges)
    data = [{"type": "bar", "name": "symbols", "x": middle, "y": seen, "width": width, "opacity": 0.55}]
    for law in fit.laws if fit is not None else ():
        if law.name not in _DRAWN_LAWS:
            continue
        # Bins hold whole counts from one edge up to the next.
        expected = np.diff(law.cumulative(edges - 0.5)) * len(some)
        drawn = expected > 0.05
        line = {"type": "scatter", "mode": "lines", "name": law.name}
        data.append({**line, "x": middle[drawn], "y": expected[drawn]})
    layout = {
        "xaxis": {"title": {"text": "events of a symbol"}, "type": "log"},
        "yaxis": {"title": {"text": "symbols"}, "type": "log"},
        "bargap": 0,
        "showlegend": True,
    }
    return {"data": data, "layout": layout}


def _busiest(symbols: StatisticsTable) -> Figure:
    counts, rate = symbols.columns["NSamples"], symbols.columns["p999RatePerSec"]
    shown = np.flatnonzero((counts > 0) & (rate > 0))
    order = shown[np.argsort(counts[shown])[::-1]]
    label = _labels([symbols.names[i] for i in order], np.log10(counts[order]), np.log10(rate[order]))
    data = [
        {
            "type": "scatter",
            "mode": "markers+text",
            "name": "symbols",
            "x": counts[order],
            "y": rate[order],
            "text": label,
            "hovertext": [symbols.names[i] for i in order],
            "textposition": "top left",
            "marker": {"size": 4, "opacity": 0.5},
        }
    ]
    layout = {
        "xaxis": {"title": {"text": "events of a symbol"}, "type": "log"},
        "yaxis": {"title": {"text": "p99.9 of events in a second"}, "type": "log"},
        "showlegend": False,
    }
    return {"data": data, "layout": layout}


def _labels(names: list[str], x: _Values, y: _Values) -> list[str]:
    """The names of the first that have room beside one another, and blanks; x and y in decades."""
    label = [""] * len(names)
    taken: list[int] = []
    for i in range(min(len(names), 10 * _LABELLED)):
        if len(taken) < _LABELLED and all(abs(x[i] - x[k]) > 0.3 or abs(y[i] - y[k]) > 0.17 for k in taken):
            label[i] = names[i]
            taken.append(i)
    return label


def _bursts(bursts: Microbursts) -> Figure:
    hours = [at / 3600 for at in bursts.at_s]
    lines = {"type": "scatter", "mode": "lines+markers", "marker": {"size": 3}}
    data = [
        {**lines, "name": "busiest millisecond", "x": hours, "y": list(bursts.most_in_ms)},
        {**lines, "name": "mean millisecond", "x": hours, "y": list(bursts.mean_per_ms)},
    ]
    layout = {
        "xaxis": {"title": {"text": "hour of the day"}},
        "yaxis": {"title": {"text": "messages in a millisecond"}, "type": "log"},
        "showlegend": True,
    }
    return {"data": data, "layout": layout}
