// Threads: as the counted queue's own; `Writers` says how many threads may be on a side at once.
//
// Counting queues of any class. `Counts` is a mixin with hooks, for a queue that keeps its own indices or
// whose source may be changed. `Counted<Queue>` wraps any other: it is that queue, with its operations
// counted, so that only the line changes that constructs it. `CountedPool<Pool>` does the same for a pool of
// objects.
//
// A queue is registered where it is constructed and leaves where it is destroyed. What is put in is counted
// once it is in: another thread may have taken it out a moment earlier, and for that moment an observer takes
// the fill for 0, never for less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

#include "counters.hpp"

namespace latlab {

// How many threads may be on one side of a queue at the same time. `one`: a single thread, or any number that
// hold the queue's lock, also while it counts; a plain store. `many`: an atomic addition.
enum class Writers { one, many };

// What becomes of an event that a queue refused: its producer waits and tries again, or it is lost.
enum class Refused { waits, lost };

namespace detail {

template <Writers writers>
void add(std::atomic<std::uint64_t>& count, std::uint64_t events, std::memory_order order) noexcept {
  if constexpr (writers == Writers::one) {
    count.store(count.load(std::memory_order_relaxed) + events, order);
  } else {
    count.fetch_add(events, order);
  }
}

// The total that an index stands for, given the total before it: the index is that total modulo `modulus`
// (0: 2^64), and never advances by more than a round between two calls.
inline std::uint64_t advanced(std::uint64_t total, std::uint64_t index, std::uint64_t modulus) noexcept {
  if (modulus == 0) return index;
  return total + (index + modulus - total % modulus) % modulus;
}

}  // namespace detail

// The mixin: derive from it (or hold one) and call a hook where something is put in or taken out.
template <Writers producers = Writers::many, Writers consumers = producers>
class Counts {
 public:
  explicit Counts(const QueueInfo& info = {}, CounterFile& file = CounterFile::process())
      : slot_(file.add_queue(info)) {}

  [[nodiscard]] QueueSlot& slot() noexcept { return slot_; }
  [[nodiscard]] const QueueSlot& slot() const noexcept { return slot_; }
  void set_source(const StageName& stage) noexcept { slot_.set_source(stage); }
  void set_drain(const StageName& stage) noexcept { slot_.set_drain(stage); }

  void count_in(std::uint64_t events = 1) noexcept {
    slot_.note_producer();
    detail::add<producers>(slot_.producer().in, events, std::memory_order_release);
  }
  void count_out(std::uint64_t events = 1) noexcept {
    slot_.note_consumer();
    detail::add<consumers>(slot_.consumer().out, events, std::memory_order_release);
  }
  void count_dropped(std::uint64_t events = 1) noexcept {
    detail::add<producers>(slot_.producer().dropped, events, std::memory_order_relaxed);
  }
  void count_blocked() noexcept {
    detail::add<producers>(slot_.producer().blocked, 1, std::memory_order_relaxed);
  }
  void count_empty() noexcept {
    detail::add<consumers>(slot_.consumer().empty, 1, std::memory_order_relaxed);
  }

  // For a queue that keeps its own indices: tells where they are now. An index that starts again at 0 after
  // `modulus` steps (the size of the ring, or 2^32 for a 32-bit counter) is followed over its rounds; it must
  // be told at least once a round, by one thread at a time. The side's index, not its fill.
  void tell_in(std::uint64_t index, std::uint64_t modulus = 0) noexcept {
    slot_.note_producer();
    auto& in = slot_.producer().in;
    in.store(detail::advanced(in.load(std::memory_order_relaxed), index, modulus), std::memory_order_release);
  }
  void tell_out(std::uint64_t index, std::uint64_t modulus = 0) noexcept {
    slot_.note_consumer();
    auto& out = slot_.consumer().out;
    out.store(detail::advanced(out.load(std::memory_order_relaxed), index, modulus),
              std::memory_order_release);
  }

 private:
  QueueSlot slot_;
};

namespace detail {

template <class Q, class = void>
struct ValueOf {
  using type = int;
};
template <class Q>
struct ValueOf<Q, std::void_t<typename Q::value_type>> {
  using type = typename Q::value_type;
};

template <class T>
concept Number = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// How many events a call put in, by what it returned. A number is a number of events, bool and enumerations
// (0: success) one event or none, an iterator like the first argument how far it came; void and all else:
// one. `asked` is how many a call for several was asked for, which a bool then stands for.
template <class Result, class... A>
std::uint64_t put_by(const Result& result, std::uint64_t asked, const A&... arguments) {
  using R = std::remove_cvref_t<Result>;
  if constexpr (std::is_same_v<R, bool>) {
    return result ? asked : 0;
  } else if constexpr (sizeof...(A) == 2 && (std::is_same_v<R, std::decay_t<const A>> && ...) && !Number<R>) {
    const R ends[] = {arguments...};
    return static_cast<std::uint64_t>(std::distance(ends[0], result));
  } else if constexpr (Number<R>) {
    return static_cast<std::uint64_t>(result);
  } else if constexpr (std::is_enum_v<R>) {
    return static_cast<std::uint64_t>(result) == 0 ? asked : 0;
  } else {
    return asked;
  }
}

// How many events a call took out. Without arguments a number is the event itself.
template <bool arguments, class Result>
std::uint64_t taken_by(const Result& result) {
  using R = std::remove_cvref_t<Result>;
  if constexpr (std::is_same_v<R, bool> && arguments) {
    return result ? 1 : 0;
  } else if constexpr (Number<R> && arguments) {
    return static_cast<std::uint64_t>(result);
  } else if constexpr (std::is_enum_v<R> && arguments) {
    return static_cast<std::uint64_t>(result) == 0 ? 1 : 0;
  } else if constexpr (requires { result.has_value(); }) {
    return result.has_value() ? 1 : 0;
  } else if constexpr (std::is_pointer_v<R>) {
    return result != nullptr ? 1 : 0;
  } else {
    return 1;
  }
}

// Of calls such as enqueue_bulk(iterator, count), how many events they were asked for.
template <class First, class... Rest>
std::uint64_t last_of(const First& first, const Rest&... rest) {
  if constexpr (sizeof...(Rest) > 0) {
    return last_of(rest...);
  } else {
    return static_cast<std::uint64_t>(first);
  }
}

// What a queue says of itself, where the caller says nothing.
template <class Q>
QueueInfo described_by(QueueInfo info, const Q& queue, std::string_view implementation) {
  if (info.capacity == 0 && info.kind == QueueKind::bounded) {
    if constexpr (requires { static_cast<std::uint64_t>(queue.capacity()); }) {
      info.capacity = static_cast<std::uint64_t>(queue.capacity());
    } else if constexpr (requires { static_cast<std::uint64_t>(queue.write_available()); }) {
      info.capacity = static_cast<std::uint64_t>(queue.write_available());
    }
    if (info.capacity == 0) info.kind = QueueKind::unbounded;
  }
  if (info.implementation.empty()) info.implementation = implementation;
  return info;
}

// The name of a class, as the compiler spells it.
template <class Q>
constexpr std::string_view name_of() noexcept {
  const std::string_view all = __PRETTY_FUNCTION__;
  const std::size_t from = all.find("Q = ") + 4;
  return all.substr(from, all.find_first_of(";]", from) - from);
}

}  // namespace detail

// A queue of class Q with its operations counted: the same class for whoever uses it by its own type. A call
// through a reference or pointer to Q itself is not seen.
//
//   boost::lockfree::spsc_queue<Order> orders(1024);
//   latlab::Counted<boost::lockfree::spsc_queue<Order>, latlab::Writers::one> orders({.name = "orders"},
//   1024);
template <class Q, Writers producers = Writers::many, Writers consumers = producers,
          Refused refused = Refused::waits>
class Counted : public Q, public Counts<producers, consumers> {
  using Value = typename detail::ValueOf<Q>::type;

 public:
  template <class... Arguments>
  explicit Counted(const QueueInfo& info, Arguments&&... arguments)
      : Q(std::forward<Arguments>(arguments)...),
        Counts<producers, consumers>(
            detail::described_by(info, static_cast<const Q&>(*this), detail::name_of<Q>())) {
    if constexpr (requires(const Q& q) { q.size(); }) {
      if (const auto size = static_cast<const Q&>(*this).size(); size > 0) {
        this->slot().producer().in.store(static_cast<std::uint64_t>(size), std::memory_order_relaxed);
      }
    }
  }

// The default of `First` is what a braced argument becomes.
#define LATLAB_PUTS(name, asked)                                                   \
  template <class First = Value, class... Rest>                                    \
    requires requires(Q& q, First&& first, Rest&&... rest) {                       \
      q.name(std::forward<First>(first), std::forward<Rest>(rest)...);             \
    }                                                                              \
  decltype(auto) name(First&& first, Rest&&... rest) {                             \
    return put(                                                                    \
        [&]() -> decltype(auto) {                                                  \
          return Q::name(std::forward<First>(first), std::forward<Rest>(rest)...); \
        },                                                                         \
        asked, first, rest...);                                                    \
  }
#define LATLAB_TAKES(name)                                                                                \
  template <class... A>                                                                                   \
    requires requires(Q& q, A&&... a) { q.name(std::forward<A>(a)...); }                                  \
  decltype(auto) name(A&&... a) {                                                                         \
    return taken<(sizeof...(A) > 0)>([&]() -> decltype(auto) { return Q::name(std::forward<A>(a)...); }); \
  }
  LATLAB_PUTS(push, 1)
  LATLAB_PUTS(push_back, 1)
  LATLAB_PUTS(push_front, 1)
  LATLAB_PUTS(bounded_push, 1)
  LATLAB_PUTS(try_push, 1)
  LATLAB_PUTS(emplace, 1)
  LATLAB_PUTS(emplace_back, 1)
  LATLAB_PUTS(try_emplace, 1)
  LATLAB_PUTS(enqueue, 1)
  LATLAB_PUTS(try_enqueue, 1)
  LATLAB_PUTS(enqueue_bulk, detail::last_of(first, rest...))
  LATLAB_PUTS(try_enqueue_bulk, detail::last_of(first, rest...))
  LATLAB_PUTS(put, 1)
  LATLAB_PUTS(try_put, 1)
  LATLAB_PUTS(offer, 1)
  LATLAB_PUTS(write, 1)
  LATLAB_PUTS(send, 1)
  LATLAB_PUTS(try_send, 1)
  LATLAB_TAKES(pop)
  LATLAB_TAKES(pop_front)
  LATLAB_TAKES(pop_back)
  LATLAB_TAKES(try_pop)
  LATLAB_TAKES(wait_and_pop)
  LATLAB_TAKES(pull)
  LATLAB_TAKES(try_pull)
  LATLAB_TAKES(dequeue)
  LATLAB_TAKES(try_dequeue)
  LATLAB_TAKES(wait_dequeue)
  LATLAB_TAKES(wait_dequeue_timed)
  LATLAB_TAKES(try_dequeue_bulk)
  LATLAB_TAKES(wait_dequeue_bulk)
  LATLAB_TAKES(take)
  LATLAB_TAKES(try_take)
  LATLAB_TAKES(poll)
  LATLAB_TAKES(read)
  LATLAB_TAKES(receive)
  LATLAB_TAKES(try_receive)
  LATLAB_TAKES(consume_one)
  LATLAB_TAKES(consume_all)
#undef LATLAB_PUTS
#undef LATLAB_TAKES

  void clear()
    requires requires(Q& q) {
      q.clear();
      q.size();
    }
  {
    const auto gone = Q::size();
    Q::clear();
    this->count_out(static_cast<std::uint64_t>(gone));
  }

 private:
  template <class Call, class... A>
  decltype(auto) put(Call&& call, std::uint64_t asked, const A&... arguments) {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      this->count_in(asked);
    } else {
      decltype(auto) result = call();
      // A reference is to the event that was put in, whatever its type.
      std::uint64_t events = asked;
      if constexpr (!std::is_reference_v<decltype(result)>) {
        events = detail::put_by(result, asked, arguments...);
      }
      if (events > 0) {
        this->count_in(events);
      } else if constexpr (refused == Refused::lost) {
        this->count_dropped(asked);
      } else {
        this->count_blocked();
      }
      return result;
    }
  }

  template <bool arguments, class Call>
  decltype(auto) taken(Call&& call) {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      this->count_out();
    } else {
      decltype(auto) result = call();
      const std::uint64_t events = detail::taken_by<arguments>(result);
      if (events > 0) {
        this->count_out(events);
      } else {
        this->count_empty();
      }
      return result;
    }
  }
};

// A pool of class P with its takings and returns counted: a queue of free objects, which hurts when it is
// empty. `objects` are free when it is constructed; 0 for a pool that grows.
template <class P, Writers takers = Writers::many, Writers givers = takers>
class CountedPool : public P, public Counts<givers, takers> {
 public:
  template <class... Arguments>
  explicit CountedPool(QueueInfo info, std::uint64_t objects, Arguments&&... arguments)
      : P(std::forward<Arguments>(arguments)...), Counts<givers, takers>(as_pool(info, objects)) {
    this->slot().producer().in.store(objects, std::memory_order_relaxed);
  }

#define LATLAB_POOL_TAKES(name)                                          \
  template <class... A>                                                  \
    requires requires(P& p, A&&... a) { p.name(std::forward<A>(a)...); } \
  decltype(auto) name(A&&... a) {                                        \
    decltype(auto) object = P::name(std::forward<A>(a)...);              \
    if (detail::taken_by<false>(object) > 0) {                           \
      this->count_out();                                                 \
    } else {                                                             \
      this->count_empty();                                               \
    }                                                                    \
    return object;                                                       \
  }
#define LATLAB_POOL_RETURNS(name)                                        \
  template <class... A>                                                  \
    requires requires(P& p, A&&... a) { p.name(std::forward<A>(a)...); } \
  decltype(auto) name(A&&... a) {                                        \
    this->count_in(); /* before: afterwards it may be taken already */   \
    return P::name(std::forward<A>(a)...);                               \
  }
  LATLAB_POOL_TAKES(take)
  LATLAB_POOL_TAKES(acquire)
  LATLAB_POOL_TAKES(allocate)
  LATLAB_POOL_TAKES(malloc)
  LATLAB_POOL_TAKES(construct)
  LATLAB_POOL_TAKES(borrow)
  LATLAB_POOL_RETURNS(give_back)
  LATLAB_POOL_RETURNS(release)
  LATLAB_POOL_RETURNS(deallocate)
  LATLAB_POOL_RETURNS(free)
  LATLAB_POOL_RETURNS(destroy)
#undef LATLAB_POOL_TAKES
#undef LATLAB_POOL_RETURNS

 private:
  static QueueInfo as_pool(QueueInfo info, std::uint64_t objects) {
    info.kind = QueueKind::pool;
    if (info.capacity == 0) info.capacity = objects;
    if (info.implementation.empty()) info.implementation = detail::name_of<P>();
    return info;
  }
};

}  // namespace latlab
