#include "ask/relations/following.h"

#include <algorithm>
#include <cmath>

#include "ask/relations/element_order.h"
#include "ask/relations/standings.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

constexpr std::size_t kMostOfFollowed = 20'000'000;  // elements
constexpr std::size_t kMostFollowed = 80;            // operators

ValueSums sums_of(const std::vector<double>& values) {
  ValueSums sums{.least = INFINITY, .largest = -INFINITY};
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

// Nearly all results so far are golden.
bool is_plain(const Followed& found) {
  constexpr std::size_t kFewest = 4;
  return found.count >= kFewest && 4 * found.count >= 3 * found.all;
}

}  // namespace

Following::Following(const Pool& target, const Pool& golden, const RelationJudgement& judgement, const Region& region,
                     Recomputed& known, Recomputed& golden_known)
    : target_(target),
      golden_(golden),
      judgement_(judgement),
      region_(region),
      known_(known),
      golden_known_(golden_known) {
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& one = golden.tensors[i];
    const bool is_wanted = one.op != kNoOp && !judgement.met[i] && one.has_fractions() && !one.print.proves_nothing();
    if (is_wanted) missed_[one.print.count].push_back(i);
  }
}

bool Following::is_tired() const { return work_ > kMostOfFollowed; }

std::optional<Followed> Following::from(std::uint32_t op, std::uint32_t tensor, const Dense& result, bool is_left_out) {
  if (is_tired()) return std::nullopt;
  is_of_golden_ = false;
  Followed found{.op = op, .is_left_out = is_left_out};
  if (!follow_all(tensor, result, found)) return std::nullopt;
  // Most results that follow from what is right are golden, and few by chance. One alone shows it if it is the last.
  const bool ends_golden = found.since == 0 && found.at_end > 1 && unknown_.empty();
  const bool is_last = found.all == 1 && unknown_.empty();
  const bool is_shown = (3 * found.count >= found.all && (found.count > 1 || is_last)) || ends_golden;
  return found.last != kNoOp && (is_shown || is_shown_before_) ? std::optional(found) : std::nullopt;
}

std::optional<Followed> Following::from_golden(std::uint32_t op, std::uint32_t tensor, const Dense& result) {
  if (is_tired()) return std::nullopt;
  is_of_golden_ = true;
  Followed found{.op = op};
  if (!follow_all(tensor, result, found)) return std::nullopt;
  const bool is_last = found.joined == 1 && found.all == 1 && unknown_.empty();
  return found.is_shown_early || is_last ? std::optional(found) : std::nullopt;
}

// False: a result that is right would be wrong.
bool Following::follow_all(std::uint32_t tensor, const Dense& result, Followed& found) {
  changed_.clear();
  unknown_.clear();
  is_shown_before_ = reads_others_ = false;
  if (!take(found.op, tensor, result, found)) return false;
  std::size_t steps = 0;
  for (std::uint32_t next = found.op + 1; next < target_.ops.size() && steps < kMostFollowed; ++next) {
    const std::vector<std::uint32_t>&inputs = target_.ops[next].inputs, &outputs = target_.ops[next].outputs;
    const bool is_open = std::ranges::any_of(inputs, [&](std::uint32_t input) { return unknown_.contains(input); });
    if (is_open) unknown_.insert(outputs.begin(), outputs.end());
    if (is_open || std::ranges::none_of(inputs, [&](auto input) { return changed_.contains(input); })) continue;
    ++steps;
    // The line runs again, in the next layer, and is wrong there, too.
    if (line_of(target_.catalog_op(next)) == line_of(target_.catalog_op(found.op))) is_shown_before_ |= is_plain(found);
    if (!follow(next, found)) return false;
  }
  return true;
}

// False: a result that is right would be wrong.
bool Following::follow(std::uint32_t op, Followed& found) {
  const std::vector<std::uint32_t>&inputs = target_.ops[op].inputs, &outputs = target_.ops[op].outputs;
  DenseInputs read = known_.inputs_of(op);
  reads_others_ = reads_others(op);
  for (std::size_t i = 0; i < inputs.size() && !read.empty(); ++i) {
    if (const auto other = changed_.find(inputs[i]); other != changed_.end()) read[i] = &other->second;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const KnownFunction* function = read.empty() ? nullptr : &known_.function_of(op, i);
    std::optional<Dense> result;
    if (function != nullptr && function->apply) result = function->apply(read);
    if (!result) {
      unknown_.insert(outputs[i]);
    } else if (!take(op, outputs[i], *result, found)) {
      return false;
    }
  }
  return true;
}

// False: a result that is right would be wrong.
bool Following::take(std::uint32_t op, std::uint32_t tensor, const Dense& result, Followed& found) {
  work_ += result.values.size() * 4;
  const Dense* recorded = known_.recorded(tensor);
  if (recorded == nullptr || recorded->values.size() != result.values.size()) return true;
  if (is_nearly(result, *recorded)) return true;
  // Statistics of golden elements in another order are those of the right order.
  const bool is_in_order = judgement_.relations[tensor].kind == RelationKind::same ||
                           !are_nearly(sums_of(result.values), sums_of(recorded->values), result.values.size());
  if (is_surely_golden(judgement_, tensor) && is_in_order) return false;
  changed_[tensor] = {recorded->shape, result.values};
  if (!region_.has[op] || result.values.size() < 8) return true;
  // Of what only moves elements, a join may be the first that the golden run has, too: halves of heads.
  const bool joins = puts_in_order(target_, op);
  if (moves_or_casts(target_.op(op).kind) && !(joins && golden_of(result, *recorded))) return true;
  if (op == found.op && (found.is_left_out || is_of_golden_)) return true;
  ++found.all;
  ++found.since;
  if (found.is_left_out && repeats_another(tensor, result)) return true;
  if (const auto golden = golden_of(result, *recorded)) {
    found.at_end = found.since == 1 ? found.at_end + 1 : 1;
    found.since = 0;
    found.last = op;
    found.golden = *golden;
    ++found.count;
    found.joined += reads_others_;
    found.is_shown_early |= found.joined > 0 && found.count > 1 && 3 * found.count >= found.all;
  }
  return true;
}

// Results that follow from a golden tensor alone are golden in any place where the golden run computes the same of it, as
// in each of its norms. Together with a weight, or another result, they are golden in one place.
bool Following::reads_others(std::uint32_t op) const {
  return std::ranges::any_of(target_.ops[op].inputs, [&](std::uint32_t input) {
    const PoolTensor& own = target_.tensors[input];
    return !changed_.contains(input) && own.has_fractions() && !own.print.proves_nothing();
  });
}

// Without what is left out, a line gives again what it gave in the layer before: no proof that it should.
bool Following::repeats_another(std::uint32_t tensor, const Dense& result) {
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

std::optional<std::uint32_t> Following::golden_of(const Dense& result, const Dense& recorded) {
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

}  // namespace sonde
