"""What a comparison of two benchmarks is to be read with."""

from __future__ import annotations

from latlab.model.evidence.said import Kind

__all__ = ["BenchWarning"]


class BenchWarning(Kind):
    """What a reader of a verdict should know; each with what to do, where something helps."""

    OF_SIDE = "{side}: {warning}"
    WARMING_UP = "a process is still warming up until iteration {iteration}; raise --warmup"
    DRIFT = (
        "the level changed during the experiment (at process {processes}); pairs cancel it, single runs don't"
    )
    GROUPS = "processes fall into {groups} groups; see the report's densities, and compare layouts"
    ITERATION_GROUPS = (
        "the iterations of a process fall into {groups} groups, which one typical time does not "
        "describe; see the report's densities and the quantiles' shifts"
    )
    COARSE_CLOCK = (
        "an iteration of {iteration_ns:.3g} ns is less than 20 steps of the clock ({step_ns:.3g} ns); "
        "raise --batch or drop set_up()"
    )
    ONE_BUILD = (
        "each side is one build: code placement alone can change times by some per cent; --build CMD "
        "--padding draws a new placement for each block of pairs"
    )
    OPERATIONS = "A does {a} operations a run and B {b}: times are compared per operation"
    CORRELATED = "neighbouring values are correlated: {inflation:.1f} of them count as one"
    ONE_PROCESS = "a side is one process: {deviation:share0} between processes is assumed; measure several"
    BETWEEN_ASSUMED = (
        "the processes differ by {effect:change}, which the machine may have done from one run to the "
        "next: {deviation:share} between runs is assumed"
    )
    BETWEEN_SEEN = (
        "the processes differ by {effect:change}, which the machine may have done from one run to the "
        "next: {deviation:share} between runs is what {runs} runs show"
    )
    APART = "the sides were measured at different times: machine drift looks like an effect; see bench ab"
    ENVIRONMENTS = "different environments: {differences}"
