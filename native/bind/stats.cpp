#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "stats/hdr.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using latlab::stats::HdrRecorder;

namespace {

using Values = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<1>> counts(const HdrRecorder& recorder) {
  const auto held = recorder.counts();
  auto* copy = new std::vector<std::uint64_t>(held.begin(), held.end());
  const nb::capsule owner(copy, [](void* p) noexcept { delete static_cast<std::vector<std::uint64_t>*>(p); });
  return {copy->data(), {copy->size()}, owner};
}

}  // namespace

NB_MODULE(stats, m) {
  m.doc() = "The native recorder of HDR histograms.";
  nb::class_<HdrRecorder>(m, "HdrRecorder", "Records values into HdrHistogram's bins without allocating.")
      .def(nb::init<std::uint64_t, std::uint64_t, unsigned>(), "lowest"_a, "highest"_a, "digits"_a)
      .def("record", &HdrRecorder::record, "value"_a, "times"_a = 1, "Record a value.")
      .def("record_corrected", &HdrRecorder::record_corrected, "value"_a, "interval"_a,
           "Record a value and the waits of the events that were due every `interval` behind it.")
      .def(
          "record_many",
          [](HdrRecorder& recorder, const Values& values) {
            recorder.record_many({values.data(), values.size()});
          },
          "values"_a, "Record a contiguous uint64 array.")
      .def("merge", &HdrRecorder::merge, "other"_a, "Add what another recorder with the same bins holds.")
      .def("reset", &HdrRecorder::reset, "Forget everything that was recorded.")
      .def("counts", &counts, "A copy of the counts, one per bin.")
      .def_prop_ro("lowest", [](const HdrRecorder& r) { return r.bins().lowest(); })
      .def_prop_ro("highest", [](const HdrRecorder& r) { return r.bins().highest(); })
      .def_prop_ro("digits", [](const HdrRecorder& r) { return r.bins().digits(); })
      .def_prop_ro("beyond", &HdrRecorder::beyond, "How many values lay above the highest.")
      .def_prop_ro("largest_beyond", &HdrRecorder::largest_beyond, "The largest of those; 0 without any.");
}
