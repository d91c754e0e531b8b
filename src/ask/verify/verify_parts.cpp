#include "ask/verify/verify_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "ask/verify/rank_calls.h"
#include "dump/layout/side_names.h"
#include "ground/base/json.h"
#include "ground/contract/json.h"
#include "ground/contract/read_json.h"
#include "ground/files/files.h"
#include "ground/files/mapped_file.h"
#include "ground/files/packed_path.h"
#include "read/catalog/rank_parts.h"
#include "read/index/index.h"

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

// The facts that a part depends on: it is of no use for another question, by another version, or when the rank has changed.
Json key_of(const RankToVerify& rank, const VerifyOptions& options) {
  struct stat status {};
  const bool is_there = ::stat(journal_in(rank.place.metadata).c_str(), &status) == 0;
  const std::int64_t changed = is_there ? status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec : -1;
  return {{"sonde", SONDE_VERSION},
          {"directory", rank.directory},
          {"hashes", options.hashes},
          {"ranks", options.ranks},
          {"rank", options.rank ? Json(*options.rank) : Json()},
          {"journal_bytes", is_there ? status.st_size : -1},
          {"journal_changed", changed}};
}

// Under its name once it is complete.
Status write_part(const fs::path& file, const std::vector<std::uint8_t>& bytes) {
  fs::path aside = file;
  aside.replace_filename(fmt::format(".{}.{}.partial", file.filename().string(), ::getpid()));
  const Fd out(::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  int error = out ? write_all(out.get(), bytes.data(), bytes.size()) : errno;
  if (error == 0 && ::rename(aside.c_str(), file.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(aside.c_str());
  return io_error("write", file, error);
}

std::optional<VerifiedAlone> read_part(const fs::path& file, const Json& key) {
  const Result<std::string> bytes = read_whole_file(file);
  if (!bytes) return std::nullopt;
  // CBOR, since paths have any bytes, and JSON's texts do not.
  const Json part = Json::from_cbor(*bytes, true, false);
  if (!part.is_object() || !part.contains("key") || part["key"] != key) return std::nullopt;
  if (!part.contains("problems") || !part["problems"].is_number_unsigned() || !part.contains("report")) {
    return std::nullopt;
  }
  Result<Read<Verification>> report = read_json<Verification>(part["report"]);
  if (!report) return std::nullopt;
  VerifiedAlone alone{std::move(report->answer), part["problems"].get<std::size_t>()};
  return alone.problems <= alone.report.issues.size() ? std::optional(std::move(alone)) : std::nullopt;
}

// A pack is looked at once, also if several ranks share its directory.
bool is_known_pack(const Issue& issue, const std::set<fs::path>& known) {
  return is_pack_name(issue.path.filename().native()) && !issue.step && known.contains(issue.path) &&
         (issue.kind == IssueKind::damaged || issue.kind == IssueKind::cut_off);
}

class Joining {
 public:
  explicit Joining(std::vector<CatalogProblem> problems) { add_problems(problems, report_); }

  void add(const RankToVerify& rank, VerifiedAlone alone) {
    CatalogRank& frame = frames_.ranks.emplace_back();
    const bool is_asked = !alone.report.ranks.empty();
    frame.directory = rank.place.directory;
    frame.metadata = rank.place.metadata;
    frame.has_journal = !is_asked || alone.report.ranks.front().has_journal;
    const auto begin = std::make_move_iterator(alone.report.issues.begin());
    const auto others = begin + static_cast<std::ptrdiff_t>(alone.problems);
    report_.issues.insert(report_.issues.end(), begin, others);
    std::vector<Issue> found(others, std::make_move_iterator(alone.report.issues.end()));
    alone.report.issues = std::move(found);
    alone_.push_back(std::move(alone.report));
  }

  // Ranks by number, as in a catalog.
  Verification joined(const fs::path& real_dump) && {
    name_joined_dumps(real_dump, frames_);
    for (std::size_t i = 0; i < alone_.size(); ++i) {
      for (VerifiedRank& rank : alone_[i].ranks) rank.dump = frames_.ranks[i].dump;
    }
    std::erase_if(alone_, [](const Verification& one) { return one.ranks.empty(); });
    std::ranges::stable_sort(alone_, {}, [](const Verification& one) { return one.ranks.front().rank; });
    std::set<fs::path> known;
    for (const Issue& issue : report_.issues) known.insert(issue.path);
    for (Verification& one : alone_) {
      for (Issue& issue : one.issues) {
        if (is_known_pack(issue, known)) continue;
        known.insert(issue.path);
        report_.issues.push_back(std::move(issue));
      }
      std::ranges::move(one.ranks, std::back_inserter(report_.ranks));
      report_.records += one.records;
      report_.files += one.files;
      report_.bytes += one.bytes;
      report_.rows += one.rows;
    }
    return std::move(report_);
  }

 private:
  Catalog frames_;  // ranks without steps
  Verification report_;
  std::vector<Verification> alone_;
};

struct RanksOfDump {
  fs::path root;  // the dump without links
  std::vector<RankToVerify> ranks;
  std::vector<CatalogProblem> problems;  // of looking for them
};

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

}  // namespace

Result<std::vector<RankToVerify>> ranks_to_verify(const fs::path& dump) {
  Result<RanksOfDump> found = ranks_of_dump(dump);
  if (!found) return found.error();
  return std::move(found->ranks);
}

Status verify_into(const RankToVerify& rank, const VerifyOptions& options, const fs::path& parts) {
  if (Status made = make_directories(parts); !made) return made;
  const Json key = key_of(rank, options);  // before it is read
  const VerifiedAlone alone = verify_rank(rank.place, options);
  const Json part = {{"key", key}, {"problems", alone.problems}, {"report", document_of(alone.report)}};
  return write_part(parts / part_name(rank.directory), Json::to_cbor(part));
}

Result<std::vector<std::string>> ranks_without_part(const fs::path& dump, const VerifyOptions& options,
                                                    const fs::path& parts) {
  Result<std::vector<RankToVerify>> ranks = ranks_to_verify(dump);
  if (!ranks) return ranks.error();
  std::vector<std::string> lacking;
  for (RankToVerify& rank : *ranks) {
    const bool has_part = read_part(parts / part_name(rank.directory), key_of(rank, options)).has_value();
    if (!has_part) lacking.push_back(std::move(rank.directory));
  }
  return lacking;
}

Result<JoinedParts> join_parts(const fs::path& dump, const VerifyOptions& options, const fs::path& parts) {
  Result<RanksOfDump> found = ranks_of_dump(dump);
  JoinedParts joined;
  if (!found || found->ranks.empty()) {
    Result<Verification> report = verify_whole(dump, options);
    if (!report) return report.error();
    joined.report = std::move(*report);
    return joined;
  }
  Joining joining(std::move(found->problems));
  for (const RankToVerify& rank : found->ranks) {
    std::optional<VerifiedAlone> part;
    if (!parts.empty()) part = read_part(parts / part_name(rank.directory), key_of(rank, options));
    if (!part) ++joined.verified_here;
    joining.add(rank, part ? std::move(*part) : verify_rank(rank.place, options));
  }
  joined.report = std::move(joining).joined(found->root);
  if (options.ranks) {
    const Result<Catalog> catalog = open_catalog(dump, CatalogQuery());  // from indices, where there are some
    if (!catalog) return catalog.error();
    verify_calls_of_ranks(*catalog, joined.report);
  }
  return joined;
}

Result<Verification> verify_dump(const fs::path& path, const VerifyOptions& options) {
  if (options.ranks) return verify_whole(path, options);
  Result<JoinedParts> joined = join_parts(path, options, {});
  if (!joined) return joined.error();
  return std::move(joined->report);
}

}  // namespace sonde
