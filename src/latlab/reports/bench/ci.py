"""Verdicts for continuous integration: a Markdown table and JUnit XML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from latlab import words
from latlab.words import relative

__all__ = ["junit_xml", "markdown_summary"]

_BAD = ("slower", "mixed")
_OPEN = ("inconclusive", "refused")
_MARKED = {"🔴": _BAD, "🟢": ("faster",), "⚪": ("equivalent",), "🟡": _OPEN}
_MARKS = {verdict: f"{mark} {verdict}" for mark, verdicts in _MARKED.items() for verdict in verdicts}


def markdown_summary(
    documents: Sequence[Mapping[str, Any]], failed: Sequence[Mapping[str, str]] = (), *, title: str = "latlab"
) -> str:
    """The verdicts as a table, what is slower first.

    Args:
        documents: of `text.judgement_json`.
        failed: `name` and `error` of what has no verdict.
        title: the heading.
    """
    order = [*_BAD, *_OPEN, "faster", "equivalent"]
    rows = sorted(documents, key=lambda d: order.index(str(d["verdict"])))
    slower = sum(d["verdict"] in _BAD for d in documents)
    undecided = sum(d["verdict"] in _OPEN for d in documents)
    parts = [
        f"{slower} of {words.plural(len(documents), 'benchmark')} slower",
        *([f"{undecided} undecided"] if undecided else []),
        *([f"{len(failed)} failed"] if failed else []),
    ]
    lines = [
        f"### {title}: {', '.join(parts)}",
        "",
        "| benchmark | verdict | change | 95 % interval | before | after | decided by |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    if documents:
        level = 100 * (1 - float(documents[0]["alpha"]))
        lines[2] = lines[2].replace("95 %", relative(level / 100))
    for d in rows:
        low, high = d["interval"]
        ends = "–" if low is None and high is None else f"{_change(low)} to {_change(high)}"
        cells = [
            f"`{_cell(str(d['name']))}`", _MARKS[str(d["verdict"])], _change(d["effect"]), ends,
            *(words.duration(t) for t in d["typical_ns"]), str(d["decided_by"]),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"| `{_cell(one['name'])}` | ❌ {_cell(one['error'])} | – | – | – | – | – |" for one in failed]
    whys = [f"- `{_cell(str(d['name']))}`: {_cell(str(d['why']))}" for d in rows if d["verdict"] in _OPEN]
    return "\n".join([*lines, *(["", *whys] if whys else []), ""])


def junit_xml(
    documents: Sequence[Mapping[str, Any]], failed: Sequence[Mapping[str, str]] = (), *, suite: str = "latlab"
) -> str:
    """The verdicts as JUnit XML: slower is a failure, undecided is skipped, what has no verdict is an error.

    Args: as of `markdown_summary`; suite: its name.
    """
    counts = {
        "tests": len(documents) + len(failed),
        "failures": sum(d["verdict"] in _BAD for d in documents),
        "skipped": sum(d["verdict"] in _OPEN for d in documents),
        "errors": len(failed),
    }
    root = ElementTree.Element("testsuites")
    out = ElementTree.SubElement(root, "testsuite", {"name": suite, **{k: str(v) for k, v in counts.items()}})
    for d in documents:
        case = ElementTree.SubElement(out, "testcase", {"classname": suite, "name": _legal(str(d["name"]))})
        said = _legal(f"{d['verdict']}, {_change(d['effect'])}: {d['why']}")
        if d["verdict"] in _BAD:
            ElementTree.SubElement(case, "failure", {"type": str(d["verdict"]), "message": said})
        elif d["verdict"] in _OPEN:
            ElementTree.SubElement(case, "skipped", {"message": said})
        else:
            ElementTree.SubElement(case, "system-out").text = said
    for one in failed:
        case = ElementTree.SubElement(out, "testcase", {"classname": suite, "name": _legal(one["name"])})
        ElementTree.SubElement(case, "error", {"message": _legal(one["error"])})
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _change(value: float | None) -> str:
    return "open" if value is None else words.share(value, digits=2, signed=True)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("`", "'").split())


def _legal(text: str) -> str:
    """What XML can hold: control characters have no place in it."""
    return "".join(c if c >= " " or c in "\t\n" else "�" for c in text)
