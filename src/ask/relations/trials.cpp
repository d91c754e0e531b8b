#include "ask/relations/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ask/compare/compare_words.h"
#include "ask/relations/following.h"
#include "ask/relations/recomputed.h"
#include "ask/relations/search.h"
#include "ask/relations/standings.h"
#include "ask/relations/trial_changes.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

class Trials {
 public:
  Trials(const Pool& target, const Pool& golden, const RelationJudgement& judgement, const Region& region)
      : target_(target),
        golden_(golden),
        judgement_(judgement),
        region_(region),
        known_(target),
        golden_known_(golden),
        changes_(target, golden, judgement, known_, golden_known_),
        following_(target, golden, judgement, region, known_, golden_known_) {}

  std::optional<Trial> find(const std::vector<std::uint32_t>& ops, std::uint32_t least) {
    std::optional<Found> best;
    for (const std::uint32_t op : ops) {
      if (target_.ops[op].outputs.size() != 1) continue;
      for (const TrialChange& change : changes_.of(op)) {
        const std::uint32_t first = target_.ops[op].outputs[0];
        const std::optional<Followed> followed = following_.from(op, first, change.result, change.rank == 0);
        if (!followed || followed->last < least) continue;
        std::optional<Found> found =
            Found{*followed, change.rank, is_right_elsewhere(op), change.what, change.turned, change.weight};
        if (best && !is_better(*found, *best)) continue;
        best = std::move(found);
      }
    }
    if (!best) return std::nullopt;
    const CatalogOp &own = target_.catalog_op(best->last),
                    &other = golden_.catalog_op(golden_.tensors[best->golden].op);
    std::string what = fmt::format("if {}, the result of {} {} is that of golden {} {}", best->what, own.op_type,
                                   place_text(own), other.op_type, place_text(other));
    if (best->weight)
      what = fmt::format("is {}: {}", relation_text(judgement_.relations[*best->weight], golden_), what);
    return Trial{.op = best->turned ? first_turned(best->op, *best->turned) : best->op,
                 .weight = best->weight,
                 .what = std::move(what),
                 .like = target_.ops[best->last].outputs[0],
                 .golden = best->golden};
  }

 private:
  struct Found : Followed {
    int rank = 0;
    bool is_right_elsewhere = false;  // its line gives what is golden in another call
    std::string what = {};
    std::optional<std::uint32_t> turned = {}, weight = {};  // of the change
  };

  // Its line runs in another layer or step, too, and nothing wrong follows from it there.
  bool is_right_elsewhere(std::uint32_t op) const {
    const LinePlace place = line_of(target_.catalog_op(op));
    // Elements in a wrong order may be golden ones.
    const auto is_in_order = [&](std::uint32_t output) {
      return judgement_.relations[output].kind == RelationKind::same && is_surely_golden(judgement_, output);
    };
    const bool only_moves = moves_or_casts(target_.op(op).kind);
    for (std::uint32_t other = 0; other < target_.ops.size(); ++other) {
      if (other == op || region_.has[other] || line_of(target_.catalog_op(other)) != place) continue;
      if (!only_moves || std::ranges::all_of(target_.ops[other].outputs, is_in_order)) return true;
    }
    return false;
  }

  // Whole numbers may be golden in two orders, as distances are and their opposites.
  bool is_golden_as_it_is(std::uint32_t tensor) const {
    const PoolTensor& own = target_.tensors[tensor];
    for (std::uint32_t other = 0; other < golden_.tensors.size(); ++other) {
      const PoolTensor& theirs = golden_.tensors[other];
      const bool is_alike = theirs.op != kNoOp && theirs.shape == own.shape &&
                            rounded_numbers(theirs.print) == rounded_numbers(own.print);
      if (is_alike && have_same_values(target_, tensor, golden_, other)) return true;
    }
    return false;
  }

  // The first operator that gives it transposed, where whole numbers were computed of it: rows that are looked up.
  std::uint32_t first_turned(std::uint32_t op, std::uint32_t tensor) const {
    constexpr int kMostSteps = 16;
    const auto is_turned = [&](std::uint32_t input) {
      return target_.tensors[input].op != kNoOp && !target_.tensors[input].has_fractions() &&
             judgement_.relations[input].kind == RelationKind::permuted && !is_golden_as_it_is(input);
    };
    for (int step = 0; step < kMostSteps && is_turned(tensor); ++step) {
      op = target_.tensors[tensor].op;
      const std::vector<std::uint32_t>& inputs = target_.ops[op].inputs;
      const auto before = std::ranges::find_if(inputs, is_turned);
      if (before == inputs.end()) break;
      tensor = *before;
    }
    return op;
  }

  static bool is_better(const Found& a, const Found& b) {
    if (a.last != b.last) return a.last > b.last;
    if (a.count != b.count) return a.count > b.count;
    if (a.is_right_elsewhere != b.is_right_elsewhere) return b.is_right_elsewhere;
    return a.rank < b.rank;
  }

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  const Region& region_;
  Recomputed known_, golden_known_;
  TrialChanges changes_;
  Following following_;
};

}  // namespace

std::optional<Trial> mended_by(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                               const Region& region, const std::vector<std::uint32_t>& ops, std::uint32_t least) {
  return Trials(target, golden, judgement, region).find(ops, least);
}

}  // namespace sonde
