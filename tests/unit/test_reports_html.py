from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.model.diagnosis.answer import Budget, Part
from latlab.model.machine.environment import Environment, Fact
from latlab.model.statistics.histogram import Histogram
from latlab.reports.diagnosis.demo_html import _joined
from latlab.reports.diagnosis.html import _budget
from latlab.reports.html import Page
from latlab.reports.sections import figures, topology
from latlab.reports.sections.topology import DrawnQueue, Node

ENVIRONMENT = Environment({"cpu.model": Fact("Z80"), "cpu.governor": Fact(unavailable="no cpufreq")})
EVIL = "</script><script>alert(1)</script>"


class Tags(HTMLParser):
    """Every start tag with its attributes, and the text outside of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page() -> Page:
    made = Page("Why <slow>?", "a & b")
    made.verdict("The stage 'book' limits.\n\nIt is busy.", "bad")
    made.section("Queues", "How full.")
    made.table(["queue", "fill"], [[EVIL, 7], ["b", None]], "Fills.")
    return made


def test_what_is_said_is_escaped_and_stands_in_the_order_of_the_calls() -> None:
    text = page().html()
    assert EVIL not in text
    assert "Why &lt;slow&gt;?" in text
    order = [text.index(part) for part in ("a &amp; b", "It is busy.", "How full.", "Fills.")]
    assert order == sorted(order)


def test_a_page_without_figures_carries_no_library() -> None:
    assert len(page().html()) < 30_000


def test_a_page_loads_nothing_from_anywhere(tmp_path: Path) -> None:
    made = page()
    made.figure(figures.steps({EVIL: ([0, 1], [1, 2])}, "s", "fill"))
    made.figure(figures.steps({"b": ([0, 1], [1, 2])}, "s", "fill"))
    made.reproduce("latlab demo", ENVIRONMENT, 7, {"n": 1})
    path = made.write(tmp_path / "r.html")
    tags = Tags(path.read_text())
    for tag, attributes in tags.found:
        assert tag not in ("img", "iframe", "object", "embed")
        assert "src" not in attributes
        assert tag != "link" or attributes["href"] == "data:,"
    assert len([tag for tag, _ in tags.found if tag == "script"]) == 5
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_a_figures_data_survive_the_page() -> None:
    made = Page("t")
    made.figure({"data": [{"y": np.array([1.5, np.nan]), "name": EVIL}], "layout": {"title": "x"}})
    (source,) = re.findall(r'class="figure">(.*?)</script>', made.html())
    assert json.loads(source)["data"] == [{"y": [1.5, None], "name": EVIL}]


def test_how_to_reproduce_states_command_seed_and_what_is_unavailable() -> None:
    made = Page("t")
    made.reproduce("latlab demo --slow 'a=3'", ENVIRONMENT, 7)
    text = "".join(Tags(made.html()).text)
    for part in ("latlab demo --slow 'a=3'", "7", "Z80", "unavailable (no cpufreq)"):
        assert part in text


def test_thinning_a_series_keeps_its_ends_and_its_peaks() -> None:
    y = np.zeros(1_000_000)
    y[123_457], y[777_777] = 5.0, -3.0
    x, thin = figures.thinned(np.arange(y.size), y)
    assert (thin.size <= 4002, x[0], x[-1]) == (True, 0, 999_999)
    assert {5.0, -3.0} <= set(thin.tolist())
    assert (np.diff(x) > 0).all()


def test_a_figure_of_many_series_over_time_stays_small_and_keeps_their_peaks() -> None:
    x = np.arange(50_000) / 3e4
    y = np.zeros(x.size)
    y[12_345] = 1e4 / 7
    one = figures.steps({"a": (x, y)}, "s", "events")["data"]
    many = figures.steps({f"{n}": (x, y) for n in range(12)}, "s", "events")["data"]
    assert (len(one[0]["x"]) > 3 * len(many[0]["x"]), len(many[0]["x"]) <= 1002) == (True, True)
    assert max(many[0]["y"]) == 1428.571
    assert figures.steps({"a": (x, y + 1e-9)}, "s", "s", log_y=True)["data"][0]["y"][0] == 1e-9


def test_a_percentile_curve_ends_at_the_largest_value() -> None:
    histogram = Histogram.of([1000] * 999 + [50_000])
    (curve,) = figures.percentiles({"a": histogram, "none": Histogram()})["data"]
    assert curve["y"][-1] == histogram.maximum / 1e3
    assert curve["x"][-1] == pytest.approx(2000)


def test_the_bars_of_a_distribution_hold_every_value() -> None:
    values = np.random.default_rng(1).lognormal(10, 2, 5000).astype(np.int64)
    (bars,) = figures.density({"a": Histogram.of(values, highest=1_000_000)})["data"]
    assert sum(bars["y"]) == 5000


def test_a_box_shows_quartiles_by_nearest_rank() -> None:
    (box,) = figures.boxes({"a": np.arange(1, 101), "none": []}, "ns")["data"]
    assert (box["q1"], box["median"], box["q3"]) == ([25], [50], [75])
    assert (box["lowerfence"], box["upperfence"], box["y"]) == ([1], [99], [[1, 100]])


def test_a_stage_stands_to_the_right_of_all_that_feed_it() -> None:
    edges = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "b")]
    assert topology.layers(list("abcd"), edges) == [["a"], ["b"], ["c"], ["d"]]


names = st.sampled_from("abcdefgh")


@given(edges=st.lists(st.tuples(names, names), max_size=20))
def test_any_graph_is_laid_out_with_every_stage_once(edges: list[tuple[str, str]]) -> None:
    known = list(dict.fromkeys([name for edge in edges for name in edge])) or ["a"]
    found = topology.layers(known, edges)
    assert sorted(name for layer in found for name in layer) == sorted(known)
    assert all(found)


def test_a_topology_names_every_stage_and_queue_and_escapes_them() -> None:
    drawn = topology.draw([Node("book", "97 %", 0.97, True)], [DrawnQueue("feed", "book", EVIL, 0.99)])
    assert EVIL not in drawn
    assert [drawn.count(f">{name}</text>") for name in ("feed", "book", "97 %")] == [1, 1, 1]
    assert 'class="wire f4"' in drawn
    assert 'role="img" aria-label="2 stages and 1 queue between them"' in drawn
    assert topology.draw([], []).startswith("<svg")


def test_many_queues_between_two_stages_are_drawn_as_one_edge() -> None:
    few = [DrawnQueue("a", "b", f"q{i}", 0.1 * i) for i in range(4)]
    assert _joined(few) == few
    many = [*few, DrawnQueue("a", "b", "q4", 0.9), DrawnQueue("b", "c", "one")]
    assert _joined(many) == [DrawnQueue("a", "b", "5 queues", 0.9), DrawnQueue("b", "c", "one")]


def test_a_page_with_figures_carries_plotly_packed_and_one_without_does_not() -> None:
    made = Page("t")
    assert 'id="library"' not in made.html()
    made.figure({"data": [], "layout": {}}, "nothing")
    page = made.html()
    assert len(page) < 1_000_000
    packed = re.search(r'id="library">([^<]*)</script>', page)
    assert packed is not None
    assert "plotly.js" in gzip.decompress(base64.b64decode(packed[1])).decode()[:200]


@given(st.floats(0.1, 1e9), st.floats(1.01, 1e6))
def test_a_logarithmic_axis_has_at_least_two_ticks_among_its_values(low: float, ratio: float) -> None:
    axis = figures.boxes({"a": [low, low * ratio]}, "ns", log_y=True)["layout"]["yaxis"]
    inside = [v for v in axis["tickvals"] if low * 0.97 <= v <= low * ratio * 1.03]
    assert len(inside) >= 2
    assert len(set(axis["ticktext"])) == len(axis["ticktext"]) <= 45


@pytest.mark.parametrize(
    ("largest_ns", "unit", "longest"),
    [(200e6, "ms", 200.0), (250e3, "µs", 250.0), (3e9, "s", 3.0), (400.0, "ns", 400.0)],
)
def test_a_budget_is_drawn_in_the_unit_of_its_largest_part(
    largest_ns: float, unit: str, longest: float
) -> None:
    made = Page("t")
    parts = (Part("waiting", "a", largest_ns), Part("service", "b", largest_ns / 100))
    _budget(made, Budget(0.999, largest_ns, 7, parts), {"waiting": "", "service": ""})

    (source,) = re.findall(r'class="figure">(.*?)</script>', made.html())
    figure = json.loads(source)
    assert figure["layout"]["xaxis"]["title"]["text"] == unit
    assert max(figure["data"][0]["x"]) == pytest.approx(longest)


def test_a_label_has_room_between_its_stages() -> None:
    label = "4,096 of 4,096, most 4,096"
    drawn = topology.draw(
        [], [DrawnQueue("a", "b", label), DrawnQueue("b", "c", label), DrawnQueue("a", "c", label)]
    )

    boxes = [(float(x), float(w)) for x, w in re.findall(r'class="box" x="([\d.]+)".*? width="(\d+)"', drawn)]
    plates = [
        (float(x), float(w)) for x, w in re.findall(r'class="plate" x="([\d.]+)".*? width="([\d.]+)"', drawn)
    ]
    assert (len(boxes), len(plates)) == (3, 3)
    for x, width in plates[:2]:
        assert all(x + width <= box or x >= box + wide for box, wide in boxes)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "raw (app.py:2) held 98.5 events of book-0 for 6.09 ms",
            ['<a href="#there">98.5</a> events', '<a href="#there">6.09 ms</a>', "(app.py:2)"],
        ),
        ("making `book<b>` and `work` 20 % faster", ["<code>work</code>", "<code>book&lt;b&gt;</code>"]),
    ],
    ids=["figures", "names between backticks"],
)
def test_a_sentences_figures_are_linked_and_its_names_are_code_and_its_places_neither(
    said: str, shown: list[str]
) -> None:
    page = Page("title")
    page.paragraph(said, link="there")
    text = page.html()
    assert [one for one in shown if one not in text] == []


def test_a_drawing_has_words_for_who_cannot_see_it() -> None:
    made = Page("Stages")
    made.svg("<svg viewBox='0 0 1 1'></svg>", "Two stages & a queue.")
    assert 'aria-label="Drawing: Two stages &amp; a queue."' in made.html()


def test_words_of_a_table_stay_whole_and_paths_may_be_broken() -> None:
    page = Page("T")
    page.table(["queue", "file"], [["decoder-a.market-a", "/usr/lib/python3/site-packages/x.so"]])
    assert '<td class="w">decoder-a.market-a</td><td>/usr/lib' in page.html()


def test_a_long_verdict_gives_its_first_clause_to_the_heading() -> None:
    page = Page("Where?")
    first = "The slow requests take 1.22 ms longer than the median ones"
    page.verdict(f"{first}, and spend 53 % of that {'w' * 80}")
    assert f"<h1>{first}</h1>" in page.html()
