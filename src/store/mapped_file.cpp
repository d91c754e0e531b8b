#include "store/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "store/files.h"

namespace sonde {

Error cannot_read(const std::filesystem::path& path, ErrorCode code, const std::string& why) {
  return Error{code, "cannot read '" + path.string() + "': " + why};
}

namespace {

Result<Fd> open_regular(const std::filesystem::path& path, std::uint64_t& bytes) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    return cannot_read(path, errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return cannot_read(path, ErrorCode::io, "not a regular file");
  }
  bytes = static_cast<std::uint64_t>(status.st_size);
  return fd;
}

}  // namespace

Result<std::string> read_whole_file(const std::filesystem::path& path, std::uint64_t most_bytes) {
  std::uint64_t bytes = 0;
  const Result<Fd> fd = open_regular(path, bytes);
  if (!fd) return fd.error();
  if (bytes > most_bytes) {
    return cannot_read(path, ErrorCode::corrupt,
                       "it has " + std::to_string(bytes) + " bytes; expected at most " + std::to_string(most_bytes));
  }
  std::string text(bytes, '\0');
  std::size_t got = 0;
  while (got < text.size()) {
    const ssize_t n = ::read(fd->get(), text.data() + got, text.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cannot_read(path, ErrorCode::io, std::strerror(errno));
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  text.resize(got);
  return text;
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  std::uint64_t size = 0;
  const Result<Fd> fd = open_regular(path, size);
  if (!fd) return fd.error();
  if (size == 0) return cannot_read(path, ErrorCode::corrupt, "the file is empty");
  MappedFile file;
  const auto bytes = static_cast<std::size_t>(size);
  void* mapping = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd->get(), 0);
  if (mapping == MAP_FAILED) return cannot_read(path, ErrorCode::io, std::strerror(errno));
  file.mapping_ = mapping;
  file.bytes_ = bytes;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (mapping_ != nullptr) ::munmap(mapping_, bytes_);
}

}  // namespace sonde
