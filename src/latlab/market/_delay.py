"""The delay between two feeds: cross-correlation of sampled signals, and of events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from os import PathLike
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from latlab._core.market import cross_rows, peak_of_row, place_rows
from latlab.errors import MissingExtraError, UsageError

Signals = npt.NDArray[np.floating[Any]]
_MAX_PAIRS = 64  # for each event, in a burst
Conditioning = Literal["difference", "whiten", "none"]


@dataclass(frozen=True)
class DelayEstimate:
    """By how much the second signal lags the first.

    Args:
        delay_s: positive when the second is later.
        confidence: between 0 and 1: how far the peak stands out from the best of the rest; see `calibrate`.
        peak: the normalised correlation at the peak.
    """

    delay_s: float
    confidence: float
    peak: float


@dataclass(frozen=True)
class Calibration:
    """How far confidence may be believed.

    Args:
        confidences: lower bounds, rising.
        within: the share of planted delays found within the tolerance at this confidence or above.
        counts: estimates at this confidence or above.
        tolerance_s: the tolerance.
    """

    confidences: tuple[float, ...]
    within: tuple[float, ...]
    counts: tuple[int, ...]
    tolerance_s: float


class Transforms(Protocol):
    """Forward and inverse real transforms of rows of a fixed size, and the cross-spectra between."""

    scale: float
    """What `inverse` multiplies a correlation by."""

    def room(self, rows: int) -> Signals:
        """Zeroed rows of shape (rows, size) to put signals in."""

    def forward(self, rows: Signals) -> Any:
        """Spectra of the rows."""

    def cross(self, spectra: Any, together: int, whiten: bool) -> Any:
        """The spectra of the first half of the rows with those of the second, `together` of them summed."""

    def inverse(self, spectra: Any) -> Signals:
        """Correlations of shape (rows, size)."""


class _Scipy:
    scale = 1.0

    def __init__(self, size: int, real: npt.DTypeLike) -> None:
        import scipy.fft

        self._fft, self._size, self._real = scipy.fft, size, np.dtype(real)

    def room(self, rows: int) -> Signals:
        return np.zeros((rows, self._size), self._real)

    def forward(self, rows: Signals) -> Any:
        return self._fft.rfft(rows, axis=-1)

    def cross(self, spectra: Any, together: int, whiten: bool) -> Any:
        out = np.empty((len(spectra) // 2 // together, spectra.shape[1]), spectra.dtype)
        cross_rows(spectra, together, whiten, out)
        return out

    def inverse(self, spectra: Any) -> Any:
        return self._fft.irfft(spectra, self._size, axis=-1)


class _Fftw:
    """Planned once for each number of signals, with its own aligned memory; the fastest on the CPU."""

    def __init__(self, size: int, real: npt.DTypeLike, threads: int) -> None:
        try:
            import pyfftw
        except ImportError as error:
            raise MissingExtraError("pyfftw", "fft") from error
        self._pyfftw, self._size, self._threads = pyfftw, size, threads
        self.scale = float(size)  # FFTW's inverse is not normalised, and need not be
        self._real = np.dtype(real)
        self._complex = np.dtype(np.complex64 if self._real == np.float32 else np.complex128)
        self._forwards: dict[int, tuple[Signals, Any, Any]] = {}
        self._inverses: dict[int, tuple[Any, Signals, Any]] = {}

    def room(self, rows: int) -> Signals:
        if rows not in self._forwards:
            real = self._pyfftw.zeros_aligned((rows, self._size), self._real)
            spectra = self._pyfftw.zeros_aligned((rows, self._size // 2 + 1), self._complex)
            plan = self._plan(real, spectra, "FFTW_FORWARD", ("FFTW_MEASURE",))
            real[...] = 0  # planning scribbles over it, and what pads a signal must be zero
            self._forwards[rows] = (real, spectra, plan)
        return self._forwards[rows][0]

    def forward(self, rows: Signals) -> Any:
        _, spectra, run = self._forwards[len(rows)]
        run()
        return spectra

    def cross(self, spectra: Any, together: int, whiten: bool) -> Any:
        rows = len(spectra) // 2 // together
        if rows not in self._inverses:
            summed = self._pyfftw.zeros_aligned((rows, self._size // 2 + 1), self._complex)
            back = self._pyfftw.zeros_aligned((rows, self._size), self._real)
            plan = self._plan(summed, back, "FFTW_BACKWARD", ("FFTW_MEASURE", "FFTW_DESTROY_INPUT"))
            self._inverses[rows] = (summed, back, plan)
        summed = self._inverses[rows][0]
        cross_rows(spectra, together, whiten, summed)
        return summed

    def inverse(self, spectra: Any) -> Any:
        _, back, run = self._inverses[len(spectra)]
        run()
        return back

    def _plan(self, a: Any, b: Any, direction: str, flags: tuple[str, ...]) -> Any:
        plan = self._pyfftw.FFTW(a, b, axes=(-1,), direction=direction, threads=self._threads, flags=flags)
        return plan.execute


class _Cupy:
    scale = 1.0

    def __init__(self, size: int, real: npt.DTypeLike) -> None:
        try:
            import cupy
        except ImportError as error:
            raise MissingExtraError("cupy", "gpu") from error
        self._cupy, self._size, self._real = cupy, size, np.dtype(real)

    def room(self, rows: int) -> Signals:
        return np.zeros((rows, self._size), self._real)

    def forward(self, rows: Signals) -> Any:
        return self._cupy.fft.rfft(self._cupy.asarray(rows), axis=-1)

    def cross(self, spectra: Any, together: int, whiten: bool) -> Any:
        half = len(spectra) // 2
        product = spectra[half:] * spectra[:half].conj()
        if whiten:
            size = abs(product)
            product /= size + 1e-3 * size.mean(axis=-1, keepdims=True) + np.finfo(self._real).tiny
        return product.reshape(-1, together, product.shape[-1]).sum(axis=1)

    def inverse(self, spectra: Any) -> Any:
        return np.ascontiguousarray(
            self._cupy.asnumpy(self._cupy.fft.irfft(spectra, self._size, axis=-1)), self._real
        )


def _transforms(engine: str, size: int, real: npt.DTypeLike, threads: int) -> Transforms:
    if engine == "auto":
        try:
            return _Fftw(size, real, threads)
        except MissingExtraError:
            return _Scipy(size, real)
    if engine == "fftw":
        return _Fftw(size, real, threads)
    if engine == "scipy":
        return _Scipy(size, real)
    if engine == "gpu":
        return _Cupy(size, real)
    raise UsageError(f"the engine must be auto, fftw, scipy or gpu, not '{engine}'")


class DelayEstimator:
    """Delays of windows of n samples by cross-correlation in the frequency domain.

    Raw circular correlation of price steps finds the trend and the window's edge rather than the delay, so
    the signals are differenced (or whitened to the phase alone: Knapp and Carter, The generalized
    correlation method for estimation of time delay, IEEE TASSP 24 (1976)) and padded by as much as the delay
    may be. Transforms are planned once. Several signals (bid, offer, sizes, symbols) are correlated at once
    and their correlations summed, which weighs each by its energy.

    Args:
        n: samples a window.
        rate: samples a second.
        max_delay_s: look no further than this; by default half of the window.
        conditioning: ``difference``, ``whiten`` or ``none``.
        pad: with zeros, as far as the delay may reach; circular when False.
        precision: ``float32`` or ``float64``.
        engine: ``auto`` (pyfftw where it is installed, else scipy), ``fftw``, ``scipy`` or ``gpu`` (cupy).
        threads: of one transform.
        calibration: turns the raw confidence (by how much the peak exceeds the highest point elsewhere)
            into the share of estimates of such a confidence or more that are within its tolerance.

    Raises:
        UsageError: an argument out of range.
        MissingExtraError: the engine is not installed.
    """

    def __init__(
        self,
        n: int,
        rate: float,
        *,
        max_delay_s: float | None = None,
        conditioning: Conditioning = "difference",
        pad: bool = True,
        precision: Literal["float32", "float64"] = "float32",
        engine: str = "auto",
        threads: int = 1,
        calibration: Calibration | None = None,
    ) -> None:
        if n < 4 or not rate > 0:
            raise UsageError("a window needs at least 4 samples, and a positive rate")
        if conditioning not in ("difference", "whiten", "none"):
            raise UsageError(f"conditioning must be difference, whiten or none, not '{conditioning}'")
        self.n, self.rate = n, rate
        self._real = np.dtype(precision)
        self._conditioning = conditioning
        self._calibration = calibration
        most = n // 2 if max_delay_s is None else min(n - 1, max(1, int(max_delay_s * rate)))
        # Zeros as long as the reach keep the window's one end from the other's; more bring nothing.
        self._size = _good_size(n + most) if pad else n
        self._reach = min((self._size - 1) // 2, most)
        self._transforms = _transforms(engine, self._size, self._real, threads)

    def estimate(self, a: npt.ArrayLike, b: npt.ArrayLike) -> DelayEstimate:
        """The delay of b behind a.

        Args:
            a: shape (n,), or (signals, n) to be combined into one estimate.
            b: likewise.

        Raises:
            UsageError: the shapes are not these.
        """
        one, other = np.asarray(a, self._real), np.asarray(b, self._real)
        if one.ndim == other.ndim == 1:
            one, other = one[np.newaxis], other[np.newaxis]
        if one.shape != other.shape or one.ndim != 2 or one.shape[1] != self.n:
            raise UsageError(f"both must have {self.n} samples, not the shapes {one.shape} and {other.shape}")
        energy, correlation = self._correlate(one, other, len(one))
        delay, confidence, peak = self._result(peak_of_row(correlation, 0, self._reach), sum(energy))
        return DelayEstimate(delay, self._told(confidence), peak)

    def estimate_many(self, a: npt.ArrayLike, b: npt.ArrayLike) -> list[DelayEstimate]:
        """One estimate for each of many windows.

        Args:
            a: shape (windows, n), or (windows, signals, n) with the signals combined.
            b: likewise.
        """
        found = self.estimate_arrays(np.asarray(a, self._real), np.asarray(b, self._real))
        return [DelayEstimate(float(d), float(c), float(p)) for d, c, p in zip(*found, strict=True)]

    def estimate_arrays(self, a: Signals, b: Signals) -> tuple[Signals, Signals, Signals]:
        """As `estimate_many`, as arrays: delays in seconds, confidences, peaks."""
        if a.shape != b.shape or a.shape[-1] != self.n or a.ndim not in (2, 3):
            raise UsageError(f"both signals must have {self.n} samples, not shapes {a.shape} and {b.shape}")
        together = a.shape[1] if a.ndim == 3 else 1
        flat = [np.asarray(x, self._real).reshape(-1, self.n) for x in (a, b)]
        energies, correlations = self._correlate(flat[0], flat[1], together)
        found = np.zeros((3, len(correlations)))
        for row in range(len(correlations)):
            energy = sum(energies[row * together : (row + 1) * together])
            found[:, row] = self._result(peak_of_row(correlations, row, self._reach), energy)
        if self._calibration is not None:
            found[1] = np.interp(found[1], self._calibration.confidences, self._calibration.within)
        return found[0], found[1], found[2]

    def _correlate(self, a: Signals, b: Signals, together: int) -> tuple[list[float], Signals]:
        """Correlations of rows of a with rows of b, `together` of them summed, and each pair's energy."""
        count, transforms = len(a), self._transforms
        rows = transforms.room(2 * count)
        difference = self._conditioning != "none"
        first, second = place_rows(a, difference, rows, 0), place_rows(b, difference, rows, count)
        energies = [sqrt(x * y) for x, y in zip(first, second, strict=True)]
        whiten = self._conditioning == "whiten"
        if whiten:
            energies = [float(energy > 0) for energy in energies]
        spectra = transforms.cross(transforms.forward(rows), together, whiten)
        return energies, transforms.inverse(spectra)

    def _result(self, found: tuple[float, float, float], energy: float) -> tuple[float, float, float]:
        """Delay in seconds, raw confidence, normalised correlation."""
        lag, top, rest = found
        if not (top > 0 and energy > 0):
            return 0.0, 0.0, 0.0
        return lag / self.rate, max(0.0, 1.0 - rest / top), top / (energy * self._transforms.scale)

    def _told(self, confidence: float) -> float:
        if self._calibration is None:
            return confidence
        return float(np.interp(confidence, self._calibration.confidences, self._calibration.within))


def _good_size(least: int) -> int:
    """The next size that transforms take quickly: a power of two times 1, 3, 5, 9 or 15."""
    return min(m << max(0, -(-least // m) - 1).bit_length() for m in (1, 3, 5, 9, 15))


def calibrate(
    estimator: DelayEstimator,
    pairs: Iterator[tuple[Signals, Signals, float]],
    *,
    tolerance_s: float = 1e-6,
    bounds: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9),
) -> Calibration:
    """What share of estimates at each confidence is within the tolerance, on signals with planted delays.

    Args:
        pairs: first signal, second signal, true delay in seconds; see `latlab.market.signals`.
    """
    found = [
        (e.confidence, abs(e.delay_s - t) <= tolerance_s)
        for a, b, t in pairs
        for e in [estimator.estimate(a, b)]
    ]
    within, counts = [], []
    for bound in bounds:
        hits = [hit for confidence, hit in found if confidence >= bound]
        counts.append(len(hits))
        within.append(sum(hits) / len(hits) if hits else float("nan"))
    return Calibration(bounds, tuple(within), tuple(counts), tolerance_s)


def lag_histogram(
    a_ns: npt.NDArray[np.int64],
    b_ns: npt.NDArray[np.int64],
    *,
    a_steps: npt.NDArray[np.float64] | None = None,
    b_steps: npt.NDArray[np.float64] | None = None,
    max_delay_ns: int = 1_000_000,
    bin_ns: int = 1_000,
) -> tuple[float, float]:
    """The delay of events b behind events a, without sampling them: the mode of their lags.

    With steps, pairs are weighted by the product of their price steps, which is the Hayashi-Yoshida
    covariance of
    the shifted series in the limit of point events (Hoffmann, Rosenbaum and Yoshida, Estimation of the
    lead-lag
    parameter from non-synchronous data, Bernoulli 19 (2013)); without, each pair counts once.

    Args:
        a_ns: times of a's events, rising.
        b_ns: times of b's.
        max_delay_ns: pairs further apart don't count.
        bin_ns: the resolution of the histogram; the result is the mean of the lags around its mode.

    Returns:
        The delay in ns and a confidence between 0 and 1; (0, 0) when no pair is near enough.
    """
    first, lags = _pairs(a_ns, b_ns, max_delay_ns)
    weight = np.ones(len(lags))
    if a_steps is not None and b_steps is not None:
        weight = a_steps[first[0]] * b_steps[first[1]]
    return _mode(lags, weight, max_delay_ns, bin_ns)


def _pairs(
    a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], reach: int
) -> tuple[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]], npt.NDArray[np.int64]]:
    """All pairs of times within reach (at most _MAX_PAIRS for each of a), as indices, and their lags."""
    first = np.searchsorted(b, a - reach)
    count = np.minimum(np.searchsorted(b, a + reach, side="right") - first, _MAX_PAIRS)
    at_a = np.repeat(np.arange(len(a)), count)
    starts = np.cumsum(count) - count
    at_b = np.arange(len(at_a)) - np.repeat(starts, count) + np.repeat(first, count)
    return (at_a, at_b), b[at_b] - a[at_a]


def _mode(
    lags: npt.NDArray[np.int64], weight: npt.NDArray[np.float64], reach: int, bin_ns: int
) -> tuple[float, float]:
    """The mean lag around the histogram's mode, and by how much the mode exceeds what lies elsewhere."""
    bins = 2 * reach // bin_ns + 1
    place = (lags + reach) // bin_ns
    weights = np.bincount(place, weight, bins)
    sums = np.bincount(place, weight * lags, bins)
    if weights.max(initial=0.0) <= 0:
        return 0.0, 0.0
    at = int(np.argmax(weights))
    half, mass = 1, float(weights[max(0, at - 1) : at + 2].sum())
    floor = float(weights.mean())
    while half < bins // 8:
        # As wide as the mode is (jitter widens it): until twice the width brings little but background.
        wider = float(weights[max(0, at - 2 * half) : at + 2 * half + 1].sum())
        if wider - mass < 0.25 * mass + 2 * half * floor:
            break
        half, mass = 2 * half, wider
    low, high = max(0, at - half), at + half + 1
    inside = weights[low:high] - floor
    kept = inside > 0
    means = sums[low:high][kept] / weights[low:high][kept]
    delay = float(np.average(means, weights=inside[kept])) if kept.any() else 0.0
    # The same width of the smoothed histogram anywhere else.
    smooth = np.convolve(weights, np.ones(2 * half + 1), mode="same")
    smooth[max(0, at - 2 * half - 1) : at + 2 * half + 2] = 0
    return delay, float(np.clip(1 - smooth.max(initial=0.0) / mass, 0.0, 1.0))


@dataclass(frozen=True)
class FeedDelay:
    """The delay of feed B behind feed A in one window.

    Args:
        at_ns: where the window begins, ns since midnight.
        delay_ns: positive when B is later.
        confidence: of the estimate, between 0 and 1: by how much the best lag stands out.
    """

    at_ns: int
    delay_ns: float
    confidence: float


def delay(
    a: str | PathLike[str],
    b: str | PathLike[str],
    *,
    symbols: tuple[str, ...] = (),
    window_ns: int = 60_000_000_000,
    max_delay_ns: int = 5_000_000,
    bin_ns: int = 1_000,
    least_pairs: int = 10,
    lenient: bool = False,
) -> list[FeedDelay]:
    """The delay between two feeds of the same market, window by window.

    Moves of one side of a symbol's inside to the same price are matched, and the lags of all symbols are one
    histogram. No clock but the feeds' own stamps is used; an ITCH and a PITCH feed may be compared.

    Args:
        a: the leading feed's file.
        b: the other's.
        symbols: only these; those that both feeds have when empty.
        window_ns: of an estimate.
        max_delay_ns: look no further.
        bin_ns: resolution of the lag histogram.
        least_pairs: a window with fewer matched moves gives no estimate.

    Raises:
        InputError: a file is bad.
        UsageError: an argument out of range.
    """
    if not 1 <= bin_ns <= max_delay_ns <= window_ns:
        raise UsageError(
            "the bin must be at least 1 ns, and no more than the delay, nor that than the window"
        )
    names: dict[str, int] = {}
    left, right = (_moves(path, symbols, names, lenient) for path in (a, b))
    (at_a, at_b), lags = _pairs(left.keys, right.keys, max_delay_ns)
    same = left.prices[at_a] == right.prices[at_b]
    lags, begins = lags[same], left.times[at_a[same]] // window_ns
    order = np.argsort(begins, kind="stable")
    lags, begins = lags[order], begins[order]
    found = []
    for window, start, count in zip(*np.unique(begins, return_index=True, return_counts=True), strict=True):
        if count < least_pairs:
            continue
        part = lags[start : start + count]
        lag, confidence = _mode(part, np.ones(count), max_delay_ns, bin_ns)
        found.append(FeedDelay(int(window) * window_ns, lag, confidence))
    return found


@dataclass(frozen=True)
class _Moves:
    """Moves of an inside to a price; keys are (symbol, side) and time in one number: one search pairs all."""

    keys: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    prices: npt.NDArray[np.int64]


def _moves(
    path: str | PathLike[str], symbols: tuple[str, ...], names: dict[str, int], lenient: bool
) -> _Moves:
    from latlab.market._passes import inside_columns

    times, locates, values, known = inside_columns(path, symbols=symbols, lenient=lenient)
    number = np.zeros(1 << 16, np.int64)
    for locate, name in known.items():
        number[locate] = names.setdefault(name, len(names))
    order = np.argsort(locates, kind="stable")
    times, locates, values = times[order].astype(np.int64), locates[order], values[order]
    keys, stamps, prices = [], [], []
    for side, column in enumerate((0, 2)):
        price = values[:, column].astype(np.int64)
        moved = np.diff(price, prepend=0) != 0
        moved |= np.diff(locates.astype(np.int64), prepend=-1) != 0
        moved &= price != 0
        # 48 bits hold three days of ns; 14 bits of symbols and one of the side stand above them.
        keys.append((number[locates[moved]] * 2 + side << 48) + times[moved])
        stamps.append(times[moved])
        prices.append(price[moved])
    key = np.concatenate(keys)
    by_key = np.argsort(key, kind="stable")
    return _Moves(key[by_key], np.concatenate(stamps)[by_key], np.concatenate(prices)[by_key])
