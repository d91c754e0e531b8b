#include "read/index/sealed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "ground/base/parallel.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSqliteMagic = "SQLite format 3";
constexpr std::size_t kPageSizeAt = 16;    // two bytes, big-endian
constexpr std::size_t kPagesOfAPart = 64;  // that one thread checks before it takes more
constexpr std::array<char, 16> kSealMagic = {'S', 'o', 'n', 'd', 'e', ' ', 'p', 'a',
                                             'g', 'e', ' ', 's', 'e', 'a', 'l', 's'};

struct Footer {
  std::array<char, 16> magic = kSealMagic;
  std::uint64_t page_bytes = 0, pages = 0;
  std::uint64_t checksum = 0;  // of the checksums of all pages, and of the members above
};

Error no_index(const fs::path& file, const std::string& why) {
  return Error{ErrorCode::corrupt, "'" + file.string() + "' is not a complete index: " + why};
}

std::uint64_t checksum_of(const std::vector<std::uint64_t>& pages, const Footer& footer) {
  const std::uint64_t of_pages = XXH3_64bits(pages.data(), pages.size() * sizeof(pages[0]));
  return XXH3_64bits_withSeed(&footer, offsetof(Footer, checksum), of_pages);
}

struct Opened {
  Fd fd;
  std::uint64_t bytes = 0;
};

Result<Opened> open_database(const fs::path& file, int flags) {
  Opened opened;
  opened.fd = Fd(::open(file.c_str(), flags | O_CLOEXEC | O_NONBLOCK));
  if (!opened.fd) {
    Error error = io_error("open", file, errno);
    if (errno == ENOENT) error.code = ErrorCode::not_found;
    return error;
  }
  struct stat status {};
  if (::fstat(opened.fd.get(), &status) != 0) return io_error("look at", file, errno);
  if (!S_ISREG(status.st_mode)) return no_index(file, "it is not a file");
  opened.bytes = static_cast<std::uint64_t>(status.st_size);
  std::array<char, kSqliteMagic.size()> magic{};
  if (!read_at(opened.fd.get(), 0, magic.data(), magic.size()) || !std::ranges::equal(magic, kSqliteMagic)) {
    return no_index(file, "it is not a database of SQLite");
  }
  return opened;
}

// Calls `work` with the number and the content of each page, on all cores, until it returns false.
template <typename Work>
bool for_pages(std::size_t pages, const Work& work) {
  std::atomic<bool> failed = false;
  Threads().for_each((pages + kPagesOfAPart - 1) / kPagesOfAPart, [&](std::size_t part) {
    const std::size_t end = std::min(pages, (part + 1) * kPagesOfAPart);
    for (std::size_t page = part * kPagesOfAPart; page < end && !failed; ++page) {
      if (!work(page)) failed = true;
    }
  });
  return !failed;
}

}  // namespace

Status seal_index(const fs::path& file) {
  const Result<Opened> opened = open_database(file, O_RDWR);
  if (!opened) return opened.error();
  const int fd = opened->fd.get();
  std::array<unsigned char, 2> size{};
  if (!read_at(fd, kPageSizeAt, size.data(), size.size())) return io_error("read", file, errno);
  Footer footer;
  footer.page_bytes = size[0] * 256U + size[1];
  if (footer.page_bytes < 512 || opened->bytes % footer.page_bytes != 0) return no_index(file, "it has half a page");
  footer.pages = opened->bytes / footer.page_bytes;
  std::vector<std::uint64_t> checksums(footer.pages);
  const bool read = for_pages(checksums.size(), [&](std::size_t page) {
    thread_local std::vector<char> buffer;
    buffer.resize(footer.page_bytes);
    if (!read_at(fd, page * footer.page_bytes, buffer.data(), buffer.size())) return false;
    checksums[page] = XXH3_64bits(buffer.data(), buffer.size());
    return true;
  });
  if (!read) return io_error("read", file, errno);
  footer.checksum = checksum_of(checksums, footer);
  std::string seal(checksums.size() * sizeof(checksums[0]) + sizeof footer, '\0');
  std::memcpy(seal.data(), checksums.data(), seal.size() - sizeof footer);
  std::memcpy(seal.data() + seal.size() - sizeof footer, &footer, sizeof footer);
  const int error_number = write_at(fd, opened->bytes, seal.data(), seal.size());
  return error_number == 0 ? Status() : io_error("seal", file, error_number);
}

Status check_seal(const fs::path& file) {
  const Result<SealedFile> sealed = SealedFile::open(file);
  if (!sealed) return sealed.error();
  const bool whole = for_pages(sealed->pages(), [&](std::size_t page) {
    thread_local std::vector<char> buffer;
    buffer.resize(sealed->page_bytes());
    return sealed->read_page(page, buffer.data());
  });
  return whole ? Status() : no_index(file, "checksum mismatch: the file was changed or damaged");
}

Result<SealedFile> SealedFile::open(const fs::path& file) {
  Result<Opened> opened = open_database(file, O_RDONLY);
  if (!opened) return opened.error();
  Footer footer;
  const int fd = opened->fd.get();
  const bool has_footer =
      opened->bytes > sizeof footer && read_at(fd, opened->bytes - sizeof footer, &footer, sizeof footer);
  if (!has_footer || footer.magic != kSealMagic) return no_index(file, "it has no seal");
  const std::uint64_t pages = footer.pages, page_bytes = footer.page_bytes;
  const bool fits = page_bytes >= 512 && page_bytes <= 65536 && pages < opened->bytes / page_bytes + 1 &&
                    pages * (page_bytes + sizeof(std::uint64_t)) + sizeof footer == opened->bytes;
  if (!fits) return no_index(file, "its size is not that of its seal");
  SealedFile sealed;
  sealed.page_bytes_ = page_bytes;
  sealed.checksums_.resize(pages);
  if (!read_at(fd, pages * page_bytes, sealed.checksums_.data(), pages * sizeof(std::uint64_t))) {
    return io_error("read", file, errno);
  }
  if (checksum_of(sealed.checksums_, footer) != footer.checksum) {
    return no_index(file, "checksum mismatch: its seal was changed or damaged");
  }
  sealed.fd_ = std::move(opened->fd);
  return sealed;
}

bool SealedFile::read_page(std::size_t page, char* out) const {
  return page < checksums_.size() && read_at(fd_.get(), page * page_bytes_, out, page_bytes_) &&
         XXH3_64bits(out, page_bytes_) == checksums_[page];
}

}  // namespace sonde
