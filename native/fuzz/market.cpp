// A coverage-guided fuzzer of everything that reads market data (libFuzzer; `make fuzz`).
//
// The first byte chooses the framing and the policy, the second where the input is torn in two; the rest is
// the input. Beyond what the sanitizers see, it is checked that the three designs of a book agree on every
// line of the inside, and that the vector decoder makes the records that the scalar one makes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "market/pipeline.hpp"
#include "market/records.hpp"
#include "market/sinks.hpp"
#include "market/stats.hpp"

namespace {

using namespace latlab::market;

constexpr std::array<const char*, 6> kFramings = {"binary", "pcap", "soup", "units", "lines", "mold"};

[[noreturn]] void differ(const char* what) {
  std::fprintf(stderr, "the input has two meanings: %s\n", what);
  std::abort();
}

std::uint64_t feed(Pipeline& pipeline, Bytes first, Bytes second) {
  pipeline.feed(first);
  pipeline.feed(second);
  pipeline.finish();
  return pipeline.counts().messages;
}

template <class Side>
std::string inside(const std::string& framing, bool lenient, Bytes first, Bytes second) {
  // Few levels in the array: flushes and refills are what goes wrong.
  auto sink = std::make_unique<InsideSink<Side>>(16, 2, true, 0, Selection{});
  auto* result = sink.get();
  Pipeline pipeline(framing, lenient, std::move(sink));
  feed(pipeline, first, second);
  return result->text;
}

std::vector<RecordDecoder::Column> decoded(RecordDecoder& decoder, Bytes first, Bytes second) {
  decoder.feed(first);
  if (!decoder.stopped()) decoder.feed(second);
  if (!decoder.stopped()) decoder.finish();
  return decoder.take();
}

void records(Bytes first, Bytes second, bool lenient) {
  RecordDecoder plain(lenient, Permutation::scalar);
  RecordDecoder fast(lenient, best_permutation());
  const auto expected = decoded(plain, first, second);
  const auto got = decoded(fast, first, second);
  if (plain.messages() != fast.messages()) differ("number of messages");
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].count != got[i].count) differ("records of a type");
    const auto used = static_cast<std::ptrdiff_t>(expected[i].count * record_layouts()[i].size);
    if (!std::equal(expected[i].bytes.begin(), expected[i].bytes.begin() + used, got[i].bytes.begin()))
      differ("bytes of a record");
  }
  for (const char dialect : {'P', 'T'}) {
    RecordDecoder pitch(lenient, best_permutation(), dialect);
    decoded(pitch, first, second);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string framing = kFramings.at((data[0] & 0x7F) % kFramings.size());
  const bool lenient = (data[0] & 0x80) != 0;
  const Bytes input(data + 2, size - 2);
  const std::size_t tear = input.empty() ? 0 : data[1] * input.size() / 256;
  const Bytes first = input.first(tear);
  const Bytes second = input.subspan(tear);

  const std::string ladder = inside<LadderSide>(framing, lenient, first, second);
  if (ladder != inside<ArraySide>(framing, lenient, first, second)) differ("ladder and array");
  if (ladder != inside<MapSide>(framing, lenient, first, second)) differ("ladder and map");
  // A datagram can't be torn; everything else means the same in two pieces as in one.
  if (framing != "mold" && ladder != inside<LadderSide>(framing, lenient, input, {}))
    differ("torn and whole");

  Pipeline stats(framing, lenient, std::make_unique<StatsSink<LadderSide>>(true));
  feed(stats, first, second);
  if (framing == "binary") records(first, second, lenient);
  return 0;
}
