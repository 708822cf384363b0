"""The report of a comparison: a reviewer's twelve questions, and every plot, from the raw results alone."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latlab.model.bench import Sample
from latlab.model.machine.environment import Environment
from latlab.reports.bench import text as bench_text
from latlab.reports.html import Page
from latlab.reports.markdown import MarkdownPage
from latlab.reports.sections.figures import Figure, boxes
from latlab.stats.variance import autocorrelation, midmean
from latlab.words import duration, relative, share

__all__ = ["comparison_page", "study_page"]

Pairs = Sequence[tuple[Sample, Sample]]
# The user's own words: keys of `report` in the benchmark's file.
OWN_WORDS = (
    ("context", "1. What is the context?"),
    ("problem", "2. What problem is solved?"),
    ("why", "3. Why does efficiency matter?"),
    ("weakness", "4. What does the code do, and where should it be weak?"),
)
_TONES = {"faster": "good", "slower": "bad", "mixed": "bad", "equivalent": "good"}


def comparison_page(
    documents: Sequence[Mapping[str, Any]],
    pairs: Mapping[str, Pairs],
    meta: Mapping[str, Any],
    sheet: type[Page] | type[MarkdownPage],
) -> Page | MarkdownPage:
    """The report of `bench ab`.

    Args:
        documents: verdicts, from `bench_text.judgement_json`.
        pairs: (A, B) of each comparison by name, in the order measured.
        meta: the raw results' description: what was asked, the user's words, the environment.
        sheet: `Page` for HTML, or `MarkdownPage`.
    """
    asked, words = meta.get("asked", {}), meta.get("report", {})
    page = sheet(f"Is {asked.get('b')} faster than {asked.get('a')}?", "compared by latlab bench ab")
    for document in documents:
        tone: Any = _TONES.get(document["verdict"], "plain")
        lines = bench_text.judgement_text({**document, "shifts": [], "plan": None}).splitlines()
        page.verdict("\n\n".join([_finding(document), *(line.strip() for line in lines[1:])]), tone)
    for key, question in OWN_WORDS:
        page.section(
            question, str(words.get(key, f"Not said: add '{key}' to `report` in the benchmark's file."))
        )
    first = documents[0]
    plan = first.get("plan") or {}
    page.section(
        "5. How is time measured, why so, and how are outside variables controlled?",
        "By the time-stamp counter, tied to CLOCK_MONOTONIC over the measured interval; its step and the "
        "cost of a reading are measured and stated below. Iterations shorter than a thousand steps are "
        "batched. Each measurement is a fresh process on one processor, at real-time priority and with "
        "locked memory where that is allowed; set-up is outside of the measured time; processes of the two "
        "sides are interleaved in an order that a coin decides. "
        + (
            f"The two processes of a pair take turns of {bench_text.counted(plan['turn'], 'iteration')}, so "
            "that drift cancels between them; the coin says which begins."
            if plan.get("turn")
            else "One process of a pair runs after the other, in blocks ABBA or BAAB, so that drift cancels."
        ),
    )
    shown = (
        "processes",
        "iterations",
        "quantum_ns",
        "read_ns",
        "effective_share",
        "humps",
        "iteration_humps",
        "warm_up_until",
    )
    rows = [
        (d["name"], side, *(_look(key, look.get(key)) for key in shown))
        for d in documents
        for side, look in d["details"].items()
        if side in ("A", "B") and look
    ]
    columns = ("comparison", "side", "processes", "iterations", "clock step", "a reading")
    page.table([*columns, "effective", "humps", "of iterations", "warm-up"], rows)
    page.section(
        "6. What is success, and is the effect interesting?",
        "Success is a verdict: faster, slower, or equivalent within the smallest effect that matters, which "
        "is " + "; ".join(f"for {d['name']}, {d['smallest_effect_why']}" for d in documents) + ".",
    )
    page.section(
        "7. What does faster mean here?",
        "The time of one operation in a process, by two numbers: the mean of the middle half of its "
        "iterations, and the mean of their fastest quarter, which a disturbed machine moves least. B is "
        "faster if the shift of their logarithms over process pairs is below 0; where the two have no shift "
        "in common, the first alone counts. The other quantiles have intervals of their own:",
    )
    shifts = [
        (d["name"], s["quantile"], *map(_percent, (s["effect"], *s["interval"])), s["withheld"] or "")
        for d in documents for s in d["shifts"]
    ]  # fmt: skip
    page.table(("comparison", "quantile", "relative shift", "from", "to", "withheld"), shifts)
    page.section(
        "8. Which inputs, and why do they represent?",
        str(
            words.get(
                "inputs",
                f"Parameters and seed as below (seed {asked.get('seed')}); the file doesn't say more.",
            )
        ),
    )
    page.section(
        "9. Is the power sufficient?",
        "\n\n".join(
            f"{d['name']}: {(d.get('plan') or {}).get('why', 'no pilot was recorded')}." for d in documents
        ),
    )
    levels = [row for d in documents for row in _levels(d)]
    if levels:
        page.table(("comparison", "level", "relative deviation", "needed", "a piece takes"), levels)
    page.section("10. Is the effect significant?")
    verdicts = [
        (
            d["name"],
            d["verdict"],
            *map(_percent, (d["effect"], *d["interval"])),
            d["p_value"],
            d["pairs"],
            d["needed_pairs"],
            d["why"],
        )
        for d in documents
    ]
    page.table(("comparison", "verdict", "effect", "from", "to", "p", "pairs", "needed", "why"), verdicts)
    warnings = [(d["name"], warning) for d in documents for warning in d["warnings"]]
    if warnings:
        page.table(("comparison", "to be kept in mind"), warnings)
    page.section(
        "11. Why these statistics?",
        "Processes are the replicates, since iterations share layout and state. The test bets on "
        "the signs that the coin "
        "gave (an anytime-valid test: Ramdas et al. 2020, Waudby-Smith and Ramdas 2024), so it "
        "holds under heavy "
        "tails, drift and autocorrelation, and one may stop at any pair. Several comparisons are adjusted by "
        "Benjamini and Hochberg's procedure.",
    )
    for name, measured in pairs.items():
        _plots(page, name, measured)
    page.section("12. How can it be reproduced?", "By the command, the versions and the seed below.")
    command = " ".join(
        ["latlab bench ab", shlex.quote(str(asked.get("a"))), shlex.quote(str(asked.get("b")))]
        + [f"--param {k}={v}" for k, v in asked.get("parameters", {}).items()]
        + ([] if asked.get("early", True) else ["--keep-going"])
        + ([f"--build {shlex.quote(asked['build'])}"] if asked.get("build") else [])
        + ([f"--effect {asked['smallest_effect']}"] if asked.get("smallest_effect") is not None else [])
        + [f"--alpha {asked.get('alpha')} --power {asked.get('power', 0.9)}"]
        + [f"--seconds {asked.get('seconds')} --seed {asked.get('seed')}"]
        + ([f"--pairs {asked['max_pairs']}"] if asked.get("max_pairs", 100_000) < 100_000 else [])
        + ([f"--iterations {asked['iterations']}"] if asked.get("iterations") is not None else [])
        + _measuring(meta.get("settings", {}))
    )
    environment = Environment.from_json(meta["environment"])
    page.reproduce(command, environment, asked.get("seed"), dict(asked))
    return page


def _finding(document: Mapping[str, Any]) -> str:
    """The verdict as a heading: "Before / After: B takes 51.2 % less time than A (faster)"."""
    effect = document["effect"]
    if effect is None or document["verdict"] not in ("faster", "slower"):
        return f"{document['name']}: {document['verdict']}"
    more = "less" if effect < 0 else "more"
    return f"{document['name']}: B takes {relative(abs(effect))} {more} time than A ({document['verdict']})"


def _percent(value: float | None) -> str | None:
    return None if value is None else relative(value, signed=True)


def _look(key: str, value: Any) -> Any:
    """A quantity of one side, as the table shows it."""
    if key.endswith("_ns"):
        return duration(value)
    return share(value) if key == "effective_share" else value


def _measuring(settings: Mapping[str, Any]) -> list[str]:
    """The options that bring about the settings of a run; an older one didn't keep them."""
    out = [f"--cpus {settings['cpu']}"] if settings.get("cpu") is not None else []
    if settings.get("cpus"):
        out = [f"--cpus {','.join(map(str, settings['cpus']))}"]
    out += [f"--warmup {settings['warmup']}"] if "warmup" in settings else []
    out += [f"--batch {settings['batch']}"] if settings.get("batch") else []
    out += ["--scheduling other"] if settings.get("priority") == 0 else []
    return out + (["--no-lock-memory"] if settings.get("lock_memory") is False else [])


def _levels(document: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """What the pilot found of builds, processes and iterations, and how many of each the plan asks for."""
    plan = document.get("plan") or {}
    if "block_pairs" not in plan:  # measured by an older version
        return []
    built = plan["build_deviation"] is not None
    unit = f"turns of {bench_text.counted(plan['turn'], 'iteration')}" if plan["turn"] else "iterations"
    rows = [
        (
            "builds",
            relative(plan["build_deviation"]) if built else "not asked for by --build",
            "-" if plan["builds"] is None else f"{plan['builds']} a side",
            duration(1e9 * plan["build_s"]) if built else "-",
        ),
        (
            "process pairs",
            relative(plan["process_deviation"]),
            "-" if plan["pairs"] is None else f"{plan['pairs']}, {plan['block_pairs']} a block",
            duration(1e9 * plan["pair_s"]),
        ),
        (
            unit,
            relative(plan["iteration_deviation"]),
            f"{plan['iterations']} iterations a process",
            "-",
        ),
    ]
    return [(document["name"], *row) for row in rows]


def _plots(page: Page | MarkdownPage, name: str, pairs: Pairs) -> None:
    sides = {side: [pair[i] for pair in pairs] for i, side in enumerate("AB")}
    page.section(f"{name}: the distributions")
    every = {side: np.concatenate([s.times_ns for s in samples]) for side, samples in sides.items()}
    page.figure(boxes(every, "ns an operation", log_y=True), "Every iteration.")
    typical = {side: np.array([midmean(s.times_ns) for s in samples]) for side, samples in sides.items()}
    violins = [
        {
            "type": "violin",
            "name": side,
            "y": values,
            "box": {"visible": True},
            "meanline": {"visible": False},
        }
        for side, values in typical.items()
    ]
    page.figure(_figure(violins, "", "ns an operation"), "The processes' typical times.")
    page.figure(_densities(every), "Density of every iteration below its 99th percentile.")
    runs = [
        {"type": "scatter", "mode": "markers", "name": side, "x": np.arange(len(v)), "y": v}
        for side, v in typical.items()
    ]
    page.figure(_figure(runs, "pair", "ns an operation"), "Run sequence: a drift or a step would show here.")
    lags = []
    for side, samples in sides.items():
        rho = autocorrelation(samples[0].times_ns, 40)
        lags.append({"type": "bar", "name": side, "x": np.arange(len(rho)), "y": rho})
    page.figure(_figure(lags, "lag", "correlation"), "Autocorrelation of the first process's iterations.")


def _densities(every: Mapping[str, Any]) -> Figure:
    top = max(float(np.quantile(v, 0.99)) for v in every.values())
    low = min(float(v.min()) for v in every.values())
    top = max(top, low * (1 + 1e-9))
    step = (top - low) / 80
    edges = np.linspace(low - step, top + step, 83)  # so that a line begins and ends at 0
    data = []
    for side, values in every.items():
        counts, _ = np.histogram(values, edges)
        share = counts / max(1, len(values)) / np.diff(edges)
        line = {"shape": "hvh"}
        data.append(
            {"type": "scatter", "name": side, "x": (edges[1:] + edges[:-1]) / 2, "y": share, "line": line}
        )
    return _figure(data, "ns an operation", "density")


def _figure(data: list[dict[str, Any]], x_title: str, y_title: str) -> Figure:
    axes = {"xaxis": {"title": {"text": x_title}}, "yaxis": {"title": {"text": y_title}}}
    return {"data": data, "layout": {**axes, "showlegend": len(data) > 1}}


def study_page(document: Mapping[str, Any], times: Mapping[str, Any], meta: Mapping[str, Any]) -> Page:
    """The report of `bench study`.

    Args:
        document: the study's.
        times: every iteration of each combination, by its label, in nanoseconds.
        meta: what was asked, and the environment.
    """
    page = Page("Under which conditions do times scatter least?", f"{meta['asked'].get('fixture')}")
    page.verdict(document["recommendation"])
    rows = [
        (", ".join(f"{k} {v}" for k, v in row["levels"].items()), row["processes"], row["p50_ns"],
         f"{share(row['iqr'], digits=2)}", f"{share(row['process_iqr'], digits=2)}")
        for row in document["combinations"]
    ]  # fmt: skip
    page.section("Interquartile ranges", "Relative to the median; least scatter first.")
    page.table(("conditions", "processes", "p50 ns", "of iterations", "of processes"), rows)
    page.section("Boxplots", "Every iteration: quartiles, whiskers at p1 and p99, extremes as points.")
    page.figure(boxes(times, "ns an operation", log_y=True), height=max(360, 30 * len(times)))
    page.section("Factors", "The median over combinations of the interquartile range, by level.")
    page.table(
        ("factor", "level", "interquartile range"),
        [
            (f, level, f"{share(iqr, digits=2)}")
            for f, levels in document["effects"].items()
            for level, iqr in levels.items()
        ],
    )
    page.section("What the levels were seen to do", "Each was tried before the study, where it measures.")
    page.table(("factor", "level", "seen"), bench_text.study_findings(document))
    page.table(("unavailable", "why"), list(document["unavailable"].items()))
    page.reproduce(
        f"latlab bench study {meta['asked'].get('fixture')}", Environment.from_json(meta["environment"]),
        meta["asked"].get("seed"), dict(meta["asked"]),
    )  # fmt: skip
    return page
