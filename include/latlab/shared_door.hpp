// Threads: a pure function of the file system; call it from any thread.
//
// The one door to files that other programs write into shared folders: who owns what lies behind a path, and
// whether to touch it. No symbolic link is followed in the last folder or the file, nothing but a regular
// file is opened, and folder and file must belong to one user, whom the caller names, and be writable by
// nobody else.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

namespace latlab {

enum class DoorState : std::uint32_t { open = 0, absent = 1, not_a_file = 2, refused = 3 };

struct Door {
  DoorState state = DoorState::absent;
  int fd = -1;  // to be closed by the caller where the state is open
  std::size_t bytes = 0;
  uid_t owner = 0;
};

// Other users' files are for root alone, and only where its user says so (`--all-users`).
inline bool reads_other_users() noexcept {
  const char* const chosen = ::secure_getenv("LATLAB_ALL_USERS");
  return ::geteuid() == 0 && chosen != nullptr && std::string(chosen) == "1";
}

inline Door open_shared_file(const std::string& path, bool other_users = reads_other_users()) {
  const std::size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  if (folder.empty()) folder = "/";
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (name.empty()) return {};
  const int at = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (at < 0) {
    const bool link = errno == ELOOP || errno == ENOTDIR;
    return {.state = link ? DoorState::refused : DoorState::absent};
  }
  Door door;
  struct stat outside{};
  struct stat inside{};
  const bool known = ::fstat(at, &outside) == 0;
  // NONBLOCK: a pipe in the file's place would wait for its other end
  const int fd = ::openat(at, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  const int why = fd < 0 ? errno : 0;
  ::close(at);
  if (fd < 0) {
    door.state = why == ELOOP ? DoorState::refused : DoorState::absent;
    return door;
  }
  const uid_t us = ::geteuid();
  if (!known || ::fstat(fd, &inside) != 0) {
    door.state = DoorState::absent;
  } else if (!S_ISREG(inside.st_mode)) {
    door.state = DoorState::not_a_file;
  } else if (inside.st_uid != outside.st_uid || (inside.st_uid != us && !other_users) ||
             (outside.st_mode & 022U) != 0 || (inside.st_mode & 022U) != 0 || inside.st_nlink > 1) {
    door.state = DoorState::refused;
  } else {
    door.state = DoorState::open;
    door.fd = fd;
    door.bytes = static_cast<std::size_t>(inside.st_size);
    door.owner = inside.st_uid;
    return door;
  }
  ::close(fd);
  return door;
}

}  // namespace latlab
