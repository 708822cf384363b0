#include <cstdlib>
#include <exception>
#include <iostream>
#include <sstream>
#include <string_view>

#include "check.hpp"

namespace check {

void differ(Shown expected, Shown actual, const char* text, const char* file, int line) {
  std::ostringstream out;
  out << file << ':' << line << ": " << text << ": expected ";
  expected.write(out, expected.value);
  out << ", got ";
  actual.write(out, actual.value);
  throw Failure(out.str());
}

void untrue(const char* text, const char* file, int line) {
  throw Failure(std::string(file) + ':' + std::to_string(line) + ": not true: " + text);
}

}  // namespace check

// Runs every test, or those whose sentence holds the first argument.
int main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  int passed = 0;
  int failed = 0;
  for (const auto& test : check::tests()) {
    if (test.sentence.find(wanted) == std::string::npos) continue;
    try {
      test.body();
      ++passed;
    } catch (const std::exception& error) {
      ++failed;
      std::cerr << "FAILED: " << test.sentence << "\n  " << error.what() << '\n';
    }
  }
  std::cout << passed << " passed, " << failed << " failed\n";
  return failed == 0 && passed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
