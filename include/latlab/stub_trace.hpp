// Threads: save_state and load_state may be called from any thread; each thread has its own sequence of
// values, and is told by the order in which threads were made (stub_threads.hpp). record(), replay() and
// stop() belong to one thread, while no other is inside.
//
// The states that a component leaves, written into a trace and handed out again. The format is described in
// docs/reference/stubs-formats.md and read by `latlab stubs decode`. Included by latlab/stub.hpp.
//
// Over 400 lines: writer, reader and index of one format, which must agree byte for byte.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <latlab/stub_serial.hpp>
#include <latlab/stub_threads.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace latlab::stub {

namespace detail {

// The head of an entry of the trace file; see src/latlab/stubs/components/trace.py.
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
// The same for Python's struct.
inline constexpr const char* kHeadFormat = "<BBBBIIIQQ";
inline constexpr const char* kFileHeadFormat = "<8sII";

// One thread's values of one name: to be appended, or to be handed out.
struct Channel {
  std::string name;
  std::string type;
  std::string layout;
  std::uint32_t thread = 0;
  std::uint32_t run = 0;
  std::uint32_t id = 0;
  std::uint64_t values = 0;
  // Recording: a buffer of entries as in the file, its used part, and the file of what came before it.
  Bytes data;
  std::size_t next = 0;
  std::string part;
  // Replaying: what is left to hand out. Where all values have the same size and none is NULL they lie
  // without their heads, `fixed` bytes each; else (0) as entries of the file.
  const char* at = nullptr;
  const char* end = nullptr;
  std::size_t fixed = 0;

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
  std::set<std::uint32_t> taken;     // numbers of the threads that have called
  std::set<std::uint32_t> recorded;  // of those in the trace that is replayed
  void* mapped = nullptr;
  std::size_t mapped_bytes = 0;
  void unmap() noexcept {
    if (mapped != nullptr) munmap(mapped, mapped_bytes);
    mapped = nullptr;
    mapped_bytes = 0;
  }
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
    mine.number = take_number(all.taken, all.recorded);
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
  // relaxed: a session changes only while no thread is inside. The text is compared too: another name may lie
  // where one lay before.
  if (cached.name == name && cached.generation == generation().load(std::memory_order_relaxed) &&
      cached.channel->name == name)
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

// A trace that is read: a part of it is in memory, never more, however large the file says that it is.
class Source {
 public:
  // NONBLOCK: a pipe that nobody writes to must not be waited for.
  explicit Source(std::string path)
      : path_(std::move(path)), file_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status{};
    if (file_ < 0 || fstat(file_, &status) != 0) {
      const std::string why = std::strerror(errno);
      if (file_ >= 0) close(file_);
      throw StateError(path_ + ": can't be read (" + why + ")");
    }
    if (!S_ISREG(status.st_mode) || status.st_size == 0) {
      close(file_);
      throw StateError(path_ + (S_ISREG(status.st_mode) ? ": is empty" : ": is not a file"));
    }
    size_ = static_cast<std::size_t>(status.st_size);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  Source(Source&&) = delete;
  Source& operator=(Source&&) = delete;
  ~Source() { close(file_); }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] int descriptor() const noexcept { return file_; }
  [[noreturn]] void cut_short() const { throw StateError(path_ + ": is cut short"); }

  // Throws StateError where the file ends before, or was cut meanwhile.
  void read(std::size_t at, void* to, std::size_t size) {
    if (size > size_ || at > size_ - size) cut_short();
    if (size > kWindow) {
      if (fill(at, static_cast<char*>(to), size) < size) cut_short();
      return;
    }
    if (at < begin_ || at + size > begin_ + held_) {
      window_.resize(kWindow);
      begin_ = at;
      held_ = fill(at, window_.data(), kWindow);
      if (held_ < size) cut_short();
    }
    std::memcpy(to, window_.data() + (at - begin_), size);
  }

 private:
  static constexpr std::size_t kWindow = 1U << 18U;

  std::size_t fill(std::size_t at, char* to, std::size_t size) const {
    std::size_t done = 0;
    while (done < size) {
      const ssize_t got = pread(file_, to + done, size - done, static_cast<off_t>(at + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw StateError(path_ + ": can't be read (" + std::strerror(errno) + ")");
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  std::string path_;
  int file_;
  std::size_t size_ = 0;
  std::size_t begin_ = 0;  // of the window
  std::size_t held_ = 0;   // bytes in the window
  Bytes window_;
};

// Lazily: the kernel reads a page when a value on it is handed out.
inline void map_file(Session& all, const Source& source) {
  void* got = mmap(nullptr, source.size(), PROT_READ, MAP_PRIVATE, source.descriptor(), 0);
  if (got == MAP_FAILED) throw StateError(source.path() + ": can't be mapped");
  all.mapped = got;
  all.mapped_bytes = source.size();
}

// Where the entries of one thread's values of one name lie in the file.
struct Found {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint64_t values = 0;
  std::uint64_t size = 0;
  bool alike = true;  // the same size, and none is NULL
  bool whole = true;  // one after the other
};

inline constexpr std::size_t kLargestDefinition = 1U
                                                  << 20U;  // src/latlab/stubs/components/trace.py has it, too

// Walks the heads of the file; throws StateError where it is not a trace, of another version, damaged, or cut
// short.
inline auto find_values(Source& source, std::map<std::uint32_t, std::array<std::string, 3>>& names) {
  const std::string& path = source.path();
  const std::size_t size = source.size();
  const FileHead wanted;
  FileHead head;
  if (size >= sizeof head) source.read(0, &head, sizeof head);
  if (size < sizeof head || head.magic != wanted.magic) throw StateError(path + ": is not a trace of a stub");
  if (head.version != wanted.version) {
    throw StateError(path + ": is of version " + std::to_string(head.version) + ", and " +
                     std::to_string(wanted.version) + " is read");
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, Found> found;
  for (std::size_t at = sizeof head;;) {
    Head entry;
    source.read(at, &entry, sizeof entry);
    if (entry.tag == 3) return found;
    if (entry.tag != 1 && entry.tag != 2)
      throw StateError(path + ": holds an unknown entry (" + std::to_string(entry.tag) + ")");
    const std::size_t body = at + sizeof entry;
    if (entry.size > size - body || padded(entry.size) > size - body) source.cut_short();
    const std::size_t after = body + padded(entry.size);
    if (entry.tag == 1) {
      if (entry.size > kLargestDefinition) throw StateError(path + ": holds a damaged definition");
      std::string all(entry.size, '\0');
      source.read(body, all.data(), all.size());
      const char* text = all.data();
      std::size_t left = all.size();
      for (auto& part : names[entry.id]) {
        const std::size_t length = strnlen(text, left);
        part.assign(text, length);
        const std::size_t step = std::min(left, length + 1);
        text += step;
        left -= step;
      }
    } else {
      Found& one = found[{entry.id, entry.thread}];
      if (one.values == 0) one = {.begin = at, .end = at, .size = entry.size};
      one.alike = one.alike && entry.null == 0 && entry.size == one.size && entry.size > 0;
      one.whole = one.whole && one.end == at;
      one.end = after;
      ++one.values;
    }
    at = after;
  }
}

// Copies the values, whose entries may lie scattered over the file: with their heads, or (fixed) without.
inline void copy_values(Channel& channel, const Found& found, Source& source) {
  channel.data.reserve(found.alike ? found.values * found.size : found.end - found.begin);
  for (std::size_t at = found.begin; at < found.end;) {
    Head entry;
    source.read(at, &entry, sizeof entry);
    const std::size_t after = at + sizeof entry + padded(entry.size);
    // The file may have been written to since it was walked.
    if (after <= at || after > found.end) source.cut_short();
    if (entry.tag == 2 && entry.id == channel.id && entry.thread == channel.thread) {
      if (found.alike && entry.size != found.size) source.cut_short();
      const std::size_t begin = at + (found.alike ? sizeof entry : 0);
      const std::size_t size = found.alike ? entry.size : after - at;
      const std::size_t held = channel.data.size();
      channel.data.resize(held + size);
      source.read(begin, channel.data.data() + held, size);
    }
    at = after;
  }
  channel.fixed = found.alike ? found.size : 0;
  channel.at = channel.data.data();
  channel.end = channel.at + channel.data.size();
}

inline void read_trace(bool lazy) {
  Session& all = session();
  Source source(all.path);
  std::map<std::uint32_t, std::array<std::string, 3>> names;
  for (const auto& [which, found] : find_values(source, names)) {
    all.channels.push_back(std::make_unique<Channel>());
    Channel& channel = *all.channels.back();
    channel.id = which.first;
    channel.thread = which.second;
    all.recorded.insert(channel.thread);
    channel.name = names[which.first][0];
    channel.type = names[which.first][1];
    channel.layout = names[which.first][2];
    channel.values = found.values;
    if (lazy && found.whole) {
      if (all.mapped == nullptr) map_file(all, source);
      channel.at = static_cast<const char*>(all.mapped) + found.begin;
      channel.end = static_cast<const char*>(all.mapped) + found.end;
    } else {
      copy_values(channel, found, source);
    }
  }
}

inline void begin(State next, const char* path, bool lazy = false) {
  Session& all = session();
  const std::lock_guard lock(all.mutex);
  state().store(State::kOff,
                std::memory_order_relaxed);  // where the trace can't be read, nothing is replaced
  all.path = path;
  all.channels.clear();
  all.unmap();
  all.taken.clear();
  all.recorded.clear();
  generation().fetch_add(1, std::memory_order_relaxed);
  if (next == State::kReplaying) read_trace(lazy);
  // release: whoever sees the state sees the channels
  state().store(next, std::memory_order_release);
}

inline Session::~Session() {
  if (state().load(std::memory_order_acquire) == State::kRecording) write_trace();
  unmap();
}

// Reads the environment once, before main.
inline const bool kStarted = [] {
  const char* recorded = std::getenv("LATLAB_STUB_RECORD");
  const char* replayed = std::getenv("LATLAB_STUB_REPLAY");
  if (recorded != nullptr) begin(State::kRecording, recorded);
  if (replayed != nullptr) begin(State::kReplaying, replayed, std::getenv("LATLAB_STUB_LAZY") != nullptr);
  return true;
}();

}  // namespace detail

inline void record(const char* path) {
  detail::begin(detail::State::kRecording, path);
}
// Every value is read at once, into loaded_bytes() of memory; lazily, a page when its first value is handed
// out. Throws StateError where the file is not a trace, of another version, or cut short; then nothing is
// replaced.
inline void replay(const char* path, bool lazy = false) {
  detail::begin(detail::State::kReplaying, path, lazy);
}
// Memory that the values of a replay hold.
inline std::size_t loaded_bytes() {
  const std::lock_guard lock(detail::session().mutex);
  std::size_t bytes = 0;
  for (const auto& channel : detail::session().channels) bytes += channel->data.capacity();
  return bytes;
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

namespace detail {

// The next value of a channel whose values differ in size, are NULL, or aren't plain bytes.
template <class T>
T* load_entry(const char* name, Channel& channel, T* to) {
  Head head;
  const char* body = channel.at;
  if (channel.at == channel.end) throw StateError(std::string(name) + ": more calls than were recorded");
  if (channel.fixed != 0) {
    head.size = channel.fixed;
  } else {
    std::memcpy(&head, channel.at, sizeof head);
    body += sizeof head;
  }
  const char* const after = body + (channel.fixed != 0 ? channel.fixed : padded(head.size));
  if (head.null != 0) {
    if (to != nullptr) throw StateError(std::string(name) + ": an object is given, and NULL was recorded");
    channel.at = after;
    return nullptr;
  }
  std::unique_ptr<T> made;
  if (to == nullptr) {
    if constexpr (std::is_default_constructible_v<T>) {
      made = std::make_unique<T>();
    } else {
      throw StateError(std::string(name) + ": no object is given, and one of this class can't be made");
    }
  }
  T* target = to != nullptr ? to : made.get();
  Reader in(body, head.size);
  Serial<T>::load(*target, in);
  if (!in.done()) throw StateError(std::string(name) + ": a recorded value is longer than its type");
  channel.at = after;
  made.release();  // NOLINT(bugprone-unused-return-value): it is `target`
  return target;
}

}  // namespace detail

// Loads the next recorded state into `*to`: an object that exists is overwritten in place, one that is
// missing is made with new, NULL is returned where NULL was recorded. Throws StateError where an object is
// given and NULL was recorded (neither keeping nor deleting it can be right), where nothing is left, or where
// the data doesn't fit the type.
template <class T>
T* load_state(const char* name, T* to) {
  detail::Channel& channel = *detail::channel_of(name, "");
  if constexpr (kRaw<T>) {
    if (channel.fixed == sizeof(T) && channel.at != channel.end && to != nullptr) [[likely]] {
      std::memcpy(to, channel.at, sizeof(T));
      channel.at += sizeof(T);
      return to;
    }
  }
  return detail::load_entry(name, channel, to);
}

}  // namespace latlab::stub
