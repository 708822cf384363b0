#include "system/observed_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace latlab::system {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 28;
constexpr std::uint64_t kMostUnpackedBytes = std::uint64_t{1} << 30;

// What libdw opens or unpacks by itself: descriptions elsewhere (dwz(1), objcopy(1)), packed symbols.
constexpr std::array<std::string_view, 3> kElsewhere = {".gnu_debuglink", ".gnu_debugaltlink",
                                                        ".gnu_debugdata"};

bool fits(const std::vector<char>& data, std::uint64_t at, std::uint64_t bytes) {
  return at <= data.size() && bytes <= data.size() - at;
}

template <class T>
T read_at(const std::vector<char>& data, std::uint64_t at) {
  T value{};
  std::memcpy(&value, data.data() + at, sizeof(value));
  return value;
}

void close_section(std::vector<char>& data, std::uint64_t at) {
  const std::uint32_t nothing = SHT_NULL;
  std::memcpy(data.data() + at + offsetof(Elf64_Shdr, sh_type), &nothing, sizeof(nothing));
}

void close_what_leads_out(std::vector<char>& data) {
  // By their names wherever they stand: which table of names is read is up to the file.
  for (const std::string_view name : kElsewhere)
    for (auto at = data.begin(); (at = std::search(at, data.end(), name.begin(), name.end())) != data.end();
         ++at)
      at[1] = 'x';
  if (!fits(data, 0, sizeof(Elf64_Ehdr))) return;
  const auto header = read_at<Elf64_Ehdr>(data, 0);
  if (header.e_shentsize != sizeof(Elf64_Shdr)) return;
  std::uint64_t sections = header.e_shnum;
  if (sections == 0 && fits(data, header.e_shoff, sizeof(Elf64_Shdr)))
    sections = read_at<Elf64_Shdr>(data, header.e_shoff).sh_size;  // more than 65,000: elf(5)
  std::uint64_t unpacked = 0;
  for (std::uint64_t i = 0; i < sections && i < data.size() / sizeof(Elf64_Shdr); ++i) {
    const std::uint64_t at = header.e_shoff + (i * sizeof(Elf64_Shdr));
    if (!fits(data, at, sizeof(Elf64_Shdr))) return;
    const auto section = read_at<Elf64_Shdr>(data, at);
    if ((section.sh_flags & SHF_COMPRESSED) == 0) continue;
    const std::uint64_t size = fits(data, section.sh_offset, sizeof(Elf64_Chdr))
                                   ? read_at<Elf64_Chdr>(data, section.sh_offset).ch_size
                                   : kMostUnpackedBytes;
    if (size > kMostUnpackedBytes - unpacked) {
      close_section(data, at);
    } else {
      unpacked += size;
    }
  }
}

}  // namespace

int open_observed(const std::string& path) {
  // A path alone opens nothing yet: a device is not asked, a pipe not waited for.
  const int place = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (place < 0) return -1;
  struct stat found{};
  int file = -1;
  if (fstat(place, &found) == 0 && S_ISREG(found.st_mode))
    file = open(("/proc/self/fd/" + std::to_string(place)).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  close(place);
  return file;
}

bool is_trusted(int file) {
  struct stat found{};
  return fstat(file, &found) == 0 && (found.st_uid == geteuid() || found.st_uid == 0);
}

bool is_trusted(const std::string& path) {
  struct stat found{};
  return stat(path.c_str(), &found) == 0 && (found.st_uid == geteuid() || found.st_uid == 0);
}

int observed_copy(int file) {
  struct stat found{};
  if (fstat(file, &found) != 0 || static_cast<std::uint64_t>(found.st_size) > kMostBytes) return -1;
  std::vector<char> data(static_cast<std::size_t>(found.st_size));
  std::size_t done = 0;
  while (done < data.size()) {
    const ssize_t part = pread(file, data.data() + done, data.size() - done, static_cast<off_t>(done));
    if (part <= 0) break;
    done += static_cast<std::size_t>(part);
  }
  data.resize(done);  // it may have become shorter meanwhile
  close_what_leads_out(data);
  const int copy = memfd_create("observed", MFD_CLOEXEC);
  if (copy < 0) return -1;
  for (std::size_t written = 0; written < data.size();) {
    const ssize_t part = write(copy, data.data() + written, data.size() - written);
    if (part <= 0) {
      close(copy);
      return -1;
    }
    written += static_cast<std::size_t>(part);
  }
  return copy;
}

}  // namespace latlab::system
