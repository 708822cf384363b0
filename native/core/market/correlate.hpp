// Threads: pure functions on the caller's memory.
//
// What stands around the transforms of a delay's estimate: signals into padded rows, spectra into a
// cross-spectrum, a correlation into its peak. One pass over the memory each; a transform of 2,048 points
// takes 2 us, and array expressions around it took ten times as long.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>

namespace latlab::market {

// A signal of n samples to the first n places of a row, as its differences (with 0 as the first) or as it is.
// Returns the sum of squares of what was written.
template <class T>
double place_signal(const T* signal, std::size_t n, bool difference, T* row) noexcept {
  // Eight sums, so that they need not wait for one another, and lose less to rounding.
  T sums[8] = {};
  row[0] = difference ? T{0} : signal[0];
  sums[0] = row[0] * row[0];
  for (std::size_t i = 1; i < n; ++i) row[i] = difference ? signal[i] - signal[i - 1] : signal[i];
  std::size_t i = 1;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t k = 0; k < 8; ++k) sums[k] += row[i + k] * row[i + k];
  }
  double sum = 0;
  for (; i < n; ++i) sum += static_cast<double>(row[i]) * row[i];
  for (const T part : sums) sum += part;
  return sum;
}

// out += b conj(a), for each frequency; whitened: of magnitude 1, where there is any to speak of.
template <class T>
void cross_spectrum(const std::complex<T>* a, const std::complex<T>* b, std::size_t bins, bool whiten,
                    bool first, std::complex<T>* out) {
  // Interleaved real and imaginary parts: the product of std::complex asks for infinities, and is a call.
  const auto* x = reinterpret_cast<const T*>(a);
  const auto* y = reinterpret_cast<const T*>(b);
  auto* to = reinterpret_cast<T*>(out);
  T floor = 0;
  if (whiten) {
    double sum = 0;
    for (std::size_t i = 0; i < bins; ++i) sum += std::abs(a[i]) * std::abs(b[i]);
    floor = static_cast<T>(1e-3 * sum / static_cast<double>(bins)) + std::numeric_limits<T>::min();
  }
  for (std::size_t i = 0; i < bins; ++i) {
    const T ar = x[2 * i];
    const T ai = x[2 * i + 1];
    const T br = y[2 * i];
    const T bi = y[2 * i + 1];
    T real = br * ar + bi * ai;
    T imag = bi * ar - br * ai;
    if (whiten) {
      const T size = std::sqrt(real * real + imag * imag) + floor;
      real /= size;
      imag /= size;
    }
    to[2 * i] = first ? real : to[2 * i] + real;
    to[2 * i + 1] = first ? imag : to[2 * i + 1] + imag;
  }
}

struct Peak {
  double lag = 0;   // samples, interpolated by a parabola
  double top = 0;   // the correlation there
  double rest = 0;  // the highest elsewhere, not below 0
};

// The highest point of a circular correlation at lags of -reach to reach; reach < size / 2.
template <class T>
Peak find_peak(const T* correlation, std::size_t size, std::size_t reach) noexcept {
  constexpr std::ptrdiff_t kGuard = 3;  // samples at each side of a peak that belong to it
  const auto far = static_cast<std::ptrdiff_t>(reach);
  // Two runs of memory: lags of -reach to -1 stand at the row's end.
  const T* const behind = correlation + size;
  const auto highest = [&](std::ptrdiff_t from, std::ptrdiff_t to) {  // of lags in [from, to)
    T best = -std::numeric_limits<T>::infinity();
    const auto run = [&](const T* at, const T* end) {
      T lanes[16];
      std::fill_n(lanes, 16, best);
      for (; end - at >= 16; at += 16) {
        for (int k = 0; k < 16; ++k) lanes[k] = at[k] > lanes[k] ? at[k] : lanes[k];
      }
      for (; at < end; ++at) lanes[0] = *at > lanes[0] ? *at : lanes[0];
      best = *std::max_element(lanes, lanes + 16);
    };
    if (from < 0) run(behind + from, behind + std::min<std::ptrdiff_t>(to, 0));
    if (to > 0) run(correlation + std::max<std::ptrdiff_t>(from, 0), correlation + to);
    return best;
  };
  const auto at = [&](std::ptrdiff_t lag) {
    return static_cast<double>(lag < 0 ? behind[lag] : correlation[lag]);
  };
  const T top = highest(-far, far + 1);
  std::ptrdiff_t lag = -far;
  const T* found = std::find(behind - far, behind, top);
  if (found != behind) {
    lag = found - behind;
  } else {
    found = std::find(correlation, correlation + far + 1, top);
    if (found == correlation + far + 1) return {};  // not a number
    lag = found - correlation;
  }
  double shift = 0;
  if (lag > -far && lag < far) {
    const double left = at(lag - 1);
    const double right = at(lag + 1);
    const double bend = left - 2 * static_cast<double>(top) + right;
    if (bend != 0) shift = std::clamp(0.5 * (left - right) / bend, -0.5, 0.5);
  }
  const T rest = std::max(highest(-far, std::max(lag - kGuard, -far)),
                          highest(std::min(lag + kGuard + 1, far + 1), far + 1));
  return {.lag = static_cast<double>(lag) + shift,
          .top = static_cast<double>(top),
          .rest = std::max(0.0, static_cast<double>(rest))};
}

}  // namespace latlab::market
