// Threads: one; a program's main, to be included once.
//
// Where the compiler has no libFuzzer: a valid input is spoiled at random, as long as is asked for.
//
//     latlab-fuzz-WHAT [SECONDS [SEED]]     spoils what valid_input() gives
//     latlab-fuzz-WHAT FILE…                runs kept inputs
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace latlab::fuzz {

using Input = std::vector<std::uint8_t>;

// What a program may have written, for the fuzzer to spoil.
Input valid_input();

inline std::uint64_t lie(std::mt19937_64& random) {
  constexpr std::uint64_t kLies[] = {0,          1,          2,          7,          63,         64,
                                     0xFF,       0xFFFF,     0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1ULL << 32,
                                     1ULL << 40, ~0ULL >> 1, ~0ULL,      ~0ULL - 63};
  return kLies[random() % std::size(kLies)];
}

inline Input spoiled(Input input, std::mt19937_64& random) {
  for (std::uint64_t left = 1 + random() % 6; left > 0; --left) {
    if (input.empty()) return input;
    // Most of them near the beginning, where a file says what it is.
    const std::size_t at = random() % (1 + ((input.size() - 1) >> (random() % 12)));
    switch (random() % 6) {
      case 0:
        input[at] ^= static_cast<std::uint8_t>(1U << (random() % 8));
        break;
      case 1:
        input[at] = static_cast<std::uint8_t>(random());
        break;
      case 2:
        input.resize(at);
        break;
      case 3:
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), input.begin(),
                     input.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(at, random() % 64)));
        break;
      default: {  // a length or an offset that lies
        const std::size_t width = std::size_t{4} << (random() % 2);
        const std::size_t place = at - at % width;
        const std::uint64_t value = lie(random);
        if (place + width <= input.size()) std::memcpy(input.data() + place, &value, width);
      }
    }
  }
  return input;
}

inline int run(int count, char** arguments) {
  const bool kept = count > 1 && std::strtod(arguments[1], nullptr) == 0.0;
  for (int i = 1; kept && i < count; ++i) {
    std::ifstream file(arguments[i], std::ios::binary);
    const Input input{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  if (kept) return 0;
  const double seconds = count > 1 ? std::strtod(arguments[1], nullptr) : 10.0;
  const std::uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : std::random_device{}();
  std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const Input valid = valid_input();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::uint64_t inputs = 0;
  std::uint64_t bytes = 0;
  LLVMFuzzerTestOneInput(valid.data(), valid.size());
  while (std::chrono::steady_clock::now() < end) {
    const Input input = spoiled(valid, random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++inputs;
    bytes += input.size();
  }
  std::fprintf(stderr, "%llu inputs, %llu bytes\n", static_cast<unsigned long long>(inputs),
               static_cast<unsigned long long>(bytes));
  return 0;
}

}  // namespace latlab::fuzz

#ifndef LATLAB_LIBFUZZER
int main(int count, char** arguments) {
  return latlab::fuzz::run(count, arguments);
}
#endif
