#include "store/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "store/files.h"

namespace sonde {

Error cannot_read(const std::filesystem::path& path, ErrorCode code, const std::string& why) {
  return Error{code, "cannot read '" + path.string() + "': " + why};
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    return cannot_read(path, errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return cannot_read(path, ErrorCode::io, "not a regular file");
  }
  if (status.st_size == 0) return cannot_read(path, ErrorCode::corrupt, "the file is empty");
  MappedFile file;
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* mapping = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
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
