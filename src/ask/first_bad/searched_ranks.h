// SearchedRank: a rank with what its search found. The search itself, which holds steps of the rank, is made again where
// somebody asks for it: of a thousand ranks few are needed.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ask/first_bad/first_bad_search.h"
#include "ask/first_bad/rank_facts.h"
#include "read/catalog/step_order.h"

namespace sonde {

struct OpenedSearch {
  std::shared_ptr<const void> owner;   // of the rank that it searches, which must outlive it
  std::unique_ptr<RankSearch> search;  // has not run
  std::function<void()> release;       // of the memory of the rank's steps; may be empty
};

class SearchedRank {
 public:
  using Open = std::function<OpenedSearch()>;
  // `rank`: of the catalog of all ranks; the one that `open` opens has the same steps.
  SearchedRank(const CatalogRank& rank, Open open) : rank_(&rank), open_(std::move(open)) {}

  const CatalogRank& rank() const { return *rank_; }
  RankFacts& facts() { return facts_; }
  void set_facts(RankFacts facts) { facts_ = std::move(facts); }
  void look_for_facts();  // the search stays open
  bool found() const { return facts_.found.has_value(); }
  const CatalogStep& step() const { return rank_->steps[facts_.found->step]; }  // of the first root

  // With its roots, if there are any.
  RankSearch& search();
  // Only for reading steps.
  RankSearch& reader();
  void close();

 private:
  const CatalogRank* rank_;
  Open open_;
  RankFacts facts_;
  std::optional<OpenedSearch> opened_;
  bool has_run_ = false;
};

using Searches = std::vector<SearchedRank>;

// Runs a search up to the first step with an error.
RankFacts searched(RankSearch& search);

// Which of two ranks that found something was bad first, before it is known who gave bad data to whom. A smaller key is
// earlier.
using FirstKey = std::tuple<std::size_t, bool, std::uint64_t, std::uint32_t>;
FirstKey first_key(SearchedRank& rank, const StepOrder& order);

// Compares the ranks of one run. Returns the index of the rank that was bad first, and adds to its finding how it spread.
struct RankVerdict {
  std::size_t first = 0;              // into searches
  std::vector<std::string> evidence;  // lines for the finding
  std::vector<std::string> tags;
  std::vector<std::uint32_t> received;  // ops of that rank: later roots that another rank gave to a collective
};
RankVerdict first_rank(Searches& searches, const StepOrder& order);
StepOrder order_of(const Searches& searches);

// Adds ranks to an answer in their order, then the verdict over all of them.
class JoinedAnswer {
 public:
  explicit JoinedAnswer(const FirstBadOptions& options) : options_(options) {}

  // Takes what it needs out of the facts.
  void add(RankFacts& facts);
  // `catalog`: of all ranks, with those that are not searched.
  FirstBad finish(const Catalog& catalog, Searches& searches) &&;

 private:
  void add_healthy(HealthyInfinity& healthy, std::uint64_t times);
  void add_notes();

  const FirstBadOptions& options_;
  FirstBad report_;
  std::uint64_t tensors_not_read_ = 0, trial_ops_ = 0;
  ThrownAway thrown_away_;
  bool any_in_pynative_mode_ = false;
  std::map<HealthySlot, std::size_t> healthy_;  // into those of the report
};

}  // namespace sonde
