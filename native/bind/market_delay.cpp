// Delays: the signals, spectra and correlations of numpy arrays, around transforms that were planned in
// Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <complex>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "market/correlate.hpp"

namespace nb = nanobind;
using namespace nb::literals;
namespace market = latlab::market;

namespace {

// A C-contiguous matrix of an array (of one dimension: one row), by the buffer protocol: an nb::ndarray costs
// 0.6 us each, as much as what is done here with its 2,048 numbers.
class Matrix {
 public:
  Matrix(nb::handle array, bool writable) {
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(array.ptr(), &view_, flags) != 0) throw nb::python_error();
    if (view_.ndim != 1 && view_.ndim != 2) {
      PyBuffer_Release(&view_);
      throw std::invalid_argument("an array of one or two dimensions is needed");
    }
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() { PyBuffer_Release(&view_); }

  [[nodiscard]] std::size_t rows() const {
    return view_.ndim == 1 ? 1 : static_cast<std::size_t>(view_.shape[0]);
  }
  [[nodiscard]] std::size_t columns() const { return static_cast<std::size_t>(view_.shape[view_.ndim - 1]); }
  [[nodiscard]] bool holds(std::string_view format) const { return view_.format == format; }
  template <class T>
  [[nodiscard]] T* data() const {
    return static_cast<T*>(view_.buf);
  }

 private:
  Py_buffer view_;
};

// Other threads may run meanwhile, unless so few values are done with before one of them could have begun.
class Unlocked {
 public:
  explicit Unlocked(std::size_t values) {
    if (values > kFew) released_.emplace();
  }

 private:
  static constexpr std::size_t kFew = 1U << 14;
  std::optional<nb::gil_scoped_release> released_;
};

template <class T>
constexpr const char* kReal = sizeof(T) == 4 ? "f" : "d";
template <class T>
constexpr const char* kComplex = sizeof(T) == 4 ? "Zf" : "Zd";

// call(T{}) with the precision of an array of the format.
template <class Call>
auto with_precision(const Matrix& matrix, bool complex, Call&& call) {
  if (matrix.holds(complex ? kComplex<float> : kReal<float>)) return call(float{});
  if (matrix.holds(complex ? kComplex<double> : kReal<double>)) return call(double{});
  throw std::invalid_argument("float32 or float64 is needed, and what belongs to it");
}

// Signals by pairs to rows; for each sum of pairs the root of the product of their sums of squares.
std::vector<double> place(const Matrix& a, const Matrix& b, bool difference, std::size_t together,
                          const Matrix& rows) {
  return with_precision(rows, true, [&](auto zero) {
    using T = decltype(zero);
    const std::size_t n = b.columns();
    const std::size_t pairs = b.rows();
    const std::size_t ahead = a.rows();  // as many as pairs, or fewer, which are taken again and again
    if (n == 0 || a.columns() != n || rows.columns() < n || rows.rows() != pairs || together == 0 ||
        pairs % together != 0 || ahead == 0 || pairs % ahead != 0 || !a.holds(kReal<T>) ||
        !b.holds(kReal<T>)) {
      throw std::invalid_argument("the rows don't hold the signals");
    }
    std::vector<double> energies(pairs / together);
    const Unlocked unlocked(pairs * rows.columns());
    for (std::size_t i = 0; i < pairs; ++i) {
      const auto [x, y] = market::place_pair(a.data<const T>() + i % ahead * n, b.data<const T>() + i * n, n,
                                             difference, rows.data<std::complex<T>>() + i * rows.columns());
      energies[i / together] += std::sqrt(x * y);
    }
    return energies;
  });
}

void cross(const Matrix& spectra, std::size_t together, bool whiten, const Matrix& out) {
  with_precision(out, true, [&](auto zero) {
    using T = decltype(zero);
    const std::size_t size = spectra.columns();
    const std::size_t pairs = spectra.rows();
    if (together == 0 || out.columns() != size / 2 + 1 || out.rows() * together != pairs ||
        !spectra.holds(kComplex<T>)) {
      throw std::invalid_argument("the cross-spectra don't hold the spectra");
    }
    const Unlocked unlocked(pairs * size);
    for (std::size_t i = 0; i < pairs; ++i) {
      market::cross_spectrum(spectra.data<const std::complex<T>>() + i * size, size, whiten,
                             i % together == 0, out.data<std::complex<T>>() + i / together * out.columns());
    }
  });
}

using Peaks = std::vector<std::tuple<double, double, double>>;

Peaks peaks(const Matrix& correlations, std::size_t reach) {
  return with_precision(correlations, false, [&](auto zero) {
    using T = decltype(zero);
    const std::size_t size = correlations.columns();
    if (2 * reach >= size) throw std::invalid_argument("out of reach");
    Peaks found(correlations.rows());
    const Unlocked unlocked(found.size() * size);
    for (std::size_t row = 0; row < found.size(); ++row) {
      const auto peak = market::find_peak(correlations.data<const T>() + row * size, size, reach);
      found[row] = {peak.lag, peak.top, peak.rest};
    }
    return found;
  });
}

void call(nb::handle planned) {
  PyObject* const done = PyObject_CallNoArgs(planned.ptr());
  if (done == nullptr) throw nb::python_error();
  Py_DECREF(done);
}

// Planned transforms and the arrays that they were planned for, whose memory is asked for once.
class Correlator {
 public:
  Correlator(nb::handle rows, nb::object forward, nb::handle spectra, nb::handle summed, nb::object inverse,
             nb::handle back)
      : rows_(rows, true),
        spectra_(spectra, false),
        summed_(summed, true),
        back_(back, false),
        forward_(std::move(forward)),
        inverse_(std::move(inverse)) {}

  std::pair<std::vector<double>, Peaks> run(nb::handle a, nb::handle b, bool difference, bool whiten,
                                            std::size_t reach) {
    const std::size_t together = rows_.rows() / back_.rows();
    auto energies = place(Matrix(a, false), Matrix(b, false), difference, together, rows_);
    call(forward_);
    cross(spectra_, together, whiten, summed_);
    call(inverse_);
    return {std::move(energies), peaks(back_, reach)};
  }

 private:
  Matrix rows_;
  Matrix spectra_;
  Matrix summed_;
  Matrix back_;
  nb::object forward_;
  nb::object inverse_;
};

}  // namespace

NB_MODULE(market_delay, m) {
  m.doc() = "Delays between sampled signals, around transforms.";
  m.def(
      "place_pairs",
      [](nb::handle a, nb::handle b, bool difference, std::size_t together, nb::handle rows) {
        return place(Matrix(a, false), Matrix(b, false), difference, together, Matrix(rows, true));
      },
      "a"_a, "b"_a, "difference"_a, "together"_a, "rows"_a,
      "Signals to the real and imaginary parts of rows; the energy of each sum of pairs.");
  m.def(
      "cross_pairs",
      [](nb::handle spectra, std::size_t together, bool whiten, nb::handle out) {
        cross(Matrix(spectra, false), together, whiten, Matrix(out, true));
      },
      "spectra"_a, "together"_a, "whiten"_a, "out"_a,
      "Cross-spectra of the pairs, `together` of them summed.");
  m.def(
      "peaks",
      [](nb::handle correlations, std::size_t reach) { return peaks(Matrix(correlations, false), reach); },
      "correlations"_a, "reach"_a, "Lag in samples, height, and the highest elsewhere, of each row.");
  nb::class_<Correlator>(m, "Correlator",
                         "Planned transforms, and all that is done around them, in one call.")
      .def(nb::init<nb::handle, nb::object, nb::handle, nb::handle, nb::object, nb::handle>(), "rows"_a,
           "forward"_a, "spectra"_a, "summed"_a, "inverse"_a, "back"_a)
      .def("run", &Correlator::run, "a"_a, "b"_a, "difference"_a, "whiten"_a, "reach"_a,
           "Energies as of place_pairs, and peaks.");
}
