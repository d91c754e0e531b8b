#include "ask/relations/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "ask/relations/element_order.h"
#include "ask/relations/recomputed.h"
#include "ask/relations/search.h"
#include "ask/relations/standings.h"
#include "ask/relations/trial_changes.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// Of a result, whatever the order of its elements.
struct ValueSums {
  double sum = 0, squares = 0, cubes = 0, least = INFINITY, largest = -INFINITY;
};

ValueSums sums_of(const std::vector<double>& values) {
  ValueSums sums;
  for (const double value : values) {
    if (is_hidden(value)) continue;
    sums.sum += value;
    sums.squares += value * value;
    sums.cubes += value * value * value;
    sums.least = std::min(sums.least, value);
    sums.largest = std::max(sums.largest, value);
  }
  return sums;
}

bool are_nearly(const ValueSums& a, const ValueSums& b, std::size_t count) {
  constexpr double kNearly = 2e-4;
  const double rms = std::sqrt(b.squares / static_cast<double>(count));
  const auto n = static_cast<double>(count);
  const auto near = [](double x, double y, double scale) { return std::abs(x - y) <= kNearly * scale; };
  return near(a.squares, b.squares, b.squares) && near(a.sum, b.sum, n * rms / 4) &&
         near(a.cubes, b.cubes, n * rms * rms * rms) && near(a.least, b.least, rms) && near(a.largest, b.largest, rms);
}

class Trials {
 public:
  Trials(const Pool& target, const Pool& golden, const RelationJudgement& judgement, const Region& region)
      : target_(target),
        golden_(golden),
        judgement_(judgement),
        region_(region),
        known_(target),
        golden_known_(golden),
        changes_(target, golden, judgement, known_, golden_known_) {
    for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
      const PoolTensor& one = golden.tensors[i];
      const bool is_wanted = one.op != kNoOp && !judgement.met[i] && one.has_fractions() && !one.print.proves_nothing();
      if (is_wanted) missed_[one.print.count].push_back(i);
    }
  }

  std::optional<Trial> find(const std::vector<std::uint32_t>& ops, std::uint32_t least) {
    std::optional<Found> best;
    for (const std::uint32_t op : ops) {
      if (target_.ops[op].outputs.size() != 1) continue;
      for (const TrialChange& change : changes_.of(op)) {
        if (work_ > kMostWork) break;
        std::optional<Found> found = followed(op, change);
        if (!found || found->last < least) continue;
        found->is_right_elsewhere = is_right_elsewhere(op);
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
  struct Found {
    std::uint32_t op = kNoOp, last = kNoOp, golden = 0;
    std::size_t count = 0, all = 0;     // results that would be golden, and all that would be others
    std::size_t at_end = 0, since = 0;  // the last golden ones one after the other, and those after them
    int rank = 0;
    bool is_right_elsewhere = false;  // its line gives what is golden in another call
    std::string what = {};
    std::optional<std::uint32_t> turned = {}, weight = {};  // of the change
  };

  static constexpr std::size_t kMostWork = 20'000'000;  // elements
  static constexpr std::size_t kMostFollowed = 80;      // operators

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

  // The results that follow from a change; nothing: none of them is golden, or one that was is no more.
  std::optional<Found> followed(std::uint32_t op, const TrialChange& change) {
    std::map<std::uint32_t, Dense> changed;
    std::set<std::uint32_t> unknown;  // they follow from a change, and cannot be computed again
    const std::uint32_t first = target_.ops[op].outputs[0];
    Found found{.op = op, .rank = change.rank, .what = change.what, .turned = change.turned, .weight = change.weight};
    if (!take(op, first, change.result, changed, found)) return std::nullopt;
    std::size_t steps = 0;
    bool is_shown_before = false;
    for (std::uint32_t next = op + 1; next < target_.ops.size() && steps < kMostFollowed; ++next) {
      const std::vector<std::uint32_t>&inputs = target_.ops[next].inputs, &outputs = target_.ops[next].outputs;
      const bool is_open = std::ranges::any_of(inputs, [&](std::uint32_t input) { return unknown.contains(input); });
      if (is_open) unknown.insert(outputs.begin(), outputs.end());
      if (is_open || std::ranges::none_of(inputs, [&](auto input) { return changed.contains(input); })) continue;
      ++steps;
      // The line runs again, in the next layer, and is wrong there, too.
      if (line_of(target_.catalog_op(next)) == line_of(target_.catalog_op(op))) is_shown_before |= is_plain(found);
      if (!follow(next, changed, unknown, found)) return std::nullopt;
    }
    // Most results that follow from what is right are golden, and few by chance. One alone shows it if it is the last.
    const bool ends_golden = found.since == 0 && found.at_end > 1 && unknown.empty();
    const bool is_last = found.all == 1 && unknown.empty();
    const bool is_shown = (3 * found.count >= found.all && (found.count > 1 || is_last)) || ends_golden;
    return found.last != kNoOp && (is_shown || is_shown_before) ? std::optional(found) : std::nullopt;
  }

  // Nearly all results so far are golden.
  static bool is_plain(const Found& found) {
    constexpr std::size_t kFewest = 4;
    return found.count >= kFewest && 4 * found.count >= 3 * found.all;
  }

  // False: a result that is right would be wrong.
  bool follow(std::uint32_t op, std::map<std::uint32_t, Dense>& changed, std::set<std::uint32_t>& unknown,
              Found& found) {
    const std::vector<std::uint32_t>&inputs = target_.ops[op].inputs, &outputs = target_.ops[op].outputs;
    DenseInputs read = known_.inputs_of(op);
    for (std::size_t i = 0; i < inputs.size() && !read.empty(); ++i) {
      if (const auto other = changed.find(inputs[i]); other != changed.end()) read[i] = &other->second;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const KnownFunction* function = read.empty() ? nullptr : &known_.function_of(op, i);
      std::optional<Dense> result;
      if (function != nullptr && function->apply) result = function->apply(read);
      if (!result) {
        unknown.insert(outputs[i]);
      } else if (!take(op, outputs[i], *result, changed, found)) {
        return false;
      }
    }
    return true;
  }

  // False: a result that is right would be wrong.
  bool take(std::uint32_t op, std::uint32_t tensor, const Dense& result, std::map<std::uint32_t, Dense>& changed,
            Found& found) {
    work_ += result.values.size() * 4;
    const Dense* recorded = known_.recorded(tensor);
    if (recorded == nullptr || recorded->values.size() != result.values.size()) return true;
    if (is_nearly(result, *recorded)) return true;
    // Statistics of golden elements in another order are those of the right order.
    const bool is_in_order = judgement_.relations[tensor].kind == RelationKind::same ||
                             !are_nearly(sums_of(result.values), sums_of(recorded->values), result.values.size());
    if (is_surely_golden(judgement_, tensor) && is_in_order) return false;
    changed[tensor] = {recorded->shape, result.values};
    if (!region_.has[op] || result.values.size() < 8) return true;
    // Of what only moves elements, a join may be the first that the golden run has, too: halves of heads.
    const bool joins = puts_in_order(target_, op);
    if (moves_or_casts(target_.op(op).kind) && !(joins && golden_of(result, *recorded))) return true;
    // Left out, it gives its input.
    if (op == found.op && found.rank == 0) return true;
    ++found.all;
    ++found.since;
    if (found.rank == 0 && repeats_another(tensor, result)) return true;
    if (const auto golden = golden_of(result, *recorded)) {
      found.at_end = found.since == 1 ? found.at_end + 1 : 1;
      found.since = 0;
      found.last = op;
      found.golden = *golden;
      ++found.count;
    }
    return true;
  }

  // Without what is left out, a line gives again what it gave in the layer before: no proof that it should.
  bool repeats_another(std::uint32_t tensor, const Dense& result) {
    const LinePlace place = line_of(target_.catalog_op(target_.tensors[tensor].op));
    for (std::uint32_t op = 0; op < target_.tensors[tensor].op; ++op) {
      if (line_of(target_.catalog_op(op)) != place) continue;
      for (const std::uint32_t output : target_.ops[op].outputs) {
        const Dense* other = known_.recorded(output);
        if (other != nullptr && other->values.size() == result.values.size() && is_nearly(result, *other)) return true;
      }
    }
    return false;
  }

  std::optional<std::uint32_t> golden_of(const Dense& result, const Dense& recorded) {
    const auto candidates = missed_.find(result.values.size());
    if (candidates == missed_.end()) return std::nullopt;
    const ValueSums own = sums_of(result.values), before = sums_of(recorded.values);
    constexpr std::size_t kMost = 48;
    for (std::size_t i = 0; i < std::min(candidates->second.size(), kMost); ++i) {
      const std::uint32_t other = candidates->second[i];
      const auto [found, is_new] = golden_sums_.try_emplace(other);
      if (is_new) {
        if (const Dense* values = golden_known_.recorded(other)) found->second = sums_of(values->values);
      }
      if (!found->second || !are_nearly(own, *found->second, result.values.size())) continue;
      if (!are_nearly(before, *found->second, result.values.size())) return other;
    }
    return std::nullopt;
  }

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  const Region& region_;
  Recomputed known_, golden_known_;
  TrialChanges changes_;
  std::map<std::uint64_t, std::vector<std::uint32_t>> missed_;  // golden tensors, by number of elements
  std::map<std::uint32_t, std::optional<ValueSums>> golden_sums_;
  std::size_t work_ = 0;
};

}  // namespace

std::optional<Trial> mended_by(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                               const Region& region, const std::vector<std::uint32_t>& ops, std::uint32_t least) {
  return Trials(target, golden, judgement, region).find(ops, least);
}

}  // namespace sonde
