#include "read/catalog/rank_part_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "dump/layout/side_names.h"
#include "ground/files/files.h"
#include "ground/files/mapped_file.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// The directory of the rank, in letters that every file system takes.
std::string part_name(const std::string& directory) {
  std::string name;
  for (const char c : directory) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = std::isalnum(byte) != 0 || c == '_' || c == '-' || c == '.';
    name += is_plain ? std::string(1, c) : fmt::format("%{:02x}", byte);
  }
  return name + ".part";
}

// Under its name once it is complete.
Status write_whole(const fs::path& file, const std::vector<std::uint8_t>& bytes) {
  fs::path aside = file;
  aside.replace_filename(fmt::format(".{}.{}.partial", file.filename().string(), ::getpid()));
  const Fd out(::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  int error = out ? write_all(out.get(), bytes.data(), bytes.size()) : errno;
  if (error == 0 && ::rename(aside.c_str(), file.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(aside.c_str());
  return io_error("write", file, error);
}

}  // namespace

Result<RanksOfDump> ranks_of_dump(const fs::path& dump) {
  std::error_code error;
  RanksOfDump found{fs::canonical(dump, error), {}, {}};
  if (error) return Error{ErrorCode::not_found, "cannot open dump '" + dump.string() + "': " + error.message()};
  RankPlaces places = rank_places(found.root);
  for (JournalPlace& place : places.journals) {
    std::string directory = place.metadata.parent_path().lexically_relative(found.root).native();
    found.ranks.push_back({std::move(directory), std::move(place)});
  }
  found.problems = std::move(places.problems);
  return found;
}

Json part_key(const RankInDump& rank, Json question) {
  struct stat status {};
  const bool is_there = ::stat(journal_in(rank.place.metadata).c_str(), &status) == 0;
  const std::int64_t changed = is_there ? status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec : -1;
  return {{"sonde", SONDE_VERSION},
          {"directory", rank.directory},
          {"question", std::move(question)},
          {"journal_bytes", is_there ? status.st_size : -1},
          {"journal_changed", changed}};
}

// CBOR, since paths have any bytes, and JSON's texts do not.
Status write_part(const fs::path& parts, const RankInDump& rank, const Json& key, Json found) {
  if (Status made = make_directories(parts); !made) return made;
  const Json part = {{"key", key}, {"found", std::move(found)}};
  return write_whole(parts / part_name(rank.directory), Json::to_cbor(part));
}

std::optional<Json> read_part(const fs::path& parts, const RankInDump& rank, const Json& key) {
  const Result<std::string> bytes = read_whole_file(parts / part_name(rank.directory));
  if (!bytes) return std::nullopt;
  Json part = Json::from_cbor(*bytes, true, false);
  if (!part.is_object() || !part.contains("key") || part["key"] != key) return std::nullopt;
  if (!part.contains("found") || !part["found"].is_object()) return std::nullopt;
  return std::move(part["found"]);
}

}  // namespace sonde
