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
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace latlab::market {

// Two signals of n samples to the first n places of a row as its real and imaginary parts, as their
// differences (with 0 as the first) or as they are: the transform of both costs what that of one real signal
// costs. Returns the sums of squares of what was written.
template <class T>
std::pair<double, double> place_pair(const T* a, const T* b, std::size_t n, bool difference,
                                     std::complex<T>* row) noexcept {
  auto* const to = reinterpret_cast<T*>(row);
  to[0] = difference ? T{0} : a[0];
  to[1] = difference ? T{0} : b[0];
  if (difference) {
    for (std::size_t i = 1; i < n; ++i) {
      to[2 * i] = a[i] - a[i - 1];
      to[2 * i + 1] = b[i] - b[i - 1];
    }
  } else {
    for (std::size_t i = 1; i < n; ++i) {
      to[2 * i] = a[i];
      to[2 * i + 1] = b[i];
    }
  }
  // Sixteen sums in turn, of a and of b, so that they need not wait for one another, and lose less to
  // rounding.
  T squares[16] = {};
  const std::size_t values = 2 * n;
  std::size_t i = 0;
  for (; i + 16 <= values; i += 16) {
    for (std::size_t k = 0; k < 16; ++k) squares[k] += to[i + k] * to[i + k];
  }
  for (; i + 2 <= values; i += 2) {
    squares[0] += to[i] * to[i];
    squares[1] += to[i + 1] * to[i + 1];
  }
  std::pair<double, double> sums{0, 0};
  for (std::size_t k = 0; k < 16; k += 2) {
    sums.first += squares[k];
    sums.second += squares[k + 1];
  }
  // One of them much smaller would drown in the other's rounding: it is lifted, which changes no result
  // behind this but the scale of the correlation, and so the energies that it is compared with.
  const double ratio = sums.second > 0 ? std::sqrt(sums.first / sums.second) : 1;
  if (ratio > 16 || (ratio > 0 && ratio < 1.0 / 16)) {
    for (std::size_t k = 0; k < n; ++k) to[2 * k + 1] *= static_cast<T>(ratio);
    sums.second = sums.first;
  }
  return sums;
}

// Where the top of a peak stands, of which three samples are known, from -0.5 to 0.5 of a sample.
// Of steps that are seen at the next sample, those whose delay reaches one sample further are the fraction
// that is sought: the correlation is a triangle of one sample to either side, and the lesser neighbour is
// background. What is wider, by jitter or a smooth signal, is round at its top: a parabola. A neighbour of
// less than a sixteenth is told from background by neither.
inline double top_between(double left, double top, double right) noexcept {
  const double low = std::max(std::min(left, right), 0.0);
  const double high = std::max(left, right);
  if (low < top / 4 && high >= top / 16) {
    const double part = std::min((high - low) / (top + high - 2 * low), 0.5);
    return right > left ? part : -part;
  }
  const double bend = left - 2 * top + right;
  return bend != 0 ? std::clamp(0.5 * (left - right) / bend, -0.5, 0.5) : 0.0;
}

#if defined(__x86_64__)
namespace detail {
// Four frequencies at once of cross_spectrum, unwhitened, from 1 on; returns the first that is left.
__attribute__((target("avx2"))) inline std::size_t cross_four(const float* z, std::size_t size, bool first,
                                                              float* to) {
  const std::size_t bins = size / 2 + 1;
  const __m256 parts = _mm256_setr_ps(0.5F, 0.25F, 0.5F, 0.25F, 0.5F, 0.25F, 0.5F, 0.25F);
  std::size_t k = 1;
  for (; k + 4 <= bins; k += 4) {
    const __m256 up = _mm256_loadu_ps(z + 2 * k);
    const __m256d last = _mm256_loadu_pd(reinterpret_cast<const double*>(z + 2 * (size - k - 3)));
    const __m256 down = _mm256_castpd_ps(_mm256_permute4x64_pd(last, 0x1B));  // whole pairs, turned round
    const __m256 cross = _mm256_mul_ps(up, _mm256_permute_ps(down, 0xB1));
    const __m256 squares = _mm256_sub_ps(_mm256_mul_ps(down, down), _mm256_mul_ps(up, up));
    const __m256 sums = _mm256_permute_ps(_mm256_hadd_ps(cross, squares), 0xD8);
    __m256 found = _mm256_mul_ps(sums, parts);
    if (!first) found = _mm256_add_ps(found, _mm256_loadu_ps(to + 2 * k));
    _mm256_storeu_ps(to + 2 * k, found);
  }
  return k;
}
}  // namespace detail
#endif

// The cross-spectrum b conj(a) out of the transform z of a + i b: with m = size - k,
//   a_k = (z_k + conj z_m) / 2,   b_k = (z_k - conj z_m) / 2i,
//   b_k conj a_k = Im(z_k z_m) / 2 - i (|z_k|^2 - |z_m|^2) / 4.
// Added to out for frequencies 0 to size / 2; whitened: of magnitude 1, where there is any to speak of.
template <class T>
void cross_spectrum(const std::complex<T>* spectrum, std::size_t size, bool whiten, bool first,
                    std::complex<T>* out) {
  const auto* const z = reinterpret_cast<const T*>(spectrum);
  auto* const to = reinterpret_cast<T*>(out);
  const std::size_t bins = size / 2 + 1;
  const auto cross = [z, size](std::size_t k, T& real, T& imag) {
    const T* const up = z + 2 * k;
    const T* const down = z + 2 * (k == 0 ? 0 : size - k);
    real = (up[0] * down[1] + up[1] * down[0]) / 2;
    imag = ((down[0] * down[0] + down[1] * down[1]) - (up[0] * up[0] + up[1] * up[1])) / 4;
  };
  T floor = 0;
  if (whiten) {
    double sum = 0;
    for (std::size_t k = 0; k < bins; ++k) {
      T real;
      T imag;
      cross(k, real, imag);
      sum += std::sqrt(real * real + imag * imag);
    }
    floor = static_cast<T>(1e-3 * sum / static_cast<double>(bins)) + std::numeric_limits<T>::min();
  }
  std::size_t from = 0;
#if defined(__x86_64__)
  if constexpr (sizeof(T) == sizeof(float)) {
    static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
    if (avx2 && !whiten && bins > 4) {
      T real;
      T imag;
      cross(0, real, imag);
      to[0] = first ? real : to[0] + real;
      to[1] = first ? imag : to[1] + imag;
      from = detail::cross_four(z, size, first, to);
    }
  }
#endif
  const auto run = [&](auto white, auto adding) {
    for (std::size_t k = from; k < bins; ++k) {
      T real;
      T imag;
      cross(k, real, imag);
      if constexpr (white) {
        const T magnitude = std::sqrt(real * real + imag * imag) + floor;
        real /= magnitude;
        imag /= magnitude;
      }
      to[2 * k] = adding ? to[2 * k] + real : real;
      to[2 * k + 1] = adding ? to[2 * k + 1] + imag : imag;
    }
  };
  if (whiten) {
    first ? run(std::true_type{}, std::false_type{}) : run(std::true_type{}, std::true_type{});
  } else {
    first ? run(std::false_type{}, std::false_type{}) : run(std::false_type{}, std::true_type{});
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
  // The first place of a value, sixteen looked at together.
  const auto find = [](const T* from, const T* end, T value) {
    for (; end - from >= 16; from += 16) {
      int hits = 0;
      for (int k = 0; k < 16; ++k) hits |= from[k] == value ? 1 : 0;
      if (hits != 0) break;
    }
    return std::find(from, end, value);
  };
  const T top = highest(-far, far + 1);
  std::ptrdiff_t lag = -far;
  const T* found = find(behind - far, behind, top);
  if (found != behind) {
    lag = found - behind;
  } else {
    found = find(correlation, correlation + far + 1, top);
    if (found == correlation + far + 1) return {};  // not a number
    lag = found - correlation;
  }
  double shift = 0;
  if (lag > -far && lag < far) {
    const double left = at(lag - 1);
    const double right = at(lag + 1);
    shift = top_between(left, static_cast<double>(top), right);
  }
  const T rest = std::max(highest(-far, std::max(lag - kGuard, -far)),
                          highest(std::min(lag + kGuard + 1, far + 1), far + 1));
  return {.lag = static_cast<double>(lag) + shift,
          .top = static_cast<double>(top),
          .rest = std::max(0.0, static_cast<double>(rest))};
}

}  // namespace latlab::market
