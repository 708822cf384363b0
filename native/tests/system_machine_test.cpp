#include "system/machine.hpp"

#include "check.hpp"

TEST("the compiler names itself with a version") {
  const std::string name = latlab::system::compiler();
  CHECK(name.starts_with("gcc ") || name.starts_with("clang "));
  CHECK(name.find_first_of("0123456789") != std::string::npos);
}

TEST("a hypervisor's name is at most twelve letters") {
  CHECK(latlab::system::hypervisor().size() <= 12);
}
