// Threads: save_state, load_state and component may be called from any thread; each thread has its own
// sequence of values, numbered in the order in which threads first call one of them. record(), replay() and
// stop() belong to one thread, while no other is inside. Nothing happens, and nothing is read but one flag,
// until one of them is called or LATLAB_STUB_RECORD, LATLAB_STUB_REPLAY or LATLAB_STUBS_PLAN is set.
//
// Stubs of C++ components: the state that a component leaves is recorded, and later loaded in its place. The
// trace file is that of `latlab stubs decode`. Classes whose members can't be copied as bytes need a
// Serial<T>, which `latlab stubs spec HEADER --class NAME` writes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <latlab/clock.hpp>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace latlab::stub {

struct StateError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Bytes = std::vector<char>;

class Reader {
 public:
  Reader(const char* data, std::size_t size) noexcept : at_(data), end_(data + size) {}
  void take(void* to, std::size_t size) {
    if (static_cast<std::size_t>(end_ - at_) < size)
      throw StateError("a recorded value is shorter than its type");
    std::memcpy(to, at_, size);
    at_ += size;
  }
  template <class T>
  T take() {
    T value;
    take(&value, sizeof value);
    return value;
  }
  [[nodiscard]] bool done() const noexcept { return at_ == end_; }

 private:
  const char* at_;
  const char* end_;
};

inline void put(Bytes& out, const void* from, std::size_t size) {
  const char* bytes = static_cast<const char*>(from);
  out.insert(out.end(), bytes, bytes + size);
}

// How a type is written: layout() as in the trace format, save() and load(). Specialised by generated
// headers.
template <class T>
struct Serial {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
                "this class has members that are no plain bytes: write its Serial with `latlab stubs spec`");
  static constexpr bool raw = true;  // written as it lies in memory
  static std::string layout() {
    if constexpr (std::is_same_v<T, bool>) return "b";
    if constexpr (std::is_floating_point_v<T> && sizeof(T) <= 8) return "f" + std::to_string(sizeof(T));
    if constexpr (std::is_enum_v<T>) return Serial<std::underlying_type_t<T>>::layout();
    if constexpr (std::is_integral_v<T>) return (std::is_signed_v<T> ? "i" : "u") + std::to_string(sizeof(T));
    return "r" + std::to_string(sizeof(T));
  }
  static void save(const T& value, Bytes& out) { put(out, &value, sizeof value); }
  static void load(T& value, Reader& in) { in.take(&value, sizeof value); }
};

template <class T, std::size_t N>
struct Serial<std::array<T, N>> {
  static constexpr bool raw = requires { requires Serial<T>::raw; };
  static std::string layout() { return std::to_string(N) + "[" + Serial<T>::layout() + "]"; }
  static void save(const std::array<T, N>& values, Bytes& out) {
    for (const T& value : values) Serial<T>::save(value, out);
  }
  static void load(std::array<T, N>& values, Reader& in) {
    for (T& value : values) Serial<T>::load(value, in);
  }
};

template <class T, std::size_t N>
struct Serial<T[N]> {
  static constexpr bool raw = requires { requires Serial<T>::raw; };
  static std::string layout() { return std::to_string(N) + "[" + Serial<T>::layout() + "]"; }
  static void save(const T (&values)[N], Bytes& out) {
    for (const T& value : values) Serial<T>::save(value, out);
  }
  static void load(T (&values)[N], Reader& in) {
    for (T& value : values) Serial<T>::load(value, in);
  }
};

template <>
struct Serial<std::string> {
  static std::string layout() { return "s"; }
  static void save(const std::string& text, Bytes& out) {
    const auto size = static_cast<std::uint32_t>(text.size());
    put(out, &size, sizeof size);
    put(out, text.data(), text.size());
  }
  static void load(std::string& text, Reader& in) {
    text.resize(in.take<std::uint32_t>());
    in.take(text.data(), text.size());
  }
};

template <class Sequence>
struct SerialSequence {
  using T = typename Sequence::value_type;
  static std::string layout() { return "v(" + Serial<T>::layout() + ")"; }
  static void save(const Sequence& values, Bytes& out) {
    const auto size = static_cast<std::uint32_t>(values.size());
    put(out, &size, sizeof size);
    for (const T& value : values) Serial<T>::save(value, out);
  }
  static void load(Sequence& values, Reader& in) {
    values.resize(in.template take<std::uint32_t>());
    for (T& value : values) Serial<T>::load(value, in);  // elements that exist are overwritten in place
  }
};
template <class T>
struct Serial<std::vector<T>> : SerialSequence<std::vector<T>> {};
template <class T>
struct Serial<std::list<T>> : SerialSequence<std::list<T>> {};

template <class K, class V>
struct Serial<std::map<K, V>> {
  static std::string layout() { return "m(" + Serial<K>::layout() + "," + Serial<V>::layout() + ")"; }
  static void save(const std::map<K, V>& values, Bytes& out) {
    const auto size = static_cast<std::uint32_t>(values.size());
    put(out, &size, sizeof size);
    for (const auto& [key, value] : values) {
      Serial<K>::save(key, out);
      Serial<V>::save(value, out);
    }
  }
  static void load(std::map<K, V>& values, Reader& in) {
    std::map<K, V> old;
    old.swap(values);
    for (auto left = in.take<std::uint32_t>(); left > 0; --left) {
      K key{};
      Serial<K>::load(key, in);
      // The node of a key that exists is kept, so that references into the map stay good.
      auto node = old.extract(key);
      auto where =
          node.empty() ? values.emplace(std::move(key), V{}).first : values.insert(std::move(node)).position;
      Serial<V>::load(where->second, in);
    }
  }
};

template <class T>
struct Serial<std::optional<T>> {
  static std::string layout() { return "o(" + Serial<T>::layout() + ")"; }
  static void save(const std::optional<T>& value, Bytes& out) {
    const char present = value.has_value() ? 1 : 0;
    put(out, &present, 1);
    if (value) Serial<T>::save(*value, out);
  }
  static void load(std::optional<T>& value, Reader& in) {
    if (in.take<char>() == 0) {
      value.reset();
      return;
    }
    if (!value) value.emplace();
    Serial<T>::load(*value, in);
  }
};

template <class T>
inline constexpr bool kRaw = requires { requires Serial<T>::raw; };

namespace detail {

// The head of an entry of the trace file; see src/latlab/stubs/_trace.py.
struct Head {
  std::uint8_t tag = 0;  // 1 definition, 2 value, 3 end
  std::uint8_t null = 0;
  std::uint8_t encoding = 0;
  std::uint8_t zero = 0;
  std::uint32_t id = 0;
  std::uint32_t run = 0;
  std::uint32_t thread = 0;
  std::uint64_t size = 0;
  std::uint64_t zero2 = 0;
};
static_assert(sizeof(Head) == 32);
struct FileHead {
  std::array<char, 8> magic{'L', 'A', 'T', 'S', 'T', 'U', 'B', '\0'};
  std::uint32_t version = 1;
  std::uint32_t zero = 0;
};
static_assert(sizeof(FileHead) == 16);

// One thread's values of one name: to be appended, or to be handed out.
struct Channel {
  std::string name;
  std::string type;
  std::string layout;
  std::uint32_t thread = 0;
  std::uint32_t run = 0;
  std::uint32_t id = 0;
  std::uint64_t values = 0;
  Bytes data;            // entries as in the file: those to hand out, or a buffer of those that were recorded
  std::size_t next = 0;  // the next to hand out, or the buffer's used part
  std::string part;      // file of what was recorded before the buffer

  // The buffer's pages are touched once, and used again and again: no page fault and no growth while
  // recording.
  void room_for(std::size_t size) {
    if (next + size <= data.size()) return;
    flush();
    if (size > data.size()) data.resize(size);
  }
  void flush() {
    std::ofstream file(part, std::ios::binary | std::ios::app);
    file.write(data.data(), static_cast<std::streamsize>(next));
    next = 0;
  }
};

enum class State : std::uint8_t { kOff, kRecording, kReplaying };

struct Session {
  std::mutex mutex;  // guards what follows, when a thread meets a name for the first time
  std::string path;
  std::vector<std::unique_ptr<Channel>> channels;
  std::uint32_t threads = 0;
  ~Session();
};

inline std::atomic<State>& state() {
  static std::atomic<State> current{State::kOff};
  return current;
}
inline std::atomic<std::uint32_t>& generation() {
  static std::atomic<std::uint32_t> current{1};
  return current;
}
inline Session& session() {
  static Session only;
  return only;
}

// What a thread found last: a repeated call with the same literal needs no lookup.
struct Cached {
  const char* name = nullptr;
  Channel* channel = nullptr;
  std::uint32_t generation = 0;
};
struct ThreadState {
  std::array<Cached, 8> cached{};
  std::uint32_t number = 0;
  std::uint32_t generation = 0;  // of the session that the number belongs to; 0: none yet
};
inline constinit thread_local ThreadState thread_state{};

inline Channel* find_channel(const char* name, const char* type) {
  Session& all = session();
  const std::lock_guard lock(all.mutex);
  const std::uint32_t now =
      generation().load(std::memory_order_relaxed);  // changes only while nobody is inside
  ThreadState& mine = thread_state;
  if (mine.generation != now) {
    mine.generation = now;
    mine.number = all.threads++;
  }
  Channel* found = nullptr;
  for (auto& channel : all.channels) {
    if (channel->thread == mine.number && channel->name == name) found = channel.get();
  }
  if (found == nullptr) {
    if (state().load(std::memory_order_relaxed) == State::kReplaying) {
      throw StateError(std::string(name) + ": nothing was recorded for thread " +
                       std::to_string(mine.number));
    }
    all.channels.push_back(std::make_unique<Channel>());
    found = all.channels.back().get();
    found->name = name;
    found->type = type;
    found->thread = mine.number;
    found->id = static_cast<std::uint32_t>(all.channels.size() - 1);
    found->part = all.path + "." + std::to_string(found->id) + ".part";
    std::remove(found->part.c_str());
    found->data.resize(1U << 18U);
  }
  mine.cached[(reinterpret_cast<std::uintptr_t>(name) >> 3U) % mine.cached.size()] = {name, found, now};
  return found;
}

inline Channel* channel_of(const char* name, const char* type) {
  const Cached& cached = thread_state.cached[(reinterpret_cast<std::uintptr_t>(name) >> 3U) % 8];
  // relaxed: a session changes only while no thread is inside
  if (cached.name == name && cached.generation == generation().load(std::memory_order_relaxed))
    return cached.channel;
  return find_channel(name, type);
}

inline std::size_t padded(std::size_t size) {
  return (size + 7) / 8 * 8;
}

inline void write_trace() {
  Session& all = session();
  std::ofstream file(all.path, std::ios::binary | std::ios::trunc);
  const auto write = [&](const void* data, std::size_t size) {
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  };
  const FileHead head;
  write(&head, sizeof head);
  std::uint64_t count = 0;
  for (auto& channel : all.channels) {
    std::string text = channel->name + '\0' + channel->type + '\0' + channel->layout + '\0';
    Head definition;
    definition.tag = 1;
    definition.id = channel->id;
    definition.size = text.size();
    write(&definition, sizeof definition);
    text.resize(padded(text.size()), '\0');
    write(text.data(), text.size());
    {
      std::ifstream part(channel->part, std::ios::binary);
      if (part && part.peek() != std::ifstream::traits_type::eof()) file << part.rdbuf();
    }
    std::remove(channel->part.c_str());
    write(channel->data.data(), channel->next);
    count += channel->values;
  }
  Head end;
  end.tag = 3;
  end.size = count;
  write(&end, sizeof end);
}

inline void read_trace() {
  Session& all = session();
  std::ifstream file(all.path, std::ios::binary);
  const Bytes data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const FileHead wanted;
  FileHead head;
  if (data.size() < sizeof head || std::memcmp(data.data(), wanted.magic.data(), wanted.magic.size()) != 0) {
    throw StateError(all.path + ": is no trace of a stub");
  }
  std::memcpy(&head, data.data(), sizeof head);
  if (head.version != wanted.version) throw StateError(all.path + ": is of another version");
  std::map<std::uint32_t, std::array<std::string, 3>> names;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Channel*> found;
  for (std::size_t at = sizeof head;;) {
    Head entry;
    if (data.size() - at < sizeof entry) throw StateError(all.path + ": is cut short");
    std::memcpy(&entry, data.data() + at, sizeof entry);
    if (entry.tag == 3) break;
    const std::size_t body = at + sizeof entry;
    if (entry.size > data.size() - body || padded(entry.size) > data.size() - body) {
      throw StateError(all.path + ": is cut short");
    }
    if (entry.tag == 1) {
      const char* text = data.data() + body;
      std::size_t left = entry.size;
      for (auto& part : names[entry.id]) {
        const std::size_t size = strnlen(text, left);
        part.assign(text, size);
        const std::size_t step = std::min(left, size + 1);
        text += step;
        left -= step;
      }
    } else {
      Channel*& channel = found[{entry.id, entry.thread}];
      if (channel == nullptr) {
        all.channels.push_back(std::make_unique<Channel>());
        channel = all.channels.back().get();
        const auto& [name, type, layout] = names[entry.id];
        channel->name = name;
        channel->type = type;
        channel->layout = layout;
        channel->thread = entry.thread;
      }
      channel->data.insert(channel->data.end(), data.begin() + static_cast<std::ptrdiff_t>(at),
                           data.begin() + static_cast<std::ptrdiff_t>(body + padded(entry.size)));
    }
    at = body + padded(entry.size);
  }
}

inline void begin(State next, const char* path) {
  Session& all = session();
  const std::lock_guard lock(all.mutex);
  all.path = path;
  all.channels.clear();
  all.threads = 0;
  generation().fetch_add(1, std::memory_order_relaxed);
  if (next == State::kReplaying) read_trace();
  // release: whoever sees the state sees the channels
  state().store(next, std::memory_order_release);
}

inline Session::~Session() {
  if (state().load(std::memory_order_acquire) == State::kRecording) write_trace();
}

// Reads the environment once, before main.
inline const bool kStarted = [] {
  const char* recorded = std::getenv("LATLAB_STUB_RECORD");
  const char* replayed = std::getenv("LATLAB_STUB_REPLAY");
  if (recorded != nullptr) begin(State::kRecording, recorded);
  if (replayed != nullptr) begin(State::kReplaying, replayed);
  return true;
}();

}  // namespace detail

inline void record(const char* path) {
  detail::begin(detail::State::kRecording, path);
}
// Throws StateError where the file is no trace, of another version, or cut short.
inline void replay(const char* path) {
  detail::begin(detail::State::kReplaying, path);
}
inline void stop() {
  auto& state = detail::state();
  // acquire: pairs with the release in begin()
  if (state.load(std::memory_order_acquire) == detail::State::kRecording) detail::write_trace();
  state.store(detail::State::kOff, std::memory_order_release);  // release: the file is written
}
inline bool replaying() noexcept {
  // acquire: pairs with the release in begin()
  return detail::state().load(std::memory_order_acquire) == detail::State::kReplaying;
}

// Records what `value` points at, or that it is NULL; does nothing unless a recording goes on.
template <class T>
void save_state(const char* name, const char* type, const T* value) {
  if (detail::state().load(std::memory_order_acquire) != detail::State::kRecording)
    return;  // as in replaying()
  detail::Channel& channel = *detail::channel_of(name, type);
  if (channel.layout.empty()) channel.layout = Serial<T>::layout();
  detail::Head head;
  head.tag = 2;
  head.null = value == nullptr ? 1 : 0;
  head.id = channel.id;
  head.run = channel.run++;
  head.thread = channel.thread;
  ++channel.values;
  const void* body = value;
  Bytes packed;
  if (value != nullptr) {
    head.size = sizeof(T);
    if constexpr (!kRaw<T>) {
      Serial<T>::save(*value, packed);
      body = packed.data();
      head.size = packed.size();
    }
  }
  const std::size_t whole = sizeof head + detail::padded(head.size);
  channel.room_for(whole);
  char* to = channel.data.data() + channel.next;
  std::memcpy(to, &head, sizeof head);
  if (head.size > 0) std::memcpy(to + sizeof head, body, head.size);
  channel.next += whole;
}

// Loads the next recorded state into `*to`: an object that exists is overwritten in place, one that is
// missing is made with new, NULL is returned where NULL was recorded. Throws StateError where an object is
// given and NULL was recorded (neither keeping nor deleting it can be right), where nothing is left, or where
// the data doesn't fit the type.
template <class T>
T* load_state(const char* name, T* to) {
  detail::Channel& channel = *detail::channel_of(name, "");
  if (channel.next + sizeof(detail::Head) > channel.data.size()) {
    throw StateError(std::string(name) + ": more calls than were recorded");
  }
  detail::Head head;
  std::memcpy(&head, channel.data.data() + channel.next, sizeof head);
  const char* body = channel.data.data() + channel.next + sizeof head;
  if (head.null != 0) {
    if (to != nullptr) throw StateError(std::string(name) + ": an object is given, and NULL was recorded");
    channel.next += sizeof head;
    return nullptr;
  }
  T* target = to != nullptr ? to : new T();
  if constexpr (kRaw<T>) {
    if (head.size == sizeof(T)) {
      std::memcpy(target, body, sizeof(T));
      channel.next += sizeof head + detail::padded(sizeof(T));
      return target;
    }
  }
  Reader in(body, head.size);
  Serial<T>::load(*target, in);
  if (!in.done()) throw StateError(std::string(name) + ": a recorded value is longer than its type");
  channel.next += sizeof head + detail::padded(head.size);
  return target;
}

namespace detail {

// What LATLAB_STUBS_PLAN says of one component; see src/latlab/stubs/_plan.py.
struct Plan {
  std::string mode = "off";
  double factor = 1.0;
  std::int64_t delay_ns = 0;
  std::string state;
  std::mutex mutex;
  std::vector<std::array<std::int64_t, 2>> times;
  std::size_t next = 0;

  explicit Plan(const char* name) {
    const char* path = std::getenv("LATLAB_STUBS_PLAN");
    std::ifstream file(path != nullptr ? path : "");
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string in_mode;
      std::string flags;
      std::string in_state;
      std::string of;
      double in_factor = 1.0;
      std::int64_t in_delay = 0;
      words >> in_mode >> in_factor >> in_delay >> flags >> in_state;
      std::getline(words >> std::ws, of);
      if (of != name) continue;
      mode = in_mode;
      factor = in_factor;
      delay_ns = in_delay;
      state = in_state;
    }
    const std::string trace = state + ".trace";
    if (mode == "record") begin(State::kRecording, trace.c_str());
    if (mode == "flat" || mode == "busy" || mode == "idle") begin(State::kReplaying, trace.c_str());
    if (mode == "busy" || mode == "idle") {
      std::ifstream kept(state + ".times", std::ios::binary);
      std::array<std::int64_t, 2> row{};
      while (kept.read(reinterpret_cast<char*>(row.data()), sizeof row)) times.push_back(row);
    }
  }
  ~Plan() {
    if (mode != "measure") return;
    std::ofstream kept(state + ".times", std::ios::binary | std::ios::trunc);
    kept.write(reinterpret_cast<const char*>(times.data()), static_cast<std::streamsize>(times.size() * 16));
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
};

inline std::int64_t clock_ns(clockid_t id) noexcept {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// CPU time by a checkpointed clock: its readings cost 0.5 us each, so most of the time the monotonic clock is
// polled.
inline void busy(std::int64_t ns) noexcept {
  const std::int64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
  for (std::int64_t left = ns; left > 0; left = end - clock_ns(CLOCK_THREAD_CPUTIME_ID)) {
    const std::int64_t until = clock_ns(CLOCK_MONOTONIC) + left;
    while (clock_ns(CLOCK_MONOTONIC) < until) {
    }
  }
}

inline void idle(std::int64_t ns) noexcept {
  const std::int64_t end = clock_ns(CLOCK_MONOTONIC) + ns;
  const timespec at{static_cast<time_t>(end / 1'000'000'000), static_cast<long>(end % 1'000'000'000)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
}

}  // namespace detail

// A component under study: calls `function`, or what the plan of a study says in its place. Its result (which
// must be default constructible) is its function; one that returns nothing has none.
template <class Function>
auto component(const char* name, Function&& function) {
  using Result = std::invoke_result_t<Function>;
  static detail::Plan plan(name);  // one for each call of component() in the source
  if (plan.mode == "off") return std::forward<Function>(function)();
  if (plan.mode == "delay") {
    detail::busy(plan.delay_ns);
    return std::forward<Function>(function)();
  }
  if (plan.mode == "measure") {
    struct Clock {
      std::int64_t cpu = detail::clock_ns(CLOCK_THREAD_CPUTIME_ID);
      std::int64_t wall = detail::clock_ns(CLOCK_MONOTONIC);
      ~Clock() {
        wall = detail::clock_ns(CLOCK_MONOTONIC) - wall;
        cpu = std::min(wall, detail::clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
        const std::lock_guard lock(plan.mutex);
        // Below 20 us the difference is the clocks' own error, an interrupt or a preemption.
        plan.times.push_back({cpu, wall - cpu > 20'000 ? wall - cpu : 0});
      }
    };
    const Clock clock;
    return std::forward<Function>(function)();
  }
  if (plan.mode == "record") {
    if constexpr (std::is_void_v<Result>) {
      std::forward<Function>(function)();
      return;
    } else {
      Result result = std::forward<Function>(function)();
      save_state(name, "result", &result);
      return result;
    }
  }
  if (plan.mode != "flat" && !plan.times.empty()) {
    std::array<std::int64_t, 2> call{};
    {
      const std::lock_guard lock(plan.mutex);
      call = plan.times[plan.next++ % plan.times.size()];
    }
    if (call[1] > 0) detail::idle(call[1]);
    const auto ns = static_cast<std::int64_t>(static_cast<double>(call[0]) * plan.factor);
    plan.mode == "idle" ? detail::idle(ns) : detail::busy(ns);
  }
  if constexpr (!std::is_void_v<Result>) {
    Result result{};
    load_state(name, &result);
    return result;
  }
}

}  // namespace latlab::stub
