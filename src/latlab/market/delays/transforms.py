"""Correlations of many pairs of signals at once, by the Fourier transforms of the CPU and of other devices.

A pair of real signals is transformed as the real and imaginary parts of one, for what one of them alone would
cost; its cross-spectrum is read off that (native, `cross_pairs`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab._core.market_delay import Correlator, cross_pairs, peaks, place_pairs
from latlab.errors import MissingExtraError, UnavailableError, UsageError

Signals = npt.NDArray[np.floating[Any]]
_PLANNING_S = 2.0


@dataclass(frozen=True)
class Preparation:
    """What is done to the signals, and how far the lag may reach in samples."""

    difference: bool
    whiten: bool
    reach: int


Found = tuple[list[float], list[tuple[float, float, float]]]


class Transforms(ABC):
    """Circular correlations of rows of a fixed size, planned once for each number of rows."""

    scale: float = 1.0
    """What correlations are multiplied by."""

    @abstractmethod
    def room(self, pairs: int, together: int) -> Any:
        """Plan for so many; zeroed complex rows of shape (pairs, size) to put pairs of signals in."""

    @abstractmethod
    def find(self, a: Signals, b: Signals, together: int, by: Preparation) -> Found:
        """The energy of each `together` pairs, and their peak: lag in samples, height, the highest elsewhere.

        Args:
            a: shape (pairs, n), or fewer rows that are taken again and again.
            b: shape (pairs, n), or (n,) of one pair.
        """


class _Stepwise(Transforms):
    """Correlations by an engine that has no memory of its own to plan for."""

    @abstractmethod
    def correlate(self, rows: Any, together: int, whiten: bool) -> Signals:
        """Correlations of shape (pairs / together, size)."""

    def find(self, a: Signals, b: Signals, together: int, by: Preparation) -> Found:
        rows = self.room(len(b) if b.ndim == 2 else 1, together)
        energies = place_pairs(a, b, by.difference, together, rows)
        return energies, peaks(self.correlate(rows, together, by.whiten), by.reach)


class _Scipy(_Stepwise):
    def __init__(self, size: int, real: npt.DTypeLike) -> None:
        import scipy.fft

        self._fft, self._size = scipy.fft, size
        self._complex = _complex_of(real)

    def room(self, pairs: int, together: int) -> Any:
        return np.zeros((pairs, self._size), self._complex)

    def correlate(self, rows: Any, together: int, whiten: bool) -> Signals:
        out = np.empty((len(rows) // together, self._size // 2 + 1), self._complex)
        cross_pairs(self._fft.fft(rows, axis=-1), together, whiten, out)
        found: Signals = self._fft.irfft(out, self._size, axis=-1)
        return found


class _Fftw(Transforms):
    """Planned with patience, each plan with its own aligned memory; the fastest on the CPU."""

    def __init__(self, size: int, real: npt.DTypeLike) -> None:
        try:
            import pyfftw
        except ImportError as error:
            raise MissingExtraError("pyfftw", "fft") from error
        self._pyfftw, self._size = pyfftw, size
        self.scale = float(size)  # FFTW's inverse is not normalised, and need not be
        self._real, self._complex = np.dtype(real), _complex_of(real)
        self._plans: dict[tuple[int, int], tuple[Any, Correlator]] = {}

    def room(self, pairs: int, together: int) -> Any:
        return (self._plans.get((pairs, together)) or self._planned(pairs, together))[0]

    def find(self, a: Signals, b: Signals, together: int, by: Preparation) -> Found:
        pairs = len(b) if b.ndim == 2 else 1
        _, correlator = self._plans.get((pairs, together)) or self._planned(pairs, together)
        return correlator.run(a, b, by.difference, by.whiten, by.reach)

    def _planned(self, pairs: int, together: int) -> tuple[Any, Correlator]:
        def zeros(rows: int, size: int, kind: Any) -> Any:
            return self._pyfftw.zeros_aligned((rows, size), kind)

        rows, spectra = zeros(pairs, self._size, self._complex), zeros(pairs, self._size, self._complex)
        summed = zeros(pairs // together, self._size // 2 + 1, self._complex)
        back = zeros(pairs // together, self._size, self._real)
        forward = self._plan(rows, spectra, "FFTW_FORWARD", ())
        inverse = self._plan(summed, back, "FFTW_BACKWARD", ("FFTW_DESTROY_INPUT",))
        rows[...] = 0  # planning scribbles over it, and what pads a signal must be zero
        plan = rows, Correlator(rows, forward, spectra, summed, inverse, back)
        self._plans[pairs, together] = plan
        return plan

    def _plan(self, a: Any, b: Any, direction: str, flags: tuple[str, ...]) -> Callable[[], None]:
        plan: Callable[[], None] = self._pyfftw.FFTW(
            a,
            b,
            axes=(-1,),
            direction=direction,
            flags=("FFTW_PATIENT", *flags),
            planning_timelimit=_PLANNING_S,
        ).execute
        return plan


class _Cupy(_Stepwise):
    def __init__(self, size: int, real: npt.DTypeLike, device: int) -> None:
        import cupy

        self._cupy, self._size, self._device = cupy, size, device
        self._real, self._complex = np.dtype(real), _complex_of(real)

    def room(self, pairs: int, together: int) -> Any:
        return np.zeros((pairs, self._size), self._complex)

    def correlate(self, rows: Any, together: int, whiten: bool) -> Signals:
        with self._cupy.cuda.Device(self._device):
            z = self._cupy.fft.fft(self._cupy.asarray(rows), axis=-1)
            bins = self._size // 2 + 1
            mirrored = self._cupy.roll(z[:, ::-1], 1, axis=-1)[:, :bins]
            z = z[:, :bins]
            product = (z * mirrored).imag / 2 - 0.25j * (abs(z) ** 2 - abs(mirrored) ** 2)
            product = product.astype(self._complex)
            if whiten:
                size = abs(product)
                product /= size + 1e-3 * size.mean(axis=-1, keepdims=True) + np.finfo(self._real).tiny
            summed = product.reshape(-1, together, bins).sum(axis=1)
            back = self._cupy.fft.irfft(summed, self._size, axis=-1)
            return np.ascontiguousarray(self._cupy.asnumpy(back), self._real)


_KERNELS = """
typedef ${real} real_t; typedef ${real}2 pair_t;

pair_t cross_of(__global const pair_t *z, int k, int size) {
  const pair_t up = z[k], down = z[k == 0 ? 0 : size - k];
  return (pair_t)((up.x * down.y + up.y * down.x) / 2,
                  (down.x * down.x + down.y * down.y - up.x * up.x - up.y * up.y) / 4);
}

// What a whitened spectrum is not raised above: a part of its mean magnitude.
__kernel void floors(__global const pair_t *spectra, int size, __global real_t *out) {
  const int pair = get_global_id(0);
  real_t sum = 0;
  for (int k = 0; k <= size / 2; ++k) sum += length(cross_of(spectra + (size_t)pair * size, k, size));
  out[pair] = (real_t)1e-3 * sum / (size / 2 + 1) + ${tiny};
}

__kernel void cross_pairs(__global const pair_t *spectra, __global const real_t *floors, int size,
                          int together, int whiten, __global pair_t *out) {
  const int k = get_global_id(0), row = get_global_id(1);
  pair_t sum = (pair_t)(0, 0);
  for (int pair = row * together; pair < (row + 1) * together; ++pair) {
    pair_t one = cross_of(spectra + (size_t)pair * size, k, size);
    if (whiten) one /= length(one) + floors[pair];
    sum += one;
  }
  out[(size_t)row * size + k] = sum;
}
"""


class _OpenCl(_Stepwise):
    """Reikna's transforms, of any length, and two kernels between them."""

    def __init__(self, size: int, real: npt.DTypeLike, device: Any) -> None:
        import pyopencl
        from reikna import cluda

        self._cl, self._size = pyopencl, size
        self._real, self._complex = np.dtype(real), _complex_of(real)
        if self._real == np.float64 and not device.double_fp_config:
            raise UnavailableError(f"{device.name.strip()} has no double precision; use float32")
        context = pyopencl.Context([device])
        self._queue = pyopencl.CommandQueue(context)
        self._thread = cluda.ocl_api().Thread(self._queue)
        kind, tiny = ("float", "FLT_MIN") if self._real == np.float32 else ("double", "DBL_MIN")
        source = _KERNELS.replace("${real}", kind).replace("${tiny}", tiny)
        if self._real == np.float64:
            source = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" + source
        try:
            program = pyopencl.Program(context, source).build()
        except pyopencl.Error as error:
            lines = str(error).strip().splitlines()
            why = next((line for line in lines if line.startswith("error:")), lines[0])
            raise UnavailableError(
                f"the OpenCL device {device.name.strip()} can't build a kernel ({why});"
                " install another platform, such as the distribution's pocl"
            ) from error
        self._floors, self._cross = program.floors, program.cross_pairs
        self._plans: dict[tuple[int, int], tuple[Any, ...]] = {}

    def room(self, pairs: int, together: int) -> Any:
        if (pairs, together) not in self._plans:
            from reikna.fft import FFT

            shape, summed = (pairs, self._size), (pairs // together, self._size)
            rows, spectra = (self._thread.array(shape, self._complex) for _ in range(2))
            cross, back = (self._thread.array(summed, self._complex) for _ in range(2))
            floors = self._thread.array((pairs,), self._real)
            forward = FFT(rows, axes=(1,)).compile(self._thread)
            inverse = FFT(cross, axes=(1,)).compile(self._thread)
            self._plans[pairs, together] = (rows, spectra, floors, cross, back, forward, inverse)
        return np.zeros((pairs, self._size), self._complex)

    def correlate(self, rows: Any, together: int, whiten: bool) -> Signals:
        there, spectra, floors, cross, back, forward, inverse = self._plans[len(rows), together]
        self._cl.enqueue_copy(self._queue, there.data, rows)
        forward(spectra, there, 0)
        size = np.int32(self._size)
        if whiten:
            self._floors(self._queue, (len(rows),), None, spectra.data, size, floors.data)
        self._cross(
            self._queue,
            (self._size, len(rows) // together),
            None,
            spectra.data,
            floors.data,
            size,
            np.int32(together),
            np.int32(whiten),
            cross.data,
        )
        inverse(back, cross, 1)
        return np.ascontiguousarray(back.get().real)


def _complex_of(real: npt.DTypeLike) -> np.dtype[Any]:
    return np.dtype(np.complex64 if np.dtype(real) == np.float32 else np.complex128)


def lanes(engine: str, size: int, real: npt.DTypeLike, threads: int) -> list[Transforms]:
    """Transforms that can run at the same time: one a thread on the CPU, one a device elsewhere.

    Args:
        engine: ``auto`` (pyfftw where it is installed, else scipy), ``fftw``, ``scipy``, ``gpu`` (every CUDA
            device, by cupy) or ``opencl`` (every OpenCL device but CPUs, or the CPU where there is none
            else).
        size: of the rows.
        real: their type.
        threads: on the CPU.

    Raises:
        UsageError: there is no such engine.
        MissingExtraError: it is not installed.
        UnavailableError: it finds no device.
    """
    if engine == "auto":
        try:
            return lanes("fftw", size, real, threads)
        except MissingExtraError:
            engine = "scipy"
    if engine == "fftw":
        return [_Fftw(size, real) for _ in range(threads)]
    if engine == "scipy":
        return [_Scipy(size, real) for _ in range(threads)]
    if engine == "gpu":
        return [_Cupy(size, real, device) for device in range(_cuda_devices())]
    if engine == "opencl":
        return [_OpenCl(size, real, device) for device in _opencl_devices()]
    raise UsageError(f"the engine must be auto, fftw, scipy, gpu or opencl, not '{engine}'")


def _cuda_devices() -> int:
    try:
        import cupy
    except ImportError as error:
        raise MissingExtraError("cupy", "gpu") from error
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise UnavailableError(f"there is no GPU for cupy: {error}") from error


def _opencl_devices() -> list[Any]:
    try:
        import pyopencl
        import reikna  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(str(error.name), "opencl") from error
    try:
        found = [device for platform in pyopencl.get_platforms() for device in platform.get_devices()]
    except pyopencl.Error:
        found = []  # no platform is an error of its own
    others = [device for device in found if not device.type & pyopencl.device_type.CPU]
    if not found:
        raise UnavailableError("there is no OpenCL device; on the CPU, pocl is one")
    return others or found[:1]
