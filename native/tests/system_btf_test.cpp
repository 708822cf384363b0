#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "check.hpp"
#include "system/btf.hpp"

namespace {

// Builds what a kernel would describe.
struct Description {
  std::vector<std::uint8_t> types;
  std::string strings = std::string(1, '\0');
  std::uint32_t count = 0;

  std::uint32_t text(const std::string& what) {
    const auto at = static_cast<std::uint32_t>(strings.size());
    strings += what + '\0';
    return what.empty() ? 0 : at;
  }
  void words(const std::vector<std::uint32_t>& all) {
    for (const std::uint32_t one : all) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(&one);
      types.insert(types.end(), bytes, bytes + 4);
    }
  }
  std::uint32_t type(const std::string& name, std::uint32_t kind, std::uint32_t entries, std::uint32_t size,
                     const std::vector<std::uint32_t>& more = {}, bool has_bits = false) {
    words({text(name), (kind << 24U) | entries | (has_bits ? 1U << 31U : 0U), size});
    words(more);
    return ++count;
  }
  std::vector<std::uint8_t> bytes() const {
    const auto length = static_cast<std::uint32_t>(types.size());
    const std::uint32_t header[] = {0x1EB9F, 24,     0,
                                    length,  length, static_cast<std::uint32_t>(strings.size())};
    std::vector<std::uint8_t> out(sizeof(header));
    std::memcpy(out.data(), header, sizeof(header));
    out.insert(out.end(), types.begin(), types.end());
    out.insert(out.end(), strings.begin(), strings.end());
    return out;
  }
};

Description described() {
  Description a;
  const std::uint32_t number = a.type("int", 1, 0, 4, {32});
  const std::uint32_t inside =
      a.type("thread_info", 4, 2, 16, {a.text("flags"), number, 0, a.text("cpu"), number, 96});
  const std::uint32_t nameless = a.type("", 4, 1, 8, {a.text("pid"), number, 32});
  const std::uint32_t task = a.type(
      "task_struct", 4, 3, 32,
      {a.text("thread_info"), inside, 64, 0, nameless, 192, a.text("in_execve"), number, (1U << 24U) | 8U},
      true);
  const std::uint32_t constant = a.type("", 10, 0, task);
  const std::uint32_t to_task = a.type("", 2, 0, constant);
  const std::uint32_t to_any = a.type("", 2, 0, 0);
  const std::uint32_t flag = a.type("bool", 8, 0, number);
  const std::uint32_t prototype = a.type("", 13, 5, 0, {0, to_any, 0, flag, 0, to_task, 0, to_any, 0, task});
  const std::uint32_t pointer = a.type("", 2, 0, prototype);
  a.type("btf_trace_some", 8, 0, pointer);
  return a;
}

}  // namespace

TEST("members are found inside of named and of nameless ones, and bit fields are not") {
  const latlab::system::btf::Types types(described().bytes());
  CHECK(types.offset("task_struct", "thread_info.cpu") == std::optional<std::uint32_t>(8 + 12));
  CHECK(types.offset("task_struct", "pid") == std::optional<std::uint32_t>(24 + 4));
  CHECK(!types.offset("task_struct", "in_execve"));
  CHECK(!types.offset("task_struct", "thread_info.none"));
  CHECK(!types.offset("thread", "pid"));
}

TEST("a tracepoint's arguments are told by their kinds") {
  const latlab::system::btf::Types types(described().bytes());
  CHECK_EQUAL(std::uint32_t{11}, types.tracepoint("some"));
  CHECK_EQUAL(std::string("itp?"), types.arguments(types.tracepoint("some")));
  CHECK_EQUAL(std::uint32_t{0}, types.tracepoint("som"));
  CHECK_EQUAL(std::string(), types.arguments(0));
}

TEST("of a description that is cut off nothing is read behind its end") {
  const std::vector<std::uint8_t> whole = described().bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const latlab::system::btf::Types types(
        {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
    CHECK(!types.offset("task_struct", "pid"));
    CHECK_EQUAL(std::uint32_t{0}, types.tracepoint("some"));
  }
}

TEST("of a description whose words are arbitrary nothing is read behind its end") {
  const std::vector<std::uint8_t> whole = described().bytes();
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const std::uint8_t byte : {std::uint8_t{0}, std::uint8_t{0x7F}, std::uint8_t{0xFF}}) {
      std::vector<std::uint8_t> other = whole;
      other[at] = byte;
      const latlab::system::btf::Types types(other);
      const std::uint32_t found = types.tracepoint("some");
      CHECK(found == 0 || found <= 11);
      CHECK(types.arguments(found).size() < 65536);
      static_cast<void>(types.offset("task_struct", "thread_info.cpu"));
    }
}
