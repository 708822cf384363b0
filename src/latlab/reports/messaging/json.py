"""A messaging result as JSON, by the contract for machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from latlab.model.messaging.results import Facts, Result, Throughput
from latlab.model.statistics.summary import Summary
from latlab.reports.messaging.verdict import finding

__all__ = ["facts_json", "result_json", "summary_json"]


def summary_json(summary: Summary | None) -> dict[str, Any] | None:
    """A series in a few numbers; None where there is none."""
    if summary is None:
        return None
    return {
        "average": summary.mean,
        "median": summary.median,
        "robust_deviation": summary.robust_deviation,
        "rms_distance": summary.rms_distance,
        "median_distance": summary.median_distance,
        "min": summary.minimum,
        **summary.quantiles,
        "max": summary.maximum,
        "count": summary.count,
    }


def _throughput(t: Throughput) -> dict[str, Any]:
    return {
        "messages_per_s": t.messages_per_s,
        "bytes_per_s": t.bytes_per_s,
        "window": t.window,
        "windows_messages_per_s": summary_json(t.windows),
        "undefined_windows": t.undefined,
    }


def result_json(r: Result) -> dict[str, Any]:
    """The whole result. `latency_ns` of a run in which nothing arrived has its keys, each null."""
    nothing = dict.fromkeys(
        ("average", "median", "robust_deviation", "min", "p50", "p90", "p99", "p99.9", "max"), None
    )
    return {
        "schema": 1,
        "verdict": {
            "text": finding(r),
            **asdict(r.verdict),
            "trustworthy": not r.verdict.doubts,
        },
        "transport": r.settings.transport,
        "topology": r.settings.topology,
        "wait": r.wait,
        "size": r.settings.size,
        "sent": r.sent,
        "received": r.received,
        "lost": r.lost,
        "duplicated": r.duplicated,
        "reordered": r.reordered,
        "corrupted": r.corrupted,
        "latency_ns": summary_json(r.latency) or nothing,
        "intended_latency_ns": summary_json(r.intended_latency),
        "confirm_latency_ns": summary_json(r.confirm_latency),
        "unconfirmed": r.unconfirmed,
        "groups": [
            {"received": list(g.received), "lost": g.lost, "latency_ns": summary_json(g.latency)}
            for g in r.groups
        ],
        "round_trip": r.settings.topology == "pingpong" and not r.settings.half,
        "warmup": {"messages": r.settings.warmup, "latency_ns": summary_json(r.warmup)},
        "sending_overhead_ns": summary_json(r.sending_overhead),
        "receiving_overhead_ns": summary_json(r.receiving_overhead),
        "sending_throughput": _throughput(r.sending_throughput),
        "receiving_throughput": _throughput(r.receiving_throughput),
        "kernel_ns": None
        if r.wire_to_kernel is None
        else {
            "wire_to_kernel": summary_json(r.wire_to_kernel),
            "kernel_to_application": summary_json(r.kernel_to_application),
        },
        "broker_stay_ns": summary_json(r.broker_stay),
        "stalls_ns": [{"message": n, "made_ns": made} for n, made in r.stalls_ns],
        "cpu": {**asdict(r.cpu), "unit": "ns per message"},
        "cpu_windows_ppm": {name: summary_json(summary) for name, summary in r.cpu_windows.items()},
        "counters": {
            name: {"total": c.total, "per_message": c.per_message, "per_s": summary_json(c.per_s)}
            for name, c in r.counters.items()
        },
        "idle": dict(r.idle),
        "humps": [{"at_ns": h.at_ns, "weight": h.weight} for h in r.humps],
        "humps_p_value": r.humps_p_value,
        "humps_unsure": r.humps_unsure,
        "peaks": [asdict(peak) for peak in r.peaks],
        "stability": {"verdict": r.stability, "drift_ns_per_s": r.drift, "signs": dict(r.signs)},
        "identity_violations": r.identity_violations,
        "clock_steps": r.clock_steps,
        "harness_ns": {"sender": r.harness_ns[0], "receiver": r.harness_ns[1], "clock": r.harness_ns[2]},
        "near_harness": r.near_harness,
        "page_faults": r.page_faults,
        "sleeps_per_message": r.sleeps_per_message,
        "network_bytes": None
        if r.network_bytes is None
        else {"sent": r.network_bytes[0], "received": r.network_bytes[1]},
        "memory_bytes_per_message": r.bytes_per_message,
        "guarantees": {"lossless": r.facts.lossless, "ordered": r.facts.ordered},
        "received_at": r.facts.received_at,
        "partial": r.partial is not None,
        "partial_reason": r.partial,
        "notes": list(r.notes),
        "settings": r.settings.to_json(),
    }


def facts_json(facts: Facts, missing: str | None) -> Mapping[str, Any]:
    """A transport, and what it needs before it can run here."""
    return {
        "name": facts.name,
        "title": facts.title,
        "available": missing is None,
        "needs": missing,
        "loop": facts.loop,
        "topologies": list(facts.topologies),
        "waits": list(facts.waits),
        "lossless": facts.lossless,
        "ordered": facts.ordered,
        "max_bytes": facts.max_bytes,
        "received_at": facts.received_at,
        "access": list(facts.access),
        "driver": [asdict(option) for option in facts.driver],
        "many": facts.many,
    }
