#include "ground/files/packed_path.h"

#include <cerrno>
#include <functional>
#include <string>

#include "ground/base/parse_number.h"
#include "ground/files/brought_files.h"

namespace sonde {
namespace {

// "4096-128"
bool parse_place(std::string_view part, PackedPath& out) {
  const std::size_t dash = part.find('-');
  return dash != std::string_view::npos && parse_number(part.substr(0, dash), out.offset) &&
         parse_number(part.substr(dash + 1), out.bytes);
}

}  // namespace

bool is_pack_name(std::string_view name) { return name.starts_with("tensors.") && name.ends_with(kPackExtension); }

std::string packed_prefix(std::string_view pack, std::uint64_t offset, std::uint64_t bytes) {
  std::string path(pack);
  return path.append("/").append(std::to_string(offset)).append("-").append(std::to_string(bytes)).append("/");
}

std::optional<PackedPath> packed_path(std::string_view path) {
  constexpr std::string_view kEnd = ".pack/";
  for (std::size_t at = path.find(kEnd); at != std::string_view::npos; at = path.find(kEnd, at + 1)) {
    const std::size_t place = at + kEnd.size(), slash = path.find('/', place);
    if (slash == std::string_view::npos || slash + 1 == path.size()) return std::nullopt;
    PackedPath out;
    if (!parse_place(path.substr(place, slash - place), out)) continue;
    out.pack = path.substr(0, place - 1);
    out.own = path.substr(slash + 1);
    return out;
  }
  return std::nullopt;
}

namespace {

int stat_on_disk(const std::filesystem::path& path, struct stat& status) {
  if (::stat(path.c_str(), &status) == 0) return 0;
  if (errno == ENOENT && is_brought(path)) {
    const std::optional<PackedPath> packed = packed_path(path.native());
    const std::filesystem::path file = packed ? std::filesystem::path(packed->pack) : path;
    if (!bring_names(file.parent_path())) return EIO;
    if (::stat(path.c_str(), &status) == 0) return 0;
  }
  const int error_number = errno;
  const std::optional<PackedPath> packed = error_number == ENOTDIR ? packed_path(path.native()) : std::nullopt;
  if (!packed) return error_number;
  if (::stat(std::string(packed->pack).c_str(), &status) != 0) return errno;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (packed->offset > size || packed->bytes > size - packed->offset) return ENOENT;
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
  status.st_ino ^= (packed->offset + 1) * kOdd;
  status.st_size = static_cast<off_t>(packed->bytes);
  status.st_nlink = 2;
  return 0;
}

}  // namespace

int stat_tensor(const std::filesystem::path& path, struct stat& status) {
  const int error_number = stat_on_disk(path, status);
  if (error_number != 0 || !is_brought(path)) return error_number;
  // A file that comes takes the place of its placeholder, whose number may then be another file's.
  status.st_ino = static_cast<ino_t>(std::hash<std::string>()(path.native()));
  status.st_nlink = 1;
  return 0;
}

std::filesystem::path file_of_tensor(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 || errno != ENOTDIR) return path;
  const std::optional<PackedPath> packed = packed_path(path.native());
  return packed ? std::filesystem::path(packed->pack) : path;
}

}  // namespace sonde
