#include "index/index_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "files/files.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = 1 << 20;         // hashed separately; then the pieces' hashes are hashed
constexpr std::size_t kSealWithin = 256 << 10;  // bytes from the beginning
constexpr std::size_t kDigits = 16;
constexpr std::string_view kMark = kUnsealed.substr(0, kUnsealed.size() - kDigits);
constexpr std::string_view kSqliteMagic = "SQLite format 3";

Error no_index(const fs::path& file, const std::string& why) {
  return Error{ErrorCode::corrupt, "'" + file.string() + "' is not a complete index: " + why};
}

bool read_at(int descriptor, std::uint64_t offset, char* out, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor, out, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

struct Open {
  Fd fd;
  std::uint64_t bytes = 0;
  std::size_t seal = 0;  // offset of its digits
  std::string digits;
};

Result<Open> open_index(const fs::path& file, int flags) {
  Open open;
  open.fd = Fd(::open(file.c_str(), flags | O_CLOEXEC | O_NONBLOCK));
  if (!open.fd) {
    Error error = io_error("open", file, errno);
    if (errno == ENOENT) error.code = ErrorCode::not_found;
    return error;
  }
  struct stat status {};
  if (::fstat(open.fd.get(), &status) != 0) return io_error("look at", file, errno);
  if (!S_ISREG(status.st_mode)) return no_index(file, "it is not a file");
  open.bytes = static_cast<std::uint64_t>(status.st_size);
  std::string head(std::min<std::uint64_t>(open.bytes, kSealWithin), '\0');
  if (!read_at(open.fd.get(), 0, head.data(), head.size())) return io_error("read", file, errno);
  if (!head.starts_with(kSqliteMagic)) return no_index(file, "it is not a database of SQLite");
  const std::size_t mark = head.find(kMark);
  if (mark == std::string::npos || mark + kUnsealed.size() > head.size()) return no_index(file, "it has no seal");
  open.seal = mark + kMark.size();
  open.digits = head.substr(open.seal, kDigits);
  return open;
}

// The hash of the file before it was sealed; empty if the file cannot be read.
std::optional<std::uint64_t> hash_of(const Open& open) {
  static_assert(kPiece >= kSealWithin);  // the seal lies in the first piece
  std::vector<std::uint64_t> pieces((open.bytes + kPiece - 1) / kPiece);
  std::atomic<bool> failed = false;
  Threads().for_each(pieces.size(), [&](std::size_t i) {
    thread_local const std::unique_ptr<char[]> buffer(new char[kPiece]);
    const std::size_t bytes = std::min<std::uint64_t>(kPiece, open.bytes - i * kPiece);
    if (failed || !read_at(open.fd.get(), i * kPiece, buffer.get(), bytes)) {
      failed = true;
      return;
    }
    if (i == 0) std::fill_n(buffer.get() + open.seal, kDigits, '0');
    pieces[i] = XXH3_64bits(buffer.get(), bytes);
  });
  if (failed) return std::nullopt;
  return XXH3_64bits(pieces.data(), pieces.size() * sizeof(pieces[0]));
}

}  // namespace

fs::path index_directory() {
  const auto absolute = [](const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr && value[0] == '/' ? fs::path(value) : fs::path();
  };
  if (const fs::path cache = absolute("XDG_CACHE_HOME"); !cache.empty()) return cache / "sonde" / "index";
  const fs::path home = absolute("HOME");
  return home.empty() ? fs::path() : home / ".cache" / "sonde" / "index";
}

fs::path index_file_of(const fs::path& real_dump) {
  const fs::path directory = index_directory();
  if (directory.empty()) return {};
  // Part of the dump's name, for people; the hash identifies the dump.
  std::string name = real_dump.filename().string().substr(0, 40);
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < 0x21 || c > 0x7e; }, '_');
  const std::string& path = real_dump.native();
  return directory / fmt::format("{}-{:016x}.sqlite", name, XXH3_64bits(path.data(), path.size()));
}

Status seal_index(const fs::path& file) {
  const Result<Open> open = open_index(file, O_RDWR);
  if (!open) return open.error();
  const std::optional<std::uint64_t> hash = hash_of(*open);
  const std::string digits = fmt::format("{:016x}", hash.value_or(0));
  if (!hash || ::pwrite(open->fd.get(), digits.data(), kDigits, static_cast<off_t>(open->seal)) != kDigits) {
    return io_error("seal", file, errno);
  }
  return {};
}

Status check_seal(const fs::path& file) {
  const Result<Open> open = open_index(file, O_RDONLY);
  if (!open) return open.error();
  const std::optional<std::uint64_t> hash = hash_of(*open);
  if (!hash) return io_error("read", file, errno);
  if (fmt::format("{:016x}", *hash) != open->digits) {
    return no_index(file, "checksum mismatch: the file was changed or damaged");
  }
  return {};
}

}  // namespace sonde
