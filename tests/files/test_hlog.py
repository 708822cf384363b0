from __future__ import annotations

import base64
import contextlib
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader, HistogramLogWriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latlab.errors import InputError
from latlab.formats.hdr import hlog
from latlab.formats.hdr.encoding import EncodingError, decode, encode
from latlab.stats.histogram import HOUR_NS, MAX_VALUE, Histogram

SHARED = Path(os.environ.get("LATLAB_SHARED", Path(__file__).parents[3] / "shared"))


def sample(name: str) -> Path:
    path = SHARED / "data" / "hlog" / name
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return path


def line(payload: bytes, stamp: str = "1.000") -> str:
    return f"{stamp},1.000,0.5,{base64.b64encode(payload).decode()}\n"


def log(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "x.hlog"
    path.write_text(f"#[Histogram log format version 1.2]\n{text}")
    return path


def fixed_words(version: int, counts: list[int], size: int, offset: int = 0) -> bytes:
    """A V0 or V1 encoding of a histogram of 1 to 1,000,000 with two digits, made by hand."""
    payload = np.array(counts, dtype=f">u{size}").tobytes()
    if version == 0:
        return struct.pack(">IIQQQ", 0x1C849308 | size << 4, 2, 1, 10**6, sum(counts)) + payload
    header = struct.pack(">IIiIQQd", 0x1C849301 | size << 4, len(payload), offset, 2, 1, 10**6, 1.0)
    return header + payload


def compressed(version: int, plain: bytes) -> bytes:
    cookie = {0: 0x1C849309, 1: 0x1C849302, 2: 0x1C849304}[version]
    packed = zlib.compress(plain)
    return struct.pack(">II", cookie, len(packed)) + packed


@pytest.mark.parametrize(
    ("name", "histograms", "count", "p999", "largest"),
    [
        # Known from HdrHistogram's own tests (HistogramLogReaderWriterTest).
        ("jHiccup-2.0.7S.logV2.hlog", 62, 48761, 1745879039, 1796210687),
    ],
)
def test_a_log_of_jhiccup_has_its_known_totals(
    name: str, histograms: int, count: int, p999: int, largest: int
) -> None:
    found = hlog.read_log(sample(name))
    total = hlog.merged(found.intervals)
    assert (len(found.intervals), total.count) == (histograms, count)
    assert (total.percentile(99.9), total.maximum) == (p999, largest)
    assert (found.start_time_s, found.version) == (1441812279.474, "1.2")
    assert found.intervals[0].start_s == pytest.approx(1441812279.474 + 0.127)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.3"])
def test_a_log_of_another_format_version_has_the_same_totals(tmp_path: Path, version: str) -> None:
    text = sample("jHiccup-2.0.7S.logV2.hlog").read_text()
    path = tmp_path / "x.hlog"
    path.write_text(text.replace("format version 1.2", f"format version {version}"))
    found = hlog.read_log(path)
    assert (found.version, hlog.merged(found.intervals).count) == (version, 48761)


def test_every_interval_of_a_log_holds_the_counts_that_the_hdrhistogram_package_reads() -> None:
    path = sample("jHiccup-2.0.7S.logV2.hlog")
    reader = HistogramLogReader(str(path), HdrHistogram(1, HOUR_NS, 3))
    for interval in hlog.read_log(path).intervals:
        theirs = reader.get_next_interval_histogram()
        ours = interval.histogram
        assert ours.count == theirs.get_total_count()
        assert ours.counts.tolist() == list(theirs.counts)
        assert interval.start_s * 1000 == pytest.approx(theirs.get_start_time_stamp())
    assert reader.get_next_interval_histogram() is None
    reader.input_file.close()


def test_the_tags_of_a_log_tell_its_histograms_apart() -> None:
    found = hlog.read_log(sample("tagged-Log.logV2.hlog"))
    assert found.tags == [None, "A"]
    by_tag = [hlog.merged(i for i in found.intervals if i.tag == tag) for tag in found.tags]
    assert by_tag[0] == by_tag[1]
    assert by_tag[0].count > 0


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_counts_in_words_of_old_versions_are_read(version: int, size: int, packed: bool) -> None:
    counts = [0] * 300
    counts[3], counts[299] = 7, 2
    data = fixed_words(version, counts, size)
    found = decode(compressed(version, data) if packed else data)
    assert found.version == version
    assert {int(i): int(found.histogram.counts[i]) for i in np.flatnonzero(found.histogram.counts)} == {
        3: 7,
        299: 2,
    }


def test_a_normalizing_offset_shifts_the_counts_back() -> None:
    found = decode(fixed_words(1, [0, 5], 8, offset=2))
    assert int(found.histogram.counts[3]) == 5


def test_an_uncompressed_payload_of_version_2_is_read() -> None:
    ours = Histogram.of([1, 1000, 10**9])
    plain = zlib.decompress(encode(ours)[8:])
    assert decode(plain).histogram == ours


def test_a_double_histogram_brings_its_ratio() -> None:
    inner = bytearray(zlib.decompress(encode(Histogram.of([5]))[8:]))
    inner[32:40] = struct.pack(">d", 0.25)
    found = decode(struct.pack(">IIQ", 0x0C72124F, 3, 1000) + compressed(2, bytes(inner)))
    assert (found.ratio, found.histogram.maximum) == (0.25, 5)


histograms = st.builds(
    lambda values, digits, lowest: Histogram.of(values, lowest=lowest, highest=2**40, digits=digits),
    st.lists(st.integers(0, 2**40) | st.integers(0, 3000), max_size=50),
    st.integers(1, 3),
    st.sampled_from([1, 1000]),
)


@settings(max_examples=50, deadline=None)
@given(ours=histograms)
def test_what_is_encoded_is_read_alike_by_us_and_by_the_hdrhistogram_package(ours: Histogram) -> None:
    assert decode(encode(ours)).histogram == ours
    theirs = HdrHistogram.decode(base64.b64encode(encode(ours)))
    assert ours.counts.tolist() == list(theirs.counts)


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.integers(0, HOUR_NS), min_size=1, max_size=50))
def test_what_the_hdrhistogram_package_encodes_is_read_count_for_count(values: list[int]) -> None:
    theirs = HdrHistogram(1, HOUR_NS, 3)
    for value in values:
        theirs.record_value(value)
    assert decode(base64.b64decode(theirs.encode())).histogram == Histogram.of(values)


def test_a_log_that_we_wrote_is_read_by_us_and_by_the_hdrhistogram_package(tmp_path: Path) -> None:
    path, start = tmp_path / "x.hlog", 1_700_000_000.0
    parts = [Histogram.of([1000 * n, 2_000_000]) for n in range(1, 4)]
    with hlog.LogWriter(path, start_time_s=start) as out:
        for n, part in enumerate(parts):
            out.write(part, start + n, start + n + 1, tag="A" if n == 2 else None)
    found = hlog.read_log(path)
    assert [i.histogram for i in found.intervals] == parts
    assert [i.tag for i in found.intervals] == [None, None, "A"]
    assert [i.start_s for i in found.intervals] == [start, start + 1, start + 2]
    reader = HistogramLogReader(str(path), HdrHistogram(1, HOUR_NS, 3))
    with reader.input_file:
        theirs = [reader.get_next_interval_histogram() for _ in parts]
    assert [t.get_total_count() for t in theirs] == [2, 2, 2]
    assert [t.get_start_time_stamp() / 1000 for t in theirs] == [start, start + 1, start + 2]
    assert theirs[2].get_tag() == "A"


def test_a_log_that_the_hdrhistogram_package_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.hlog"
    theirs = HdrHistogram(1, HOUR_NS, 3)
    theirs.record_value(12345, 6)
    with path.open("w") as file:
        writer = HistogramLogWriter(file)
        writer.output_log_format_version()
        writer.output_legend()
        writer.output_interval_histogram(theirs, 5, 6)
    (interval,) = hlog.read_log(path).intervals
    assert (interval.start_s, interval.length_s) == (5.0, 1.0)
    assert interval.histogram == Histogram.of([12345] * 6)


def test_a_stated_base_time_is_added_to_every_stamp(tmp_path: Path) -> None:
    text = "#[BaseTime: 100.5 (seconds since epoch)]\n#[StartTime: 101.0 (seconds since epoch), then]\n"
    found = hlog.read_log(log(tmp_path, text + line(encode(Histogram.of([1])), "2.5")))
    assert (found.intervals[0].start_s, found.start_time_s) == (103.0, 101.0)


def test_absolute_stamps_stay_what_they_are(tmp_path: Path) -> None:
    text = "#[StartTime: 1700000000 (seconds since epoch), then]\n"
    found = hlog.read_log(log(tmp_path, text + line(encode(Histogram.of([1])), "1700000002.5")))
    assert found.intervals[0].start_s == 1700000002.5


GOOD = encode(Histogram.of([1, 10**6]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense\n", "line 2: 1 fields where an interval has 4"),
        ("1.0,1.0,1.0,%%%\n", "line 2: the histogram is not base64"),
        ("a,1.0,1.0,AAAA\n", "line 2: could not convert"),
        ("nan,1.0,1.0,AAAA\n", "line 2: 'nan,1.0' is not an interval"),
        (line(b""), "line 2: 0 bytes are not a histogram"),
        (line(b"\0" * 50), "line 2: unknown histogram header 0x00000000"),
        (line(GOOD[:20]), "line 2: .* compressed bytes are announced"),
        (line(GOOD[:8] + b"\0" * (len(GOOD) - 8)), "line 2: the compressed bytes are damaged"),
        (line(fixed_words(1, [1], 8)[:30]), "line 2: the bytes end within the header"),
        (line(struct.pack(">IIiIQQd", 0x1C849313, 0, 0, 9, 1, 100, 1.0)), "line 2: significant digits"),
        (line(struct.pack(">IIiIQQd", 0x1C849313, 9, 0, 3, 1, 100, 1.0)), "line 2: 9 bytes of counts"),
    ],
)
def test_a_damaged_line_is_an_input_error_with_its_number(tmp_path: Path, text: str, said: str) -> None:
    path = log(tmp_path, text)
    with pytest.raises(InputError, match=f"{said}.*copy the file again"):
        hlog.read_log(path)


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x80\x81\x82")
    with pytest.raises(InputError, match="offset 0: not text"):
        hlog.read_log(tmp_path / "a")
    (tmp_path / "b").write_bytes(b"")
    with pytest.raises(InputError, match="holds no line of a histogram log"):
        hlog.read_log(tmp_path / "b")
    with pytest.raises(InputError, match="can't be read"):
        hlog.read_log(tmp_path / "c")


def test_a_few_hostile_bytes_do_not_inflate_beyond_what_the_bins_can_hold() -> None:
    header = struct.pack(">IIiIQQd", 0x1C849313, 2**31, 0, 0, 1, 3, 1.0)
    bomb = compressed(2, header + b"\x01" * 50_000_000)
    assert len(bomb) < 100_000
    with pytest.raises(EncodingError):
        decode(bomb)


def test_values_beyond_the_bins_and_tags_that_break_the_line_are_not_written(tmp_path: Path) -> None:
    with hlog.LogWriter(tmp_path / "x.hlog") as out:
        with pytest.raises(ValueError, match="1 values up to 5000 are above"):
            out.write(Histogram.of([5000], highest=1000), 0, 1)
        with pytest.raises(ValueError, match="a tag holds no comma"):
            out.write(Histogram.of([5]), 0, 1, tag="a,b")


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_an_encoding_with_any_bytes_changed_is_read_or_refused(data: st.DataObject) -> None:
    plain = zlib.decompress(GOOD[8:])
    raw = bytearray(
        data.draw(st.sampled_from([GOOD, plain, fixed_words(0, [1, 2], 4), fixed_words(1, [3], 2)]))
    )
    edits = st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=6)
    for at, value in data.draw(edits):
        raw[at] = value
    with contextlib.suppress(EncodingError):
        found = decode(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
        assert found.histogram.count >= 0


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(alphabet=st.sampled_from('#[]Tag=,.0123456789eE-+HISTFAA \n"BaseStartTime:'), max_size=80)
)
def test_any_text_is_read_or_refused_with_a_line(tmp_path: Path, text: str) -> None:
    path = log(tmp_path, text)
    try:
        hlog.read_log(path)
    except InputError as error:
        message = str(error)
    else:
        return
    assert message.startswith(f"{path}: line ")


def test_a_percentile_table_is_written_as_others_write_it(tmp_path: Path) -> None:
    values = [*range(1, 1001), 50_000]
    hlog.write_hgrm(tmp_path / "x.hgrm", Histogram.of(values))
    text = (tmp_path / "x.hgrm").read_text()
    assert text.splitlines()[0].split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    found = hlog.read_hgrm(tmp_path / "x.hgrm")
    assert (found.count, found.maximum, found.totals[-1], found.quantiles[-1]) == (1001, 50015, 1001, 1.0)
    assert found.mean == pytest.approx(np.mean(values), rel=1e-3)
    at_half = found.values[np.searchsorted(found.quantiles, 0.5)]
    assert at_half == 501
    assert (np.diff(found.quantiles) > 0).all()
    assert (np.diff(found.totals) >= 0).all()


def test_a_percentile_table_shows_the_totals_of_the_hdrhistogram_package(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    values = rng.lognormal(8, 1, 5000).astype(np.int64)
    theirs = HdrHistogram(1, HOUR_NS, 3)
    for value in values:
        theirs.record_value(int(value))
    with (tmp_path / "theirs").open("wb") as file:
        theirs.output_percentile_distribution(file, 1.0)
    hlog.write_hgrm(tmp_path / "ours", Histogram.of(values))
    ours, other = hlog.read_hgrm(tmp_path / "ours"), hlog.read_hgrm(tmp_path / "theirs")
    assert (ours.count, ours.maximum) == (other.count, other.maximum)
    assert ours.mean == pytest.approx(other.mean)
    shared = np.intersect1d(ours.values, other.values)
    assert shared.size > 20
    by_value = [dict(zip(t.values, t.totals, strict=True)) for t in (ours, other)]
    assert [by_value[0][v] for v in shared] == [by_value[1][v] for v in shared]


@pytest.mark.parametrize("text", ["", "Value\n1 2\n", "1.0 1.5 3\n", "1.0 x 3\n", "1.0 0.5 1e300\n"])
def test_what_is_no_percentile_table_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(InputError):
        hlog.read_hgrm(tmp_path / "x")


@pytest.mark.parametrize(
    ("lowest", "digits"), [(72_069_390_132_707_331, 1), (1 << 61, 0), (1 << 50, 3), (1, 5)]
)
def test_intervals_merge_where_the_lowest_value_leaves_no_room_for_three_digits(
    lowest: int, digits: int
) -> None:
    one = Histogram(lowest, MAX_VALUE, digits)
    one.record_many([lowest, 2 * lowest])
    total = hlog.merged([hlog.LogInterval(0.0, 1.0, one)] * 2)
    assert total.count == 4
    assert total.bins.lowest == lowest
    assert total.bins.digits >= digits
