#include "ask/verify/verify_parts.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "ask/verify/rank_calls.h"
#include "ground/base/json.h"
#include "ground/contract/json.h"
#include "ground/contract/read_json.h"
#include "ground/files/packed_path.h"
#include "read/catalog/rank_parts.h"
#include "read/index/index.h"
#include "read/index/rank_indices.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

Json key_of(const RankInDump& rank, const VerifyOptions& options) {
  return part_key(rank, {{"verb", "verify"},
                         {"hashes", options.hashes},
                         {"ranks", options.ranks},
                         {"rank", options.rank ? Json(*options.rank) : Json()}});
}

std::optional<VerifiedAlone> read_alone(const fs::path& parts, const RankInDump& rank, const VerifyOptions& options) {
  const std::optional<Json> part = read_part(parts, rank, key_of(rank, options));
  if (!part || !part->contains("problems") || !(*part)["problems"].is_number_unsigned() || !part->contains("report")) {
    return std::nullopt;
  }
  Result<Read<Verification>> report = read_json<Verification>((*part)["report"]);
  if (!report) return std::nullopt;
  VerifiedAlone alone{std::move(report->answer), (*part)["problems"].get<std::size_t>()};
  return alone.problems <= alone.report.issues.size() ? std::optional(std::move(alone)) : std::nullopt;
}

// A pack is looked at once, also if several ranks share its directory.
bool is_known_pack(const Issue& issue, const std::set<fs::path>& known) {
  return is_pack_name(issue.path.filename().native()) && !issue.step && known.contains(issue.path) &&
         (issue.kind == IssueKind::damaged || issue.kind == IssueKind::cut_off);
}

// From its index, where it has one.
Catalog rank_of_index(const fs::path& root, const JournalPlace& place) {
  if (!indices_are_off()) {
    Result<RankIndices> index = RankIndices::open_rank(root, place);
    Result<Catalog> catalog = index ? index->load() : index.error();
    if (catalog) return std::move(*catalog);
  }
  return open_rank(place);
}

class Joining {
 public:
  explicit Joining(std::vector<CatalogProblem> problems) { add_problems(problems, report_); }

  void add(const RankInDump& rank, VerifiedAlone alone) {
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

}  // namespace

Status verify_into(const RankInDump& rank, const VerifyOptions& options, const fs::path& parts) {
  const Json key = key_of(rank, options);  // before it is read
  const VerifiedAlone alone = verify_rank(rank.place, options);
  return write_part(parts, rank, key, {{"problems", alone.problems}, {"report", document_of(alone.report)}});
}

Result<std::vector<std::string>> ranks_without_part(const fs::path& dump, const VerifyOptions& options,
                                                    const fs::path& parts) {
  const Result<RanksOfDump> found = ranks_of_dump(dump);
  if (!found) return found.error();
  std::vector<std::string> lacking;
  for (const RankInDump& rank : found->ranks) {
    if (!read_alone(parts, rank, options)) lacking.push_back(rank.directory);
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
  CallsOfRanks calls;
  for (const RankInDump& rank : found->ranks) {
    std::optional<VerifiedAlone> part;
    if (!parts.empty()) part = read_alone(parts, rank, options);
    if (!part) {
      ++joined.verified_here;
      const Catalog catalog = open_rank(rank.place);
      if (options.ranks) calls.add(catalog);
      part = verify_rank(catalog, options);
    } else if (options.ranks) {
      calls.add(rank_of_index(found->root, rank.place));
    }
    joining.add(rank, std::move(*part));
  }
  joined.report = std::move(joining).joined(found->root);
  if (options.ranks) std::move(calls).verify(found->root, joined.report);
  return joined;
}

Result<Verification> verify_dump(const fs::path& path, const VerifyOptions& options) {
  Result<JoinedParts> joined = join_parts(path, options, {});
  if (!joined) return joined.error();
  return std::move(joined->report);
}

}  // namespace sonde
