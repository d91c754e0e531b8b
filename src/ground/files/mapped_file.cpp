#include "ground/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "ground/files/brought_files.h"
#include "ground/files/files.h"
#include "ground/files/packed_path.h"

namespace sonde {

Error cannot_read(const std::filesystem::path& path, ErrorCode code, const std::string& why) {
  return Error{code, "cannot read '" + path.string() + "': " + why};
}

namespace {

constexpr std::size_t kAlignment = 64;                // as the data of an .npy file have
std::atomic<std::size_t> most_read_bytes = 64 << 10;  // to read them costs less than to map them

// Total of all copies alive now.
std::atomic<std::uint64_t> copied_bytes{0};

std::uint64_t most_copied_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) / 2 *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

Result<Fd> open_regular(const std::filesystem::path& path, struct stat& status) {
  if (Status brought = bring_file(path); !brought) return cannot_read(path, ErrorCode::io, brought.error().message);
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    return cannot_read(path, errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, std::strerror(errno));
  }
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return cannot_read(path, ErrorCode::io, "not a regular file");
  }
  return fd;
}

// Whether others may write to it or truncate it; root does not count.
bool others_may_change(const struct stat& status) {
  return (status.st_uid != ::geteuid() && status.st_uid != 0) || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

}  // namespace

Result<std::string> read_whole_file(const std::filesystem::path& path, std::uint64_t most_bytes) {
  struct stat status {};
  const Result<Fd> fd = open_regular(path, status);
  if (!fd) return fd.error();
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes > most_bytes) {
    return cannot_read(path, ErrorCode::corrupt,
                       "it has " + std::to_string(bytes) + " bytes; expected at most " + std::to_string(most_bytes));
  }
  std::string text(bytes, '\0');
  const std::size_t got = read_up_to(fd->get(), 0, text.data(), text.size());
  if (got < text.size() && errno != 0) return cannot_read(path, ErrorCode::io, std::strerror(errno));
  text.resize(got);
  return text;
}

void MappedFile::read_up_to_bytes(std::size_t bytes) { most_read_bytes = bytes; }

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  struct stat status {};
  std::optional<PackedPath> packed;
  if (is_brought(path) && (packed = packed_path(path.native()))) {
    const Result<std::filesystem::path> part = bring_part(*packed);
    if (!part) return cannot_read(path, ErrorCode::io, part.error().message);
    if (!part->empty()) return open(*part);
  }
  Result<Fd> fd = open_regular(packed ? std::filesystem::path(packed->pack) : path, status);
  if (!fd && !packed && (packed = packed_path(path.native()))) fd = open_regular(packed->pack, status);
  if (!fd) return fd.error();
  if (status.st_size == 0) return cannot_read(path, ErrorCode::corrupt, "the file is empty");
  MappedFile file;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const std::uint64_t offset = packed ? packed->offset : 0;
  if (packed && (packed->bytes == 0 || offset > size || packed->bytes > size - offset)) {
    return cannot_read(path, ErrorCode::corrupt,
                       "the pack has " + std::to_string(size) + " bytes, and the tensor would be " +
                           std::to_string(packed->bytes) + " from byte " + std::to_string(offset) + " on");
  }
  const auto bytes = static_cast<std::size_t>(packed ? packed->bytes : size);
  file.is_copy_ = bytes <= most_read_bytes || others_may_change(status);
  if (file.is_copy_ && copied_bytes.fetch_add(bytes) + bytes > most_copied_bytes()) {
    copied_bytes.fetch_sub(bytes);
    return cannot_read(
        path, ErrorCode::io,
        "its " + std::to_string(bytes) +
            " bytes do not fit into half of the memory, and others may change it while it is read; make a "
            "copy of it that is yours");
  }
  if (!file.is_copy_) {
    const std::uint64_t before = offset % static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    void* mapping =
        ::mmap(nullptr, before + bytes, PROT_READ, MAP_PRIVATE, fd->get(), static_cast<off_t>(offset - before));
    if (mapping == MAP_FAILED) return cannot_read(path, ErrorCode::io, std::strerror(errno));
    file.mapping_ = mapping;
    file.before_ = before;
    file.bytes_ = bytes;
    return file;
  }
  file.bytes_ = bytes;  // from here on its destructor gives them back
  file.mapping_ = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (file.mapping_ == nullptr) return cannot_read(path, ErrorCode::io, std::strerror(ENOMEM));
  if (!read_at(fd->get(), offset, file.mapping_, bytes)) {
    if (errno != 0) return cannot_read(path, ErrorCode::io, std::strerror(errno));
    return cannot_read(path, ErrorCode::corrupt,
                       "it had " + std::to_string(bytes) + " bytes and became shorter while it was read");
  }
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      before_(std::exchange(other.before_, 0)),
      bytes_(std::exchange(other.bytes_, 0)),
      is_copy_(std::exchange(other.is_copy_, false)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(before_, other.before_);
  std::swap(bytes_, other.bytes_);
  std::swap(is_copy_, other.is_copy_);
  return *this;
}

MappedFile::~MappedFile() {
  if (is_copy_) {
    std::free(mapping_);
    copied_bytes.fetch_sub(bytes_);
  } else if (mapping_ != nullptr) {
    ::munmap(mapping_, before_ + bytes_);
  }
}

}  // namespace sonde
