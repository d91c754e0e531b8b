#include "dump/formats/zip_reader.h"

#include <algorithm>
#include <string>

#include "dump/formats/limits.h"
#include "dump/formats/little_endian.h"

namespace sonde {
namespace {

constexpr std::string_view kLocal("PK\3\4", 4), kCentral("PK\1\2", 4), kEnd("PK\5\6", 4);
constexpr std::string_view kEnd64("PK\6\6", 4), kLocator64("PK\6\7", 4);
constexpr std::size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56;
constexpr std::size_t kLongestComment = 65535;
constexpr std::uint64_t kIn64 = 0xFFFFFFFF;  // the number is in the Zip64 field

std::string at_byte(std::uint64_t offset) { return " at byte " + std::to_string(offset); }

struct Directory {
  std::uint64_t offset = 0, bytes = 0, entries = 0;
};

// Takes the place of the directory from the Zip64 record, if there is one.
Status read_end64(std::string_view archive, std::size_t end, Directory& directory) {
  if (end < kLocatorBytes || archive.substr(end - kLocatorBytes, 4) != kLocator64) {
    return corrupt("the zip's Zip64 record is missing before byte " + std::to_string(end));
  }
  const auto at = little<std::uint64_t>(archive, end - kLocatorBytes + 8);
  if (at > archive.size() || archive.size() - at < kEnd64Bytes || archive.substr(at, 4) != kEnd64) {
    return corrupt("no Zip64 record" + at_byte(at));
  }
  directory = {little<std::uint64_t>(archive, at + 48), little<std::uint64_t>(archive, at + 40),
               little<std::uint64_t>(archive, at + 32)};
  return {};
}

Result<Directory> find_directory(std::string_view archive) {
  if (archive.size() < kEndBytes) return corrupt("the zip is cut off: it has no end record");
  const std::size_t window = std::min(archive.size(), kEndBytes + kLongestComment);
  const std::size_t found = archive.substr(archive.size() - window).rfind(kEnd);
  const std::size_t end = archive.size() - window + found;
  if (found == std::string_view::npos || archive.size() - end < kEndBytes) {
    return corrupt("the zip is cut off: no end record in its last " + std::to_string(window) + " bytes");
  }
  Directory directory{little<std::uint32_t>(archive, end + 16), little<std::uint32_t>(archive, end + 12),
                      little<std::uint16_t>(archive, end + 10)};
  if (directory.offset == kIn64 || directory.bytes == kIn64 || directory.entries == 0xFFFF) {
    if (Status status = read_end64(archive, end, directory); !status) return status.error();
  }
  if (directory.offset > end || directory.bytes > end - directory.offset) {
    return corrupt("the zip's directory is said to be " + std::to_string(directory.bytes) + " bytes" +
                   at_byte(directory.offset) + "; the file has " + std::to_string(archive.size()));
  }
  return directory;
}

// Sizes that do not fit 32 bits are in an extra field, in this order; only those whose own field holds kIn64 are
// present.
bool read_extra64(std::string_view extra, std::uint64_t& bytes, std::uint64_t& stored, std::uint64_t& header) {
  while (extra.size() >= 4) {
    const auto id = little<std::uint16_t>(extra, 0);
    const auto size = little<std::uint16_t>(extra, 2);
    if (size > extra.size() - 4) return false;
    std::string_view field = extra.substr(4, size);
    extra.remove_prefix(4 + std::size_t{size});
    if (id != 1) continue;
    for (std::uint64_t* number : {&bytes, &stored, &header}) {
      if (*number != kIn64) continue;
      if (field.size() < 8) return false;
      *number = little<std::uint64_t>(field, 0);
      field.remove_prefix(8);
    }
    return true;
  }
  return bytes != kIn64 && stored != kIn64 && header != kIn64;
}

}  // namespace

bool is_zip(std::string_view start) { return start.starts_with(kLocal); }

Result<std::vector<ZipEntry>> read_zip(std::string_view archive) {
  const Result<Directory> directory = find_directory(archive);
  if (!directory) return directory.error();
  std::string_view rest = archive.substr(directory->offset, directory->bytes);
  std::vector<ZipEntry> entries;
  for (std::uint64_t i = 0; i < directory->entries; ++i) {
    const std::uint64_t at = static_cast<std::uint64_t>(rest.data() - archive.data());
    if (rest.size() < kCentralBytes || !rest.starts_with(kCentral)) {
      return corrupt("no entry of the zip's directory" + at_byte(at) + "; it should have " +
                     std::to_string(directory->entries) + ", and this is number " + std::to_string(i));
    }
    ZipEntry entry;
    const std::size_t name = little<std::uint16_t>(rest, 28), extra = little<std::uint16_t>(rest, 30);
    const std::size_t whole = kCentralBytes + name + extra + little<std::uint16_t>(rest, 32);
    if (whole > rest.size()) return corrupt("the zip's directory is cut off" + at_byte(at));
    std::uint64_t stored = little<std::uint32_t>(rest, 20);
    entry.bytes = little<std::uint32_t>(rest, 24);
    entry.header = little<std::uint32_t>(rest, 42);
    entry.name = rest.substr(kCentralBytes, name);
    const bool encrypted = (little<std::uint16_t>(rest, 8) & 1) != 0;
    if (!read_extra64(rest.substr(kCentralBytes + name, extra), entry.bytes, stored, entry.header)) {
      return corrupt("sizes of more than 32 bits are missing in the zip's entry" + at_byte(at));
    }
    entry.is_stored = !encrypted && little<std::uint16_t>(rest, 10) == 0 && stored == entry.bytes;
    entries.push_back(entry);
    rest.remove_prefix(whole);
  }
  return entries;
}

Result<std::string_view> bytes_of(std::string_view archive, const ZipEntry& entry) {
  const std::string what = "the zip's entry '" + std::string(entry.name.substr(0, 200)) + "'";
  if (!entry.is_stored) {
    return Error{ErrorCode::unsupported, what + " is compressed or encrypted; PyTorch does neither"};
  }
  if (entry.header > archive.size() || archive.size() - entry.header < kLocalBytes ||
      archive.substr(entry.header, 4) != kLocal) {
    return corrupt(what + " has no header" + at_byte(entry.header));
  }
  const std::string_view local = archive.substr(entry.header);
  const std::size_t begin =
      kLocalBytes + little<std::uint16_t>(local, 26) + std::size_t{little<std::uint16_t>(local, 28)};
  if (begin > local.size() || entry.bytes > local.size() - begin) {
    return corrupt(what + " is said to have " + std::to_string(entry.bytes) + " bytes" + at_byte(entry.header + begin) +
                   "; the file has " + std::to_string(archive.size()));
  }
  return local.substr(begin, entry.bytes);
}

}  // namespace sonde
