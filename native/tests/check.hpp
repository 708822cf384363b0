// Threads: tests are registered before main and run one after another on the main thread.
//
// The smallest test framework that does: a test is a sentence, and a check shows both of its sides.
#pragma once

#include <cstdlib>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace check {

struct Test {
  std::string sentence;
  std::function<void()> body;
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registrar {
  Registrar(const char* sentence, std::function<void()> body) {
    tests().push_back({sentence, std::move(body)});
  }
};

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A value, and how it is written.
struct Shown {
  const void* value;
  void (*write)(std::ostream& out, const void* value);
};

template <class T>
Shown shown(const T& value) {
  return {static_cast<const void*>(&value), [](std::ostream& out, const void* of) {
            const T& is = *static_cast<const T*>(of);
            if constexpr (std::is_same_v<T, unsigned char>) {
              out << static_cast<unsigned>(is);  // a number, and no letter
            } else {
              out << is;
            }
          }};
}

// They don't return, which clang's analyser sees without following them (native/tests/.clang-tidy).
[[noreturn]] void differ(Shown expected, Shown actual, const char* text, const char* file, int line);
[[noreturn]] void untrue(const char* text, const char* file, int line);

template <class A, class B>
void equal(const A& expected, const B& actual, const char* text, const char* file, int line) {
  if (!(expected == actual)) differ(shown(expected), shown(actual), text, file, line);
}

inline void truth(bool value, const char* text, const char* file, int line) {
  if (!value) untrue(text, file, line);
}

}  // namespace check

#define LATLAB_JOIN2(a, b) a##b
#define LATLAB_JOIN(a, b) LATLAB_JOIN2(a, b)
// TEST("a sentence that states one fact") { ... }
// Not by the line: the files of a domain are compiled as one.
#define TEST(sentence) LATLAB_TEST(sentence, __COUNTER__)
#define LATLAB_TEST(sentence, n)                                                             \
  static void LATLAB_JOIN(test_, n)();                                                       \
  static const check::Registrar LATLAB_JOIN(registrar_, n){sentence, LATLAB_JOIN(test_, n)}; \
  static void LATLAB_JOIN(test_, n)()
#define CHECK_EQUAL(expected, actual) check::equal(expected, actual, #actual, __FILE__, __LINE__)
#define CHECK(condition) check::truth(static_cast<bool>(condition), #condition, __FILE__, __LINE__)
