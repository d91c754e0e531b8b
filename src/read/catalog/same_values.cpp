#include "read/catalog/same_values.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "ground/files/brought_files.h"
#include "ground/files/packed_path.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// NaN does not prove a difference, and equals nothing.
std::optional<bool> same_statistics(const KnownStatistics& a, const KnownStatistics& b) {
  if (!a.all_finite() || !b.all_finite()) return std::nullopt;
  return a == b;
}

bool same_bytes(const fs::path& a, const fs::path& b) {
  std::ifstream first(a, std::ios::binary), second(b, std::ios::binary);
  std::array<char, 1 << 16> left, right;
  while (first && second) {
    first.read(left.data(), left.size());
    second.read(right.data(), right.size());
    if (first.gcount() != second.gcount()) return false;
    if (!std::equal(left.begin(), left.begin() + first.gcount(), right.begin())) return false;
  }
  return first.eof() && second.eof();
}

}  // namespace

std::optional<bool> SameValues::operator()(const CatalogTensor& a, const CatalogTensor& b) {
  if (a.dtype != DType::undefined && b.dtype != DType::undefined && a.dtype != b.dtype) return false;
  if (a.has_shape && b.has_shape && a.shape != b.shape) return false;
  if (a.content != 0 && a.content == b.content) return true;
  if (!a.md5.empty() && !b.md5.empty()) return a.md5 == b.md5;
  if (!a.sha1.empty() && !b.sha1.empty()) return a.sha1 == b.sha1;
  if (!a.file.empty() && !b.file.empty()) return same_files(a, b);
  if (a.statistics && b.statistics) return same_statistics(*a.statistics, *b.statistics);
  return std::nullopt;
}

std::optional<bool> SameValues::same_files(const CatalogTensor& a, const CatalogTensor& b) {
  if (!a.file.ends_with(".npy") || !b.file.ends_with(".npy")) return std::nullopt;
  const fs::path first = rank_.directory / a.file, second = rank_.directory / b.file;
  struct stat status {
  }, other{};
  if (stat_tensor(first, status) != 0 || stat_tensor(second, other) != 0) return std::nullopt;
  if (status.st_dev == other.st_dev && status.st_ino == other.st_ino) return true;
  if (status.st_size != other.st_size) return false;
  const auto bytes = static_cast<std::uintmax_t>(status.st_size);
  if (bytes > bytes_left_ / 2) return std::nullopt;
  bytes_left_ -= 2 * bytes;
  if (!bring_file(first) || !bring_file(second)) return std::nullopt;
  return same_bytes(first, second);
}

}  // namespace sonde
