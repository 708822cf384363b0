"""Test signals for delay estimators: periodic ones, and steps like prices, with a planted delay."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Signal = npt.NDArray[np.float64]

__all__ = ["delayed", "square", "steps", "triangle"]


def square(n: int, *, period: int = 256) -> Signal:
    """A square wave of +1 and -1: n samples, a period of `period` samples."""
    return np.where(np.arange(n) % period < period / 2, 1.0, -1.0)


def triangle(n: int, *, period: int = 256) -> Signal:
    """A triangle wave between +1 and -1."""
    phase = np.arange(n) % period / period
    return 4 * np.abs(phase - 0.5) - 1


def steps(n: int, *, rate: float = 0.05, tick: float = 0.01, seed: int = 0) -> Signal:
    """A price that moves by ticks at random: about `rate` steps a sample, never periodic."""
    random = np.random.default_rng(seed)
    moves = random.poisson(rate, n) * random.choice((-1.0, 1.0), n)
    return np.asarray(100.0 + tick * np.cumsum(moves))


def delayed(
    signal: Signal,
    samples: float,
    *,
    mode: str = "zero",
    drop: float = 0.0,
    jitter: float = 0.0,
    seed: int = 0,
) -> Signal:
    """The signal later by so many samples.

    Args:
        signal: shape (n,).
        samples: of delay; may be negative. Of a fraction each step is later by the whole number before it or
            after it, as it would be seen if it had come at any time between two samples.
        mode: what comes in at the edge: ``periodic``: the other end; ``zero``: zeros; ``hold``: the end's
        value.
        drop: the share of steps that are lost (and made up for by the next one).
        jitter: the standard deviation of each step's own delay, in samples.
        seed: of the drops and the jitter.

    Raises:
        ValueError: the mode is none of these.
    """
    if mode not in ("periodic", "zero", "hold"):
        raise ValueError(f"the mode must be periodic, zero or hold, not '{mode}'")
    whole = int(np.floor(samples))
    part = samples - whole
    if drop or jitter or part:
        random = np.random.default_rng(seed)
        at = np.flatnonzero(np.diff(signal, prepend=signal[0]))
        at = at[random.random(len(at)) >= drop]
        later = np.rint(random.normal(0, jitter, len(at)))
        if part:
            later += random.random(len(at)) < part
        moved = np.sort(np.clip(at + later, 0, len(signal) - 1)).astype(np.intp)
        levels = np.concatenate([signal[:1], signal[at]])
        signal = levels[np.searchsorted(moved, np.arange(len(signal)), side="right")]
    out = np.roll(signal, whole)
    if mode != "periodic" and whole:
        edge = slice(None, whole) if whole > 0 else slice(whole, None)
        out[edge] = 0.0 if mode == "zero" else (signal[0] if whole > 0 else signal[-1])
    return out
