#include "dump/formats/pack.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "dump/formats/little_endian.h"
#include "ground/files/brought_files.h"
#include "ground/files/files.h"
#include "ground/files/mapped_file.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// Head: magic (8), version (4), checksum (4), bytes of the section (8), bytes of the paths (4), zero (4), paths. The
// checksum is the CRC-32 of all that follows it.
constexpr std::string_view kPackMagic = "\x89SONDEP\n";
constexpr std::uint32_t kPackVersion = 1;
constexpr std::size_t kPackChecked = 16;  // from here on

std::uint32_t checksum_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

template <typename Number>
void put(std::string& out, Number value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i));
}

bool leads_outside(std::string_view path) {
  const fs::path parts(path);
  return parts.is_absolute() || std::ranges::find(parts, "..") != parts.end();
}

// Empty if the path may be used.
std::string wrong_path(std::string_view path, std::string_view pack, std::uint64_t file_bytes) {
  const std::optional<PackedPath> packed = packed_path(path);
  if (!packed || leads_outside(path) || !is_pack_name(fs::path(packed->pack).filename().native())) {
    return "it lists a path that is not that of a tensor in a pack";
  }
  if (packed->pack != pack) return {};
  const bool inside = packed->offset <= file_bytes && packed->bytes <= file_bytes - packed->offset;
  return inside ? std::string() : fmt::format("it lists {} bytes from byte {} on", packed->bytes, packed->offset);
}

// One head. Returns the bytes of its section, 0 if it is damaged: then `contents` has the reason.
std::uint64_t read_head(std::string_view head, std::uint64_t at, std::uint64_t file_bytes, std::string_view name,
                        PackContents& contents) {
  const auto damaged = [&](const std::string& why) {
    contents.problem = fmt::format("the section at byte {} of {}: {}", at, file_bytes, why);
    return std::uint64_t{0};
  };
  if (!head.starts_with(kPackMagic)) return damaged("its first bytes are not those of a section");
  const auto version = little<std::uint32_t>(head, 8);
  if (version != kPackVersion)
    return damaged(fmt::format("version {}; this Sonde reads version {}", version, kPackVersion));
  const auto section = little<std::uint64_t>(head, 16);
  const auto paths_bytes = little<std::uint32_t>(head, 24);
  if (paths_bytes > head.size() - kPackFieldBytes) return damaged("its list of paths is longer than its head");
  if (little<std::uint32_t>(head, 12) !=
      checksum_of(head.substr(kPackChecked, kPackFieldBytes - kPackChecked + paths_bytes))) {
    return damaged("its checksum does not match");
  }
  if (section < kPackHeadBytes || section % kPackUnit != 0 || section > kMostPackSection) {
    return damaged(fmt::format("it would have {} bytes", section));
  }
  std::string_view paths = head.substr(kPackFieldBytes, paths_bytes);
  contents.is_tail = section > file_bytes - at;
  while (!paths.empty()) {
    const std::size_t end = paths.find('\0');
    if (end == std::string_view::npos) return damaged("its last path breaks off");
    const std::string_view path = paths.substr(0, end);
    paths.remove_prefix(end + 1);
    const std::string wrong = wrong_path(path, name, file_bytes);
    if (wrong.empty()) {
      contents.paths.emplace_back(path);
    } else if (!contents.is_tail) {
      return damaged(wrong);
    }
  }
  if (contents.is_tail) damaged(fmt::format("{} of its {} bytes are there", file_bytes - at, section));
  return contents.is_tail ? 0 : section;
}

}  // namespace

std::string pack_head(std::uint64_t section_bytes, std::string_view paths) {
  std::string checked;
  put(checked, section_bytes);
  put(checked, static_cast<std::uint32_t>(paths.size()));
  put(checked, std::uint32_t{0});
  checked += paths;
  std::string head(kPackMagic);
  put(head, kPackVersion);
  put(head, checksum_of(checked));
  return head + checked;
}

Result<PackContents> read_pack(const fs::path& file, std::string_view name) {
  if (Status brought = bring_file(file); !brought) return cannot_read(file, ErrorCode::io, brought.error().message);
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return cannot_read(file, errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return cannot_read(file, ErrorCode::io, "not a regular file");
  }
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  PackContents contents;
  std::array<char, kPackHeadBytes> head;
  for (std::uint64_t at = 0; at < bytes;) {
    if (bytes - at < head.size() || !read_at(fd.get(), at, head.data(), head.size())) {
      contents.is_tail = true;
      contents.problem = fmt::format("the head at byte {} breaks off at byte {}", at, bytes);
      break;
    }
    const std::uint64_t section = read_head({head.data(), head.size()}, at, bytes, name, contents);
    if (section == 0) break;
    at += section;
  }
  if (contents.paths.empty() && !contents.is_tail && !contents.problem.empty()) {
    return cannot_read(file, ErrorCode::corrupt, contents.problem);
  }
  return contents;
}

}  // namespace sonde
