from __future__ import annotations

import json
import struct
import threading
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from latlab.cli._main import main
from latlab.errors import UsageError
from latlab.market import (
    DelayEstimator,
    LiveSource,
    MoldTarget,
    calibrate,
    delay,
    delay_windows,
    generate,
    lag_histogram,
    replay,
    signals,
    window_delay,
)


@pytest.mark.parametrize("conditioning", ["difference", "whiten"])
@pytest.mark.parametrize("planted", [0, 1, 17, -30])
def test_a_planted_delay_of_a_price_is_found(conditioning: str, planted: int) -> None:
    estimator = DelayEstimator(2048, 1e5, conditioning=conditioning, engine="scipy")  # type: ignore[arg-type]
    for seed in range(20):
        price = signals.steps(2048, seed=seed)
        found = estimator.estimate(price, signals.delayed(price, planted, mode="hold"))
        assert found.delay_s == pytest.approx(planted / 1e5, abs=1e-6)
        assert found.confidence > 0.3


def test_the_periodic_signals_are_found_within_their_period() -> None:
    estimator = DelayEstimator(2048, 1.0, conditioning="none", pad=False, max_delay_s=100, engine="scipy")
    for wave in (signals.square(2048), signals.triangle(2048)):
        found = estimator.estimate(wave, signals.delayed(wave, 40, mode="periodic"))
        assert found.delay_s == pytest.approx(40, abs=0.01)


def test_several_signals_are_one_estimate_where_each_alone_fails() -> None:
    random = np.random.default_rng(1)
    estimator = DelayEstimator(2048, 1.0, engine="scipy")
    prices = np.array([signals.steps(2048, seed=s) for s in range(20)])
    late = np.array([signals.delayed(p, 9, mode="hold") for p in prices])
    noisy = late + np.cumsum(random.normal(0, 0.02, late.shape), axis=1)
    assert estimator.estimate(prices, noisy).delay_s == pytest.approx(9, abs=0.2)


def test_a_delay_between_two_samples_is_interpolated() -> None:
    at = np.arange(2048)
    bump = np.exp(-(((at - 900) / 20) ** 2))
    late = np.exp(-(((at - 905.4) / 20) ** 2))
    estimator = DelayEstimator(2048, 1.0, conditioning="none", precision="float64", engine="scipy")
    assert estimator.estimate(bump, late).delay_s == pytest.approx(5.4, abs=0.01)


def test_a_delay_between_two_samples_is_found_to_a_tenth_of_a_sample_by_ten_steps() -> None:
    estimator = DelayEstimator(2048, 1.0, engine="scipy")
    errors = []
    for seed in range(200):
        price = signals.steps(2048, rate=10 / 2048, seed=seed)
        planted = float(np.random.default_rng(seed).uniform(-40, 60))
        found = estimator.estimate(price, signals.delayed(price, planted, mode="hold", seed=seed))
        errors.append(abs(found.delay_s - planted))
    assert np.median(errors) <= 0.1


def test_a_wider_reach_gives_the_delay_and_the_confidence_of_a_narrow_one() -> None:
    random = np.random.default_rng(7)
    lags = np.rint(random.normal(120_000, 300, 400)).astype(np.int64)
    narrow = window_delay(lags, max_delay_ns=1_000_000)
    assert window_delay(lags, max_delay_ns=1_000_000_000) == pytest.approx(narrow, abs=1)
    assert narrow[0] == pytest.approx(120_000, abs=100)


def test_two_signals_that_have_nothing_in_common_give_no_confidence() -> None:
    estimator = DelayEstimator(2048, 1.0, engine="scipy")
    found = [
        estimator.estimate(signals.steps(2048, seed=s), signals.steps(2048, seed=s + 1000)).confidence
        for s in range(30)
    ]
    assert np.median(found) < 0.25


def test_windows_at_once_give_what_they_give_one_by_one() -> None:
    estimator = DelayEstimator(1000, 1.0, engine="scipy")
    a = np.array([signals.steps(1000, seed=s) for s in range(8)])
    b = np.array([signals.delayed(p, 3 * s, mode="hold") for s, p in enumerate(a)])
    many = estimator.estimate_many(a, b)
    assert [round(e.delay_s) for e in many] == [3 * s for s in range(8)]
    assert many[5].delay_s == pytest.approx(estimator.estimate(a[5], b[5]).delay_s, abs=1e-3)


@pytest.mark.long
def test_fftw_gives_the_answers_of_scipy() -> None:
    pytest.importorskip("pyfftw", reason="pyfftw is not installed (extra fft)")
    a = np.array([signals.steps(2048, seed=s) for s in range(8)])
    b = np.array([signals.delayed(p, 11, mode="hold") for p in a])
    plain = DelayEstimator(2048, 1.0, engine="scipy").estimate_arrays(a, b)
    planned = DelayEstimator(2048, 1.0, engine="fftw")
    for _ in range(2):
        assert np.allclose(planned.estimate_arrays(a, b), plain, atol=1e-3)


@pytest.mark.parametrize("conditioning", ["difference", "none"])
def test_an_estimate_is_what_array_arithmetic_in_double_precision_gives(
    conditioning: Literal["difference", "none"],
) -> None:
    estimator = DelayEstimator(
        1000, 1.0, conditioning=conditioning, precision="float64", engine="scipy", max_delay_s=300
    )
    a = np.array([signals.steps(1000, seed=s) - 100 for s in range(3)])
    b = np.array([signals.delayed(p, 25, mode="hold", jitter=2, seed=s) for s, p in enumerate(a)])
    steps = [np.diff(p, prepend=p[:, :1]) if conditioning == "difference" else p for p in (a, b)]
    x, y = (np.pad(p, ((0, 0), (0, 1000))) for p in steps)
    cross = np.fft.rfft(y) * np.fft.rfft(x).conj()
    correlation = np.fft.irfft(cross.sum(0))
    correlation = np.concatenate([correlation[-300:], correlation[:301]])
    at = int(correlation.argmax())
    left, top, right = correlation[at - 1 : at + 2]
    energy = np.sqrt((x**2).sum(1) * (y**2).sum(1)).sum()
    found = estimator.estimate(a, b)
    assert found.delay_s == pytest.approx(at - 300 + 0.5 * (left - right) / (left - 2 * top + right))
    assert found.peak == pytest.approx(top / energy)
    correlation[at - 3 : at + 4] = -np.inf
    assert found.confidence == pytest.approx(1 - correlation.max() / top)


def test_the_gpu_gives_the_answers_of_the_cpu() -> None:
    cupy = pytest.importorskip("cupy", reason="cupy is not installed (extra gpu)")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        pytest.skip("there is no GPU")
    price = signals.steps(2048)
    late = signals.delayed(price, 11, mode="hold")
    assert DelayEstimator(2048, 1.0, engine="gpu").estimate(price, late).delay_s == pytest.approx(
        11, abs=0.01
    )


def test_confidence_is_calibrated_on_planted_delays() -> None:
    estimator = DelayEstimator(2048, 1e5, engine="scipy")

    def pairs() -> list[tuple[np.ndarray, np.ndarray, float]]:
        made = []
        for seed in range(60):
            price = signals.steps(2048, rate=0.01 if seed % 2 else 0.001, seed=seed)
            late = signals.delayed(price, seed % 40, mode="hold", drop=0.2, jitter=seed % 3, seed=seed)
            made.append((price, late, seed % 40 / 1e5))
        return made

    found = calibrate(estimator, iter(pairs()), tolerance_s=1e-5)
    assert found.counts[0] == 60
    assert found.within[4] >= found.within[0]
    told = DelayEstimator(2048, 1e5, engine="scipy", calibration=found)
    one = pairs()[1]
    assert 0.0 <= told.estimate(one[0], one[1]).confidence <= 1.0


@pytest.mark.parametrize("planted", [0, 250, 40_000, -7_000])
def test_a_delay_of_events_is_found_without_sampling(planted: int) -> None:
    random = np.random.default_rng(2)
    a = np.sort(random.integers(0, 10**9, 2000))
    kept = a[random.random(len(a)) > 0.2]
    delay_ns, confidence = lag_histogram(a, np.sort(kept + planted + random.integers(-50, 50, len(kept))))
    assert delay_ns == pytest.approx(planted, abs=100)
    assert confidence > 0.7


def test_price_steps_weigh_pairs_of_events() -> None:
    random = np.random.default_rng(3)
    a = np.sort(random.integers(0, 10**8, 3000))
    step = random.choice((-1.0, 1.0), len(a))
    delay_ns, _ = lag_histogram(a, a + 5_000, a_steps=step, b_steps=step)
    assert delay_ns == pytest.approx(5_000, abs=200)


def shifted(data: bytes, ns: int) -> bytes:
    out, at = bytearray(data), 0
    while at < len(out):
        size = int.from_bytes(out[at : at + 2], "big")
        ts = int.from_bytes(out[at + 7 : at + 13], "big") + ns
        out[at + 7 : at + 13] = struct.pack(">HI", ts >> 32, ts & 0xFFFFFFFF)
        at += 2 + size
    return bytes(out)


def test_the_delay_of_two_feed_files_is_found_in_every_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(tmp_path / "a", seed=1, messages=60_000, symbols=20)
    (tmp_path / "b").write_bytes(shifted((tmp_path / "a").read_bytes(), 123_456))
    with pytest.raises(SystemExit) as left:
        main(["market", "delay", str(tmp_path / "a"), str(tmp_path / "b"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert left.value.code == 0
    assert len(found) > 20
    errors = [abs(row["delay_ns"] - 123_456) for row in found if row["confidence"] > 0.3]
    assert len(errors) > 20
    assert np.median(errors) < 1_000
    assert np.mean(np.array(errors) > 20_000) <= 0.01
    back = delay(tmp_path / "b", tmp_path / "a")
    assert np.median([row.delay_ns for row in back]) == pytest.approx(-123_456, abs=1_000)


def test_windows_of_growing_files_come_while_they_grow(tmp_path: Path) -> None:
    generate(tmp_path / "day", seed=1, messages=60_000, symbols=20)
    day = (tmp_path / "day").read_bytes()
    parts = {"a": day, "b": shifted(day, 50_000)}
    half = len(day) // 2
    for name, data in parts.items():
        (tmp_path / name).write_bytes(data[:half])
    found = delay_windows(tmp_path / "a", tmp_path / "b", follow_s=1.0)
    early = [next(found) for _ in range(3)]  # the files' second halves aren't there yet
    for name, data in parts.items():
        with (tmp_path / name).open("ab") as file:
            file.write(data[half:])
    assert early + list(found) == delay(tmp_path / "a", tmp_path / "b")


def test_two_live_feeds_give_windows(tmp_path: Path) -> None:
    generate(tmp_path / "a", seed=1, messages=4_000, symbols=4)
    (tmp_path / "b").write_bytes(shifted((tmp_path / "a").read_bytes(), 50_000))
    feeds = {name: LiveSource("udp://127.0.0.1:0?idle=3") for name in "ab"}
    senders = []
    for name, feed in feeds.items():
        target = MoldTarget("127.0.0.1", feed.receiver.addresses[0][1])
        sender = threading.Thread(target=replay, args=(tmp_path / name, target), kwargs={"fixed_ns": 100_000})
        senders.append(sender)
        sender.start()
    found = delay(feeds["a"], feeds["b"], window_ns=600_000_000_000)
    for sender in senders:
        sender.join()
    sure = [row for row in found if row.confidence > 0.9]
    assert sure
    assert all(abs(row.delay_ns - 50_000) < 1_000 for row in sure)


def test_the_confidence_of_a_window_is_the_share_within_a_microsecond() -> None:
    random = np.random.default_rng(8)
    told, hit = [], []
    for _ in range(300):
        pairs, jitter = int(10 ** random.uniform(1, 2.5)), 10 ** random.uniform(2, 5.5)
        planted = int(random.uniform(-3e6, 3e6))
        true = random.random(pairs) < random.uniform(0.1, 1)
        lags = np.where(true, planted + random.normal(0, jitter, pairs), random.uniform(-5e6, 5e6, pairs))
        found, confidence = window_delay(np.clip(lags, -5e6, 5e6).astype(np.int64))
        told.append(confidence)
        hit.append(abs(found - planted) <= 1_000)
    for low, high in ((0.0, 0.2), (0.2, 0.8), (0.8, 1.0)):
        chosen = [(t, h) for t, h in zip(told, hit, strict=True) if low <= t <= high]
        assert len(chosen) > 10
        assert np.mean([t for t, _ in chosen]) == pytest.approx(np.mean([h for _, h in chosen]), abs=0.15)


def test_opencl_gives_the_answers_of_the_cpu() -> None:
    cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed (extra opencl)")
    pytest.importorskip("reikna", reason="reikna is not installed (extra opencl)")
    try:
        cl.get_platforms()
    except cl.Error:
        pytest.skip("there is no OpenCL platform; pocl is one for the CPU")
    random = np.random.default_rng(1)
    a = np.array([[signals.steps(96, seed=s + 10 * w) for s in range(2)] for w in range(3)])
    b = np.roll(a, 7, axis=-1) + random.normal(0, 1e-3, a.shape)
    for conditioning in ("difference", "whiten"):
        options = {"conditioning": conditioning, "max_delay_s": 20}
        plain = DelayEstimator(96, 1.0, engine="scipy", **options)  # type: ignore[arg-type]
        there = DelayEstimator(96, 1.0, engine="opencl", **options)  # type: ignore[arg-type]
        assert np.allclose(there.estimate_arrays(a, b), plain.estimate_arrays(a, b), atol=1e-3)


@pytest.mark.parametrize("threads", [1, 3])
def test_one_reference_for_many_windows_is_as_if_each_had_it(threads: int) -> None:
    reference = np.array([signals.steps(500, seed=s) for s in range(4)])
    b = np.array([np.roll(reference, k, axis=-1) for k in range(7)])
    estimator = DelayEstimator(500, 1.0, engine="scipy", threads=threads)
    one = estimator.estimate_arrays(reference, b)
    each = estimator.estimate_arrays(np.broadcast_to(reference, b.shape), b)
    assert np.array_equal(one, each)
    assert np.allclose(one[0], range(7), atol=0.1)


def test_signals_of_unlike_scale_are_found_all_the_same() -> None:
    price = signals.steps(1024)
    late = signals.delayed(price, 9, mode="hold")
    estimator = DelayEstimator(1024, 1.0, engine="scipy")
    plain, scaled = estimator.estimate(price, late), estimator.estimate(price, late * 1e6)
    assert scaled.delay_s == pytest.approx(plain.delay_s, abs=1e-3)
    assert scaled.peak == pytest.approx(plain.peak, abs=1e-3)


def test_arguments_out_of_range_are_usage_errors() -> None:
    with pytest.raises(UsageError):
        DelayEstimator(2, 1.0)
    with pytest.raises(UsageError):
        DelayEstimator(2048, 1.0, engine="abacus")
    with pytest.raises(UsageError):
        DelayEstimator(16, 1.0, engine="scipy").estimate(np.zeros(15), np.zeros(15))
