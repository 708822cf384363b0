#include "system/observed_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "check.hpp"

using namespace latlab::system;

namespace {

// A folder of this test, gone at its end.
class Folder {
 public:
  Folder() {
    const char* made = mkdtemp(template_.data());
    if (made == nullptr) std::abort();
    path_ = made;
  }
  ~Folder() {
    for (const char* name : {"file", "pipe", "link"}) unlink((path_ + "/" + name).c_str());
    rmdir(path_.c_str());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::array<char, 32> template_{"/tmp/latlab-observed-XXXXXX"};
  std::string path_;
};

std::string contents(int file) {
  std::string all(1 << 16, '\0');
  const ssize_t got = pread(file, all.data(), all.size(), 0);
  all.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return all;
}

int written(const std::string& path, const std::string& data) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  CHECK(write(file, data.data(), data.size()) == static_cast<ssize_t>(data.size()));
  return file;
}

// An ELF file with one packed section that claims so many bytes.
std::string packed(std::uint64_t claims) {
  Elf64_Ehdr header{};
  header.e_shoff = sizeof(header);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 1;
  Elf64_Shdr section{};
  section.sh_type = SHT_PROGBITS;
  section.sh_flags = SHF_COMPRESSED;
  section.sh_offset = sizeof(header) + sizeof(section);
  Elf64_Chdr form{};
  form.ch_type = ELFCOMPRESS_ZLIB;
  form.ch_size = claims;
  std::string all(sizeof(header) + sizeof(section) + sizeof(form), '\0');
  std::memcpy(all.data(), &header, sizeof(header));
  std::memcpy(all.data() + sizeof(header), &section, sizeof(section));
  std::memcpy(all.data() + section.sh_offset, &form, sizeof(form));
  return all;
}

std::uint32_t type_in_copy(const std::string& data) {
  const Folder folder;
  const int file = written(folder / "file", data);
  const int copy = observed_copy(file);
  Elf64_Shdr section{};
  CHECK(pread(copy, &section, sizeof(section), sizeof(Elf64_Ehdr)) == sizeof(section));
  close(copy);
  close(file);
  return section.sh_type;
}

}  // namespace

TEST("a pipe or a device in a program's place is not opened, and a link to a file is followed") {
  const Folder folder;
  CHECK(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(open_observed(folder / "pipe") == -1);
  CHECK(open_observed("/dev/null") == -1);
  CHECK(open_observed(folder / "gone") == -1);
  close(written(folder / "file", "code"));
  CHECK(symlink((folder / "file").c_str(), (folder / "link").c_str()) == 0);
  const int file = open_observed(folder / "link");
  CHECK(contents(file) == "code");
  CHECK(is_trusted(file));
  close(file);
}

TEST("a copy of a stranger's program is whole when the file becomes shorter, and leads nowhere else") {
  const Folder folder;
  const int file = written(folder / "file", "code .gnu_debuglink .gnu_debugaltlink .gnu_debugdata .text");
  const int copy = observed_copy(file);
  CHECK(ftruncate(file, 0) == 0);
  CHECK(contents(copy) == "code .xnu_debuglink .xnu_debugaltlink .xnu_debugdata .text");
  close(copy);
  close(file);
}

TEST("a copy has no sections that unpack to more than a gigabyte") {
  CHECK(type_in_copy(packed(1000)) == SHT_PROGBITS);
  CHECK(type_in_copy(packed(std::uint64_t{1} << 40)) == SHT_NULL);
  CHECK(type_in_copy(packed(~std::uint64_t{0})) == SHT_NULL);
}

TEST("a file larger than programs are is not copied") {
  const Folder folder;
  const int file = written(folder / "file", "");
  CHECK(ftruncate(file, off_t{1} << 40) == 0);
  CHECK(observed_copy(file) == -1);
  close(file);
}
