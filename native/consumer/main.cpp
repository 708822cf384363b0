#include <latlab/clock.hpp>

#include <iostream>

int main() {
  const auto before = latlab::ticks_ordered();
  const auto after = latlab::ticks_ordered();
  std::cout << (after >= before ? "the clock runs\n" : "the clock runs backwards\n");
}
