// Finds the rank that was bad first: collectives are matched across ranks by type and order; bad data received from a
// collective with finite input came from another rank.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "ask/first_bad/first_bad_search.h"

namespace sonde {
namespace {

using Searches = std::vector<std::unique_ptr<RankSearch>>;

struct Collective {
  std::string type;
  std::size_t ordinal = 0;  // among those of its type
  const CatalogOp* op = nullptr;
};

std::vector<Collective> collectives_of(const CatalogStep& step) {
  std::vector<Collective> found;
  std::map<std::string, std::size_t> counts;
  for (const CatalogOp& op : step.ops) {
    if (op.is_parameter || !nature_of(op).collective) continue;
    std::string type = bare_type(op.op_type);
    const std::size_t ordinal = counts[type]++;
    found.push_back({std::move(type), ordinal, &op});
  }
  return found;
}

bool same_step(const RankSearch& a, const RankSearch& b) { return a.step().id == b.step().id; }

// The number of collectives before the rank's first root, and whether that root is one.
struct RootPosition {
  std::size_t before = 0;
  bool is_collective = false;
};

RootPosition root_position(RankSearch& search) {
  RootPosition position;
  const FlowOp& op = search.flow().ops()[search.roots().front().op];
  position.is_collective = op.nature.collective && search.roots().front().kind == RootKind::created;
  for (const FlowOp& other : search.flow().ops()) {
    if (&other == &op) break;
    position.before += other.nature.collective ? 1 : 0;
  }
  return position;
}

const CatalogStep* step_of(RankSearch& search, StepId id) {
  const std::vector<CatalogStep>& steps = search.rank().steps;
  const auto found = std::ranges::find(steps, id, &CatalogStep::id);
  return found == steps.end() ? nullptr : &search.step_at(static_cast<std::size_t>(found - steps.begin()));
}

// The ranks that gave bad data to the collective; by number.
std::vector<std::uint32_t> givers(const Searches& searches, StepId step, const Collective& collective) {
  std::vector<std::uint32_t> ranks;
  for (const auto& search : searches) {
    const CatalogStep* of_rank = step_of(*search, step);
    if (of_rank == nullptr) continue;
    for (const Collective& other : collectives_of(*of_rank)) {
      if (other.type != collective.type || other.ordinal != collective.ordinal) continue;
      const bool gave = std::ranges::any_of(other.op->tensors, [&](const CatalogTensor& tensor) {
        return tensor.is_input && search->health().of(tensor).bad();
      });
      if (gave) ranks.push_back(search->rank().rank);
    }
  }
  return ranks;
}

std::string ranks_text(const std::vector<std::uint32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

// Finds the first collective of the rank with a bad input in this step, and the ranks that got bad data from it.
void add_spread(Searches& searches, RankVerdict& verdict) {
  RankSearch& first = *searches[verdict.first];
  for (const Collective& collective : collectives_of(first.step())) {
    const bool gave = std::ranges::any_of(collective.op->tensors, [&](const CatalogTensor& tensor) {
      return tensor.is_input && first.health().of(tensor).bad();
    });
    if (!gave) continue;
    std::vector<std::uint32_t> got;
    for (const auto& search : searches) {
      const CatalogStep* step = step_of(*search, first.step().id);
      if (search.get() == &first || step == nullptr) continue;
      for (const Collective& other : collectives_of(*step)) {
        if (other.type != collective.type || other.ordinal != collective.ordinal) continue;
        bool in = false, out = false;
        for (const CatalogTensor& tensor : other.op->tensors) {
          (tensor.is_input ? in : out) |= search->health().of(tensor).bad();
        }
        if (!in && out) got.push_back(search->rank().rank);
      }
    }
    if (got.empty()) continue;
    verdict.evidence.push_back(fmt::format("{} spread it to {}: they gave it finite numbers, rank {} did not",
                                           collective.op->op_name, ranks_text(got), first.rank().rank));
    return;
  }
}

void add_others(Searches& searches, RankVerdict& verdict) {
  RankSearch& first = *searches[verdict.first];
  std::vector<std::uint32_t> fine, same, later;
  for (const auto& search : searches) {
    if (search.get() == &first) continue;
    if (!search->found() || !same_step(*search, first)) {
      (search->found() ? later : fine).push_back(search->rank().rank);
      continue;
    }
    const CatalogOp& theirs = *search->flow().ops()[search->roots().front().op].op;
    const CatalogOp& ours = *first.flow().ops()[first.roots().front().op].op;
    (theirs.op_name == ours.op_name ? same : later).push_back(search->rank().rank);
  }
  if (same.empty()) verdict.tags.emplace_back("one_rank_only");
  if (!same.empty()) verdict.evidence.push_back(fmt::format("the same on {}", ranks_text(same)));
  if (!fine.empty()) verdict.evidence.push_back(fmt::format("nothing wrong on {}", ranks_text(fine)));
  if (!later.empty()) verdict.evidence.push_back(fmt::format("later, or elsewhere, on {}", ranks_text(later)));
}

}  // namespace

const Root* own_root(RankSearch& search, const RankSearch& first) {
  if (!search.found()) return nullptr;
  const bool is_later = search.step().id.number > first.step().id.number;
  for (const Root& root : search.roots()) {
    const FlowOp& op = search.flow().ops()[root.op];
    const bool is_received = op.nature.collective && root.kind == RootKind::created;
    // Of a later step: bad parameters and data may come from the update that the ranks made together.
    if (!is_received && !(is_later && root.kind == RootKind::external)) return &root;
  }
  return nullptr;
}

RankVerdict first_rank(Searches& searches) {
  RankVerdict verdict;
  std::optional<std::tuple<std::uint64_t, std::uint32_t, bool, std::size_t, std::uint32_t>> best;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    RankSearch& search = *searches[i];
    if (!search.found()) continue;
    const RootPosition position = root_position(search);
    // Bad data from a collective comes from another rank, unless no rank has anything else.
    const std::tuple key(search.step().id.number, search.step().id.graph, position.is_collective, position.before,
                         search.rank().rank);
    if (best && *best <= key) continue;
    best = key;
    verdict.first = i;
  }
  if (searches.size() < 2) return verdict;
  RankSearch& first = *searches[verdict.first];
  const RootPosition position = root_position(first);
  verdict.evidence.push_back(fmt::format("{} collectives of step {} ran on rank {} before it", position.before,
                                         first.step().id.number, first.rank().rank));
  if (position.is_collective) {
    const CatalogOp* op = first.flow().ops()[first.roots().front().op].op;
    for (const Collective& collective : collectives_of(first.step())) {
      if (collective.op != op) continue;
      const std::vector<std::uint32_t> from = givers(searches, first.step().id, collective);
      verdict.evidence.push_back(from.empty()
                                     ? "every rank that is in the dump gave it finite numbers: the sum overflowed, "
                                       "or a rank that is not in the dump gave something else"
                                     : fmt::format("{} gave it the bad values", ranks_text(from)));
    }
  }
  add_spread(searches, verdict);
  add_others(searches, verdict);
  return verdict;
}

}  // namespace sonde
