#include "ask/first_bad/first_bad_parts.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "ask/first_bad/facts_json.h"
#include "ground/base/reorder.h"
#include "read/index/index.h"
#include "read/index/partial_catalog.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

Json key_of(const RankInDump& rank, const DumpPart& part) {
  return part_key(rank, {{"verb", "first-bad"},
                         {"steps", part.steps.text()},
                         {"graph", part.graph ? Json(*part.graph) : Json()},
                         {"rank", part.rank ? Json(*part.rank) : Json()},
                         {"request", part.request}});
}

// One rank of a dump, with operators where they are needed.
struct OpenedRank {
  std::optional<PartialCatalog> index;
  std::optional<Catalog> journal;  // without an index

  const Catalog& catalog() const { return index ? index->catalog() : *journal; }
  PartialCatalog* source() { return index ? &*index : nullptr; }
};

OpenedRank opened(const fs::path& root, const JournalPlace& place, bool from_index = true) {
  OpenedRank rank;
  if (from_index && !indices_are_off()) {
    if (Result<PartialCatalog> index = PartialCatalog::open_rank(root, place)) {
      rank.index = std::move(*index);
      return rank;
    }
  }
  rank.journal = open_rank(place);
  return rank;
}

// Without operators, and what only they need.
RankFrame frame_of(const Catalog& catalog) {
  const CatalogRank& from = catalog.ranks.front();
  RankFrame frame;
  CatalogRank& rank = frame.rank;
  rank.rank = from.rank;
  rank.kind = from.kind;
  rank.directory = from.directory;
  rank.metadata = from.metadata;
  rank.has_journal = from.has_journal;
  rank.runs = from.runs;
  for (CatalogRun& run : rank.runs) run.sites = nullptr, run.attributes = nullptr;
  for (const CatalogStep& of_rank : from.steps) {
    CatalogStep& step = rank.steps.emplace_back();
    step.run = of_rank.run;
    step.id = of_rank.id;
    step.started_us = of_rank.started_us;
    step.ended_us = of_rank.ended_us;
    step.ended = of_rank.ended;
    step.requests = of_rank.requests;
  }
  frame.problems = catalog.problems;
  return frame;
}

FactsOfRank search_of(const fs::path& root, const RankInDump& rank, const FirstBadOptions& options) {
  for (const bool from_index : {true, false}) {
    OpenedRank of_rank = opened(root, rank.place, from_index);
    FactsOfRank one;
    one.frame = frame_of(of_rank.catalog());
    if (options.part.takes(one.frame.rank)) {
      FirstBadOptions wanted = options;
      wanted.source = of_rank.source();
      RankSearch search(of_rank.catalog().ranks.front(), 0, wanted);
      one.facts = searched(search);
    }
    if (of_rank.source() == nullptr || of_rank.source()->check()) return one;
  }
  return {};
}

std::optional<FactsOfRank> read_facts(const fs::path& parts, const RankInDump& rank, const FirstBadOptions& options) {
  if (parts.empty()) return std::nullopt;
  const std::optional<Json> part = read_part(parts, rank, key_of(rank, options.part));
  return part ? facts_of(*part) : std::nullopt;
}

// A rank by itself does not know which of several dumps it belongs to.
void name_dump(const std::string& dump, RankFacts& facts) {
  for (std::vector<Finding>* findings : {&facts.report.expected, &facts.report.asides}) {
    for (Finding& finding : *findings) finding.dump = dump;
  }
  for (HealthyInfinity& healthy : facts.report.healthy) {
    for (HealthyPlace& place : healthy.places) place.dump = dump;
  }
  if (!facts.found) return;
  for (std::optional<Finding>* own : {&facts.found->own, &facts.found->own_if_later}) {
    if (*own) (*own)->dump = dump;
  }
}

}  // namespace

Status search_into(const RanksOfDump& dump, const RankInDump& rank, const FirstBadOptions& options,
                   const fs::path& parts) {
  const Json key = key_of(rank, options.part);  // before it is read
  return write_part(parts, rank, key, json_of(search_of(dump.root, rank, options)));
}

Result<std::vector<std::string>> ranks_not_searched(const fs::path& dump, const FirstBadOptions& options,
                                                    const fs::path& parts) {
  const Result<RanksOfDump> found = ranks_of_dump(dump);
  if (!found) return found.error();
  std::vector<std::string> lacking;
  for (const RankInDump& rank : found->ranks) {
    if (!read_facts(parts, rank, options)) lacking.push_back(rank.directory);
  }
  return lacking;
}

Result<SearchedParts> SearchedParts::read(const fs::path& dump, const FirstBadOptions& options, const fs::path& parts) {
  Result<RanksOfDump> found = ranks_of_dump(dump);
  if (!found) return found.error();
  if (found->ranks.empty()) {
    return Error{ErrorCode::not_found, "'" + dump.string() + "' cannot be read rank by rank"};
  }
  SearchedParts searched;
  searched.options_ = options;
  searched.root_ = found->root;
  Catalog& catalog = *searched.catalog_;
  catalog.path = dump;
  catalog.problems = std::move(found->problems);
  for (RankInDump& rank : found->ranks) {
    std::optional<FactsOfRank> one = read_facts(parts, rank, options);
    if (!one) {
      ++searched.searched_here_;
      one = search_of(found->root, rank, options);
    }
    std::ranges::move(one->frame.problems, std::back_inserter(catalog.problems));
    catalog.ranks.push_back(std::move(one->frame.rank));
    searched.facts_.push_back(std::move(one->facts));
    searched.ranks_.push_back(std::move(rank));
  }
  name_joined_dumps(found->root, catalog);
  std::vector<std::size_t> order(catalog.ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t at) { return catalog.ranks[at].rank; });
  reorder(catalog.ranks, order);
  reorder(searched.facts_, order);
  reorder(searched.ranks_, order);
  return searched;
}

FirstBad SearchedParts::first_bad() {
  options_.progress = {};
  JoinedAnswer answer(options_);
  for (std::size_t number = 0; number < ranks_.size(); ++number) {
    CatalogRank& rank = catalog_->ranks[number];
    if (!options_.part.takes(rank)) continue;
    name_dump(rank.dump, facts_[number]);
    answer.add(facts_[number]);
    SearchedRank& one = searches_.emplace_back(rank, [this, number]() {
      const auto of_rank = std::make_shared<OpenedRank>(opened(root_, ranks_[number].place));
      FirstBadOptions wanted = options_;
      wanted.source = of_rank->source();
      OpenedSearch opened;
      opened.search = std::make_unique<RankSearch>(of_rank->catalog().ranks.front(), 0, wanted);
      opened.owner = of_rank;
      return opened;
    });
    one.set_facts(std::move(facts_[number]));
  }
  FirstBad report = std::move(answer).finish(*catalog_, searches_);
  for (SearchedRank& one : searches_) {
    if (!report.first || one.rank().rank != report.first->rank || one.rank().dump != report.first->dump) continue;
    const auto number = static_cast<std::size_t>(&one.rank() - catalog_->ranks.data());
    for (std::size_t step = 0; step < one.rank().steps.size(); ++step) {
      catalog_->ranks[number].steps[step].ops = one.search().rank().steps[step].ops;
    }
  }
  return report;
}

}  // namespace sonde
