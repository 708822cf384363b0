// Threads: one thread owns a generator.
//
// A deterministic NASDAQ ITCH-5.0 day: the same bytes for a seed on every machine (integer arithmetic only),
// with the published character of the real feed (the depth, burst and symbol tables in generator.cpp name
// their sources) and consistent order lifetimes: nothing is executed, cancelled or replaced that does not
// stand.
//
//   Generator generator({.seed = 1, .messages = 1'000'000, .symbols = 500});
//   std::vector<std::uint8_t> buffer(1 << 20);
//   while (const std::size_t n = generator.fill(buffer)) write(buffer.data(), n);     // whole frames,
//   BinaryFILE
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "market/sides.hpp"

namespace latlab::market {

struct GeneratorOptions {
  std::uint64_t seed = 1;
  std::uint64_t messages = 1'000'000;
  std::uint32_t symbols = 500;  // at most; fewer when the messages don't suffice for them
};
inline constexpr std::uint32_t kMaxSymbols = 65'000;

class Generator {
 public:
  explicit Generator(const GeneratorOptions& options);

  // Writes as many whole frames as fit, and returns the bytes written; 0 when the day is over.
  // The buffer must hold at least 64 bytes.
  std::size_t fill(std::span<std::uint8_t> buffer);

  [[nodiscard]] std::uint64_t written() const noexcept { return written_; }
  [[nodiscard]] std::uint32_t symbols() const noexcept { return static_cast<std::uint32_t>(symbols_.size()); }

 private:
  struct Standing {
    std::uint64_t ref;
    std::uint32_t price;
    std::uint32_t qty;
    Side side;
  };
  struct Symbol {
    std::array<char, 8> name{};
    std::array<SortedSide, 2> sides{SortedSide(Side::bid), SortedSide(Side::offer)};
    std::vector<Standing> orders;
    std::array<std::uint64_t, 2> newest_at_best{};  // (reference << 20 | index) of an order at the inside
    std::uint64_t events = 0;
    std::uint32_t fair_tick = 0;  // where an empty side is opened
  };
  struct Choice {  // of Walker's alias method
    std::uint32_t threshold;
    std::uint32_t other;
  };
  struct Message;

  std::uint64_t random() noexcept;
  std::uint32_t below(std::uint32_t bound) noexcept;
  std::uint32_t draw(std::span<const std::array<std::uint32_t, 2>> quantiles) noexcept;

  void prepare_symbols(std::uint32_t count);
  void prepare_choices(const std::vector<std::uint64_t>& weights);
  std::uint32_t choose_symbol() noexcept;
  void advance_clock();

  void emit(Message& message);
  void preamble();
  void system(char code);
  void schedule();
  void body();
  bool rare(char type, std::uint32_t locate);
  void cross(std::uint32_t locate, char kind);

  void add(std::uint32_t locate);
  void take(std::uint32_t locate);
  void execute(std::uint32_t locate);
  void remove(std::uint32_t locate, std::size_t index);
  void replace(std::uint32_t locate, std::size_t index);
  [[nodiscard]] std::size_t pick(Symbol& symbol, std::uint32_t depth);
  [[nodiscard]] std::uint32_t depth_of(const Symbol& symbol, const Standing& order) const;
  [[nodiscard]] std::uint32_t place(Symbol& symbol, Side side, std::uint32_t depth);
  void stand(Symbol& symbol, const Standing& order);
  void leave(Symbol& symbol, std::size_t index, std::uint32_t qty);

  GeneratorOptions options_;
  std::array<std::uint64_t, 4> state_{};
  std::vector<Symbol> symbols_;
  std::vector<Choice> choices_;
  std::vector<std::uint8_t> pending_;  // encoded, and not yet handed out
  std::size_t pending_at_ = 0;
  std::uint64_t written_ = 0;  // messages handed to pending_
  std::uint64_t body_begin_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t next_ref_ = 1;
  std::uint64_t next_match_ = 1;
  std::uint32_t cluster_left_ = 0;
  std::uint32_t cluster_size_ = 0;
  std::uint32_t leader_ = 0;
  std::uint32_t phase_ = 0;
  std::uint32_t rare_done_ = 0;
  std::uint32_t crosses_left_ = 0;
  char cross_kind_ = 'O';
};

}  // namespace latlab::market
