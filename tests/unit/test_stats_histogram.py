from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from latlab.stats.histogram import HOUR_NS, MAX_VALUE, Bins, Histogram
from latlab.stats.quantiles import nearest_rank
from latlab.system.recorder import HistogramRecorder

latencies = st.lists(
    st.integers(0, 5000) | st.integers(0, HOUR_NS) | st.integers(2**52, 2**53), min_size=1, max_size=60
)
# The package is slow in proportion to its bins, so it is asked about fewer of them.
packages = st.lists(st.integers(0, 5000) | st.integers(0, 2**30), min_size=1, max_size=40)


def test_an_hour_of_nanoseconds_has_the_bins_of_the_hdrhistogram_package() -> None:
    assert Bins(1, HOUR_NS, 3).size == HdrHistogram(1, HOUR_NS, 3).counts_len == 33792


@settings(max_examples=50, deadline=None)
@given(values=packages, digits=st.integers(1, 3), lowest=st.sampled_from([1, 2, 7, 1000]))
def test_counts_are_those_of_the_hdrhistogram_package(values: list[int], digits: int, lowest: int) -> None:
    highest = 2**30
    theirs = HdrHistogram(lowest, highest, digits)
    for value in values:
        theirs.record_value(value)
    ours = Histogram.of(values, lowest=lowest, highest=highest, digits=digits)
    assert ours.bins.size == theirs.counts_len
    assert ours.counts.tolist() == list(theirs.counts)
    assert ours.mean() == pytest.approx(theirs.get_mean_value())
    assert ours.maximum == theirs.get_highest_equivalent_value(max(values))


@given(values=latencies, digits=st.integers(0, 5), lowest=st.sampled_from([1, 7, 1000]))
def test_the_native_recorder_and_the_array_count_alike(values: list[int], digits: int, lowest: int) -> None:
    highest = 2**52 if digits < 5 else 2**40  # of five digits, up to there: ten million bins an example
    recorder = HistogramRecorder(lowest, highest, digits)
    recorder.record_many(values)
    ours = Histogram.of(values, lowest=lowest, highest=highest, digits=digits)
    found = recorder.histogram()
    assert (found, found.largest_beyond) == (ours, ours.largest_beyond)


@given(values=latencies, permille=st.integers(0, 1000))
def test_a_quantile_is_the_upper_bound_of_the_bin_that_holds_the_series_own(
    values: list[int], permille: int
) -> None:
    q = permille / 1000
    histogram = Histogram.of(values, highest=2**54)
    exact = int(nearest_rank(np.array(values, dtype=np.int64), q))
    found = histogram.quantile(q)
    assert found - histogram.width_at(exact) < exact <= found
    assert histogram.percentile(permille / 10) == found


@given(a=latencies, b=latencies)
def test_merging_is_recording_both(a: list[int], b: list[int]) -> None:
    merged = Histogram.of(a)
    merged.merge(Histogram.of(b))
    assert merged == Histogram.of(a + b)


def test_histograms_of_unlike_range_merge_within_the_width_of_a_bin() -> None:
    small = Histogram.of([5, 100_000], highest=1_000_000)
    small.merge(Histogram.of([7, 500_000, HOUR_NS // 2], digits=2))
    assert (small.count, small.beyond) == (5, 1)
    assert small.quantile(0.8) == pytest.approx(500_000, rel=0.01)
    assert small.maximum == pytest.approx(HOUR_NS // 2, rel=0.01)


def test_values_beyond_the_highest_are_counted_and_rank_above_all_others() -> None:
    histogram = Histogram.of(np.array([10, 2**63 + 5, 20], dtype=np.uint64), highest=1000)
    assert (histogram.count, histogram.beyond) == (3, 1)
    assert [histogram.quantile(q) for q in (0.5, 0.99)] == [20, 2**63 + 5]
    assert histogram.maximum == 2**63 + 5


def test_the_largest_range_has_a_bin_for_its_highest_value() -> None:
    histogram = Histogram.of([MAX_VALUE, 0], highest=MAX_VALUE, digits=5)
    assert (histogram.minimum, histogram.maximum, histogram.beyond) == (0, MAX_VALUE, 0)


def test_bins_tile_the_range_without_gap_or_overlap() -> None:
    bins = Bins(3, 10**9, 2)
    np.testing.assert_array_equal(bins.upper()[:-1] + 1, bins.lower()[1:])
    np.testing.assert_array_equal(bins.index(bins.lower()), np.arange(bins.size))
    np.testing.assert_array_equal(bins.index(bins.upper()), np.arange(bins.size))


def test_a_corrected_value_brings_the_waits_behind_it_as_the_hdrhistogram_package_does() -> None:
    theirs = HdrHistogram(1, HOUR_NS, 3)
    # A whole number of intervals: of the rest, the package records a wait that HdrHistogram itself does not.
    theirs.record_corrected_value(1_000_000, 25_000)
    recorder = HistogramRecorder()
    recorder.record_corrected(1_000_000, 25_000)
    assert recorder.histogram().count == theirs.get_total_count()
    assert recorder.histogram().counts.tolist() == list(theirs.counts)


@pytest.mark.parametrize("values", [[-1], [1.5], [True]])
@pytest.mark.parametrize("make", [Histogram, HistogramRecorder])
def test_what_is_no_latency_is_refused_and_counts_nothing(
    values: list[object], make: type[Histogram] | type[HistogramRecorder]
) -> None:
    made = make()
    with pytest.raises(ValueError, match="a histogram counts"):
        made.record_many([1, *values] if values != [True] else values)  # type: ignore[arg-type]
    histogram = made if isinstance(made, Histogram) else made.histogram()
    assert histogram.count == 0


@pytest.mark.parametrize(
    "arguments", [(0, 100, 3), (1, 1, 3), (1, 100, 6), (1, 100, -1), (1, 2**63, 3), (2**60, 2**62, 5)]
)
def test_bins_that_make_no_sense_are_refused(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError):
        Bins(*arguments)


def test_an_empty_histogram_has_no_quantile() -> None:
    asks: list[Callable[[Histogram], float]] = [
        lambda h: h.quantile(0.5),
        lambda h: h.maximum,
        lambda h: h.minimum,
        lambda h: h.mean(),
    ]
    for ask in asks:
        with pytest.raises(ValueError):
            ask(Histogram())
