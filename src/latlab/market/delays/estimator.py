"""The delay between two sampled signals, by cross-correlation."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from latlab.errors import UsageError
from latlab.market.delays.transforms import Preparation, Transforms, lanes

Signals = npt.NDArray[np.floating[Any]]
Conditioning = Literal["difference", "whiten", "none"]


class DelayEstimate(NamedTuple):
    """By how much the second signal lags the first (a tuple: a dataclass costs 0.4 us of an estimate's 7).

    Attributes:
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
        engine: ``auto`` (pyfftw where it is installed, else scipy), ``fftw``, ``scipy``, ``gpu`` (cupy) or
            ``opencl`` (pyopencl); the answers are the same.
        threads: over which many windows are spread on the CPU; over all devices elsewhere.
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
        self._calibration = calibration
        most = n // 2 if max_delay_s is None else min(n - 1, max(1, int(max_delay_s * rate)))
        # Zeros as long as the reach keep the window's one end from the other's; more bring nothing.
        self._size = _good_size(n + most) if pad else n
        reach = min((self._size - 1) // 2, most)
        self._by = Preparation(conditioning != "none", conditioning == "whiten", reach)
        if threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        self._lanes = lanes(engine, self._size, self._real, threads)
        self._scale = self._lanes[0].scale

    def estimate(self, a: npt.ArrayLike, b: npt.ArrayLike) -> DelayEstimate:
        """The delay of b behind a.

        Args:
            a: shape (n,), or (signals, n) to be combined into one estimate.
            b: likewise.

        Raises:
            UsageError: the shapes are not these.
        """
        one, other = np.ascontiguousarray(a, self._real), np.ascontiguousarray(b, self._real)
        shape = one.shape
        if shape != other.shape or len(shape) not in (1, 2) or shape[-1] != self.n or not shape[0]:
            raise UsageError(f"both must have {self.n} samples, not the shapes {shape} and {other.shape}")
        together = shape[0] if len(shape) == 2 else 1
        (energy,), (found,) = self._lanes[0].find(one, other, together, self._by)
        delay, confidence, peak = self._judged(found, energy, together)
        return DelayEstimate(delay, self._told(confidence), peak)

    def estimate_many(self, a: npt.ArrayLike, b: npt.ArrayLike) -> list[DelayEstimate]:
        """One estimate for each of many windows.

        Args:
            a: shape (windows, n), or (windows, signals, n) with the signals combined; or one reference for
                all windows, of shape (n,) or (signals, n).
            b: shape (windows, n) or (windows, signals, n).
        """
        found = self.estimate_arrays(np.asarray(a, self._real), np.asarray(b, self._real))
        return [DelayEstimate(float(d), float(c), float(p)) for d, c, p in zip(*found, strict=True)]

    def estimate_arrays(self, a: Signals, b: Signals) -> tuple[Signals, Signals, Signals]:
        """As `estimate_many`, as arrays: delays in seconds, confidences, peaks."""
        if a.shape not in (b.shape, b.shape[1:]) or b.shape[-1] != self.n or b.ndim not in (2, 3):
            raise UsageError(f"both signals must have {self.n} samples, not shapes {a.shape} and {b.shape}")
        together = b.shape[1] if b.ndim == 3 else 1
        windows, one_for_all = len(b), a.ndim < b.ndim
        flat = [np.ascontiguousarray(x, self._real).reshape(-1, self.n) for x in (a, b)]
        bounds = np.linspace(0, windows, min(len(self._lanes), max(windows, 1)) + 1).astype(int) * together
        parts = [
            (lane, flat[0] if one_for_all else flat[0][begin:end], flat[1][begin:end], together)
            for lane, begin, end in zip(self._lanes, bounds[:-1], bounds[1:], strict=False)
        ]
        for lane, _, part, _ in parts:
            lane.room(len(part), together)  # planning is for one thread at a time
        if len(parts) == 1:
            rows = self._windows(*parts[0])
        else:
            with ThreadPoolExecutor(len(parts)) as pool:
                rows = [row for part in pool.map(lambda part: self._windows(*part), parts) for row in part]
        found = np.array(rows).reshape(-1, 3).T
        if self._calibration is not None:
            found[1] = np.interp(found[1], self._calibration.confidences, self._calibration.within)
        return found[0], found[1], found[2]

    def _windows(
        self, lane: Transforms, a: Signals, b: Signals, together: int
    ) -> list[tuple[float, float, float]]:
        """Delay in seconds, raw confidence and normalised correlation of each `together` rows."""
        if not len(b):
            return []
        energies, found = lane.find(a, b, together, self._by)
        return [self._judged(one, energy, together) for one, energy in zip(found, energies, strict=True)]

    def _judged(
        self, found: tuple[float, float, float], energy: float, together: int
    ) -> tuple[float, float, float]:
        lag, top, rest = found
        if not (top > 0 and energy > 0):
            return 0.0, 0.0, 0.0
        most = (together if self._by.whiten else energy) * self._scale
        confidence = 1.0 - rest / top
        return lag / self.rate, confidence if confidence > 0 else 0.0, top / most

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
