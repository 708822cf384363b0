from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from latlab.reports.bench.ci import junit_xml, markdown_summary


def verdict(name: str, what: str, effect: float) -> dict[str, Any]:
    return {
        "name": name,
        "verdict": what,
        "effect": effect,
        "interval": [effect - 0.01, None],
        "typical_ns": [1000.0, 1000.0 * (1 + effect)],
        "decided_by": "typical",
        "why": "because",
        "alpha": 0.05,
    }


FOUND = [
    verdict("same", "equivalent", 0.0),
    verdict("open | end", "inconclusive", 0.01),
    verdict("worse\x01", "slower", 0.2),
]
FAILED = [{"name": "broken", "error": "it threw: ValueError: <a & b>"}]


def test_slower_is_a_failure_undecided_is_skipped_and_what_has_no_verdict_is_an_error() -> None:
    (suite,) = ElementTree.fromstring(junit_xml(FOUND, FAILED))
    assert {k: suite.get(k) for k in ("tests", "failures", "skipped", "errors")} == {
        "tests": "4",
        "failures": "1",
        "skipped": "1",
        "errors": "1",
    }
    assert [(c.get("name"), [e.tag for e in c]) for c in suite] == [
        ("same", ["system-out"]),
        ("open | end", ["skipped"]),
        ("worse�", ["failure"]),
        ("broken", ["error"]),
    ]


def test_the_summarys_table_begins_with_what_is_slower_and_escapes_bars() -> None:
    lines = markdown_summary(FOUND, FAILED).splitlines()
    assert lines[0] == "### latlab: 1 of 3 benchmarks slower, 1 undecided, 1 failed"
    rows = [line for line in lines if line.startswith("| `")]
    assert "🔴 slower | +20.00 % | +19.00 % to open | 1 µs | 1.2 µs" in rows[0]
    assert rows[1].startswith("| `open \\| end` | 🟡 inconclusive")
    assert len(rows) == 4
    assert "- `open \\| end`: because" in lines
