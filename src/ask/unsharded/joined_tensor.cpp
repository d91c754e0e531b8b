#include "ask/unsharded/joined_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "ask/compare/tolerance.h"
#include "ask/unsharded/joined_statistics.h"
#include "ask/unsharded/tensor_blocks.h"
#include "ask/unsharded/wholes.h"
#include "read/measure/measure.h"

namespace sonde {
namespace {

constexpr std::size_t kMostForLeading = 1 << 24;  // elements
constexpr std::int64_t kMostOfNearest = 4;  // blocks that are tried for it: queries, keys and values in one weight
constexpr std::size_t kMostForNearest = 1 << 22;  // elements
constexpr double kLikeNothing = 0.5;              // relative error of parts that are joined in a wrong way
constexpr std::size_t kLargestFactor = 16;
constexpr double kSumSlack = 2;  // of an error of each element
constexpr double kLargest = 64;  // the largest error over the root mean square of all

bool fits_into(const TensorBlocks& blocks, const BlockShape& golden) {
  return std::ranges::all_of(blocks, [&](const TensorBlock& block) {
    if (!block.known) return true;
    if (block.shape.size() != golden.size()) return false;
    for (std::size_t i = 0; i < golden.size(); ++i) {
      if (block.shape[i] > golden[i]) return false;
    }
    return true;
  });
}

std::string words_of(const std::vector<JoinRule>& rules) {
  std::string text;
  for (const JoinRule& rule : rules) {
    if (rule.count == 1) continue;
    if (!text.empty()) text += ", then ";
    text += rule.way == JoinRule::Way::same      ? "the same on each"
            : rule.way == JoinRule::Way::sum     ? "added up"
            : rule.way == JoinRule::Way::squares ? "added up in squares"
                                                 : fmt::format("concatenated along {}", rule.axis);
  }
  return text;
}

class Joiner {
 public:
  Joiner(const TensorOf& golden_of, TensorBlock golden, const JoinLimits& limits)
      : golden_of_(golden_of), golden_(std::move(golden)), limits_(limits) {}

  // `sizes`: of the dimensions of ranks and calls, the last one is joined first.
  void try_all(const TensorBlocks& blocks, const std::vector<std::size_t>& sizes, bool with_leading);
  void look_for_nearest(const TensorBlocks& blocks, const std::vector<std::size_t>& sizes);
  Joined best(const TensorOf& part);

 private:
  void try_rules(const TensorBlocks& blocks, std::vector<std::size_t> sizes, std::vector<JoinRule>& rules,
                 bool with_leading);
  bool may_fit(const TensorBlocks& blocks, const JoinRule& rule) const;
  void look_at(const TensorBlock& whole, const std::vector<JoinRule>& rules);
  double factor_of(const TensorBlock& whole) const;

  const TensorOf& golden_of_;
  const TensorBlock golden_;
  const JoinLimits& limits_;
  Joined best_;
  double least_ = std::numeric_limits<double>::infinity();
  bool looks_for_nearest_ = false;  // also in ways that the sums rule out
};

constexpr double kStepsOfSpacing = 4;  // spacings

// Relative; numbers below the smallest normal one have a wider one.
double spacing_of(const TensorDifference& found, const JoinLimits& limits) {
  return std::max(limits.spacing, found.rms > 0 ? kStepsOfSpacing * limits.least_step / found.rms : 0.0);
}

// Rows round each by itself: an error that they have in common, of size or mean, is none of rounding. The tolerance of a
// half type is several per cent, and would hide it. Rows of numbers below the smallest normal one round alike.
bool is_common_to_rows(const TensorDifference& found, const BlockShape& shape, const JoinLimits& limits) {
  const double spacing = spacing_of(found, limits);
  const double by_chance = left_by_chance(found, shape);
  const double common = common_error(found);
  return common > spacing * std::max(1.0, kStepsOfSpacing * by_chance) &&
         common > kStepsOfSpacing * by_chance * found.relative();
}

// Most of the error is one factor of all elements, which rounding does not give so many of.
bool is_factor_alone(const TensorDifference& found, const JoinLimits& limits) {
  constexpr double kSpacingsOff = 8, kApart = 8;
  constexpr std::uint64_t kFewest = 64;
  const PairSums& sums = found.sums;
  if (sums.finite_pairs < kFewest || sums.golden_squares <= 0) return false;
  const double factor = sums.products / sums.golden_squares;
  const double rest = std::sqrt(std::max(0.0, sums.squares - factor * sums.products) / sums.golden_squares);
  return std::abs(factor - 1) > kSpacingsOff * spacing_of(found, limits) && std::abs(factor - 1) > kApart * rest;
}

// Of each of `count` blocks along the axis, the median of the errors, beside the root mean square of the golden block.
std::vector<double> median_errors(const TensorBlock& whole, const TensorBlock& golden, std::size_t axis,
                                  std::size_t count) {
  const auto size = static_cast<std::size_t>(whole.shape[axis]);
  const auto inner = static_cast<std::size_t>(element_product(whole.shape, axis + 1, whole.shape.size()));
  std::vector<std::vector<double>> errors(count);
  std::vector<double> squares(count);
  for (std::size_t i = 0; i < whole.values.size(); ++i) {
    const std::size_t block = i / inner % size / (size / count);
    errors[block].push_back(std::abs(whole.values[i] - golden.values[i]));
    squares[block] += golden.values[i] * golden.values[i];
  }
  std::vector<double> medians;
  for (std::size_t block = 0; block < count; ++block) {
    const auto middle = errors[block].begin() + static_cast<std::ptrdiff_t>(errors[block].size() / 2);
    std::ranges::nth_element(errors[block], middle);
    const double rms = std::sqrt(squares[block] / static_cast<double>(errors[block].size()));
    medians.push_back(rms > 0 ? *middle / rms : 0);
  }
  return medians;
}

// Most elements of one rank's block are apart, and those of another one are not: no drift of a training does that, which
// the tolerance of a half type allows for. Single rows may be: those that a router sends to another expert.
bool is_of_one_part(const TensorBlock& whole, const TensorBlock& golden, const std::vector<JoinRule>& rules,
                    double spacing) {
  constexpr double kSpacingsApart = 8, kTimesApart = 8;
  std::map<std::size_t, std::size_t> parts;  // by axis
  for (const JoinRule& rule : rules) {
    if (rule.way != JoinRule::Way::cut || rule.leading != 1) continue;
    parts.try_emplace(rule.axis, 1).first->second *= rule.count;
  }
  return std::ranges::any_of(parts, [&](const auto& part) {
    const auto [axis, count] = part;
    if (whole.values.empty() || static_cast<std::size_t>(whole.shape[axis]) % count != 0) return false;
    const std::vector<double> medians = median_errors(whole, golden, axis, count);
    const auto [least, most] = std::ranges::minmax(medians);
    return most > kSpacingsApart * spacing && most > kTimesApart * least;
  });
}

double Joiner::factor_of(const TensorBlock& whole) const {
  if (limits_.factors.size() == 1) return limits_.factors.front();
  double products = 0, squares = 0;
  for (std::size_t i = 0; i < whole.values.size(); ++i) {
    if (!std::isfinite(whole.values[i]) || !std::isfinite(golden_.values[i])) continue;
    products += whole.values[i] * golden_.values[i];
    squares += golden_.values[i] * golden_.values[i];
  }
  const double ratio = squares > 0 ? products / squares : 1;
  return *std::ranges::min_element(limits_.factors, {}, [&](double factor) { return std::abs(ratio / factor - 1); });
}

void Joiner::look_at(const TensorBlock& whole, const std::vector<JoinRule>& rules) {
  const double factor = factor_of(whole);
  std::vector<double> scaled;
  if (factor != 1) {
    scaled = whole.values;
    for (double& value : scaled) value /= factor;
  }
  const BlockShape flat = {static_cast<std::int64_t>(whole.values.size())}, strides = {1};
  const auto view = [&](const std::vector<double>& values) {
    return TensorView{.dtype = DType::float64,
                      .data = reinterpret_cast<const std::byte*>(values.data()),
                      .shape = flat,
                      .strides = strides};
  };
  TensorDifference found = difference_of_values(view(factor == 1 ? whole.values : scaled), view(golden_.values));
  const bool same_bad = found.different_non_finite == 0;
  bool fits =
      same_bad && found.rms_error <= limits_.tolerance * found.rms + limits_.least &&
      found.max_error <= kLargest * (limits_.tolerance * found.max_size + limits_.least) &&
      (limits_.spacing == 0 || !(is_common_to_rows(found, golden_.shape, limits_) || is_factor_alone(found, limits_)));
  if (fits && limits_.spacing > 0 && factor == 1) {
    fits = !is_of_one_part(whole, golden_, rules, spacing_of(found, limits_));
  }
  // Of norms, the nearest counts: in a half type, one that is a root of 2 too large fits, too.
  const double error = fits && !limits_.are_norms ? -1
                       : same_bad                 ? found.rms_error
                                                  : std::numeric_limits<double>::max();
  if (best_.possible && error >= least_) return;
  least_ = error;
  best_.possible = true;
  best_.fits = fits;
  best_.factor = factor;
  best_.words = words_of(rules);
  best_.is_sum = std::ranges::any_of(rules, [](const JoinRule& rule) { return rule.way == JoinRule::Way::sum; });
  best_.is_of_squares =
      std::ranges::any_of(rules, [](const JoinRule& rule) { return rule.way == JoinRule::Way::squares; });
  best_.is_cut = std::ranges::any_of(rules, [](const JoinRule& rule) { return rule.way == JoinRule::Way::cut; });
  best_.difference = std::move(found);
  best_.difference.shape = Dims(whole.shape);
}

// By the sums of the parts, which are known: most ways need no joining.
bool Joiner::may_fit(const TensorBlocks& blocks, const JoinRule& rule) const {
  if (rule.way == JoinRule::Way::squares) return true;
  double sum = 0;
  for (const TensorBlock& block : blocks) {
    if (!block.known) continue;
    if (rule.way == JoinRule::Way::same) {
      sum = block.sum;
    } else {
      sum += block.sum;
    }
  }
  if (!std::isfinite(sum) || !std::isfinite(golden_.sum)) return true;
  const auto count = static_cast<double>(golden_.values.size());
  const double allowed = kSumSlack * limits_.tolerance * norm_of(golden_.values) * std::sqrt(count);
  const auto fits = [&](double factor) { return std::abs(sum / factor - golden_.sum) <= allowed; };
  for (std::size_t factor = 1; factor <= kLargestFactor; ++factor) {  // of those that are faults, too
    if (fits(static_cast<double>(factor)) || fits(1 / static_cast<double>(factor))) return true;
  }
  return std::ranges::any_of(limits_.factors, fits);
}

void Joiner::try_rules(const TensorBlocks& blocks, std::vector<std::size_t> sizes, std::vector<JoinRule>& rules,
                       bool with_leading) {
  if ((best_.fits && !limits_.are_norms) || !fits_into(blocks, golden_.shape)) return;
  if (sizes.empty()) {
    if (blocks[0].known && blocks[0].shape == golden_.shape) look_at(blocks[0], rules);
    return;
  }
  const std::size_t count = sizes.back();
  sizes.pop_back();
  const auto go = [&](const JoinRule& rule) {
    if (sizes.empty() && best_.possible && !looks_for_nearest_ && !may_fit(blocks, rule)) return;
    const std::optional<TensorBlocks> joined = join_neighbours(blocks, count, rule);
    if (!joined) return;
    rules.push_back(rule);
    try_rules(*joined, sizes, rules, with_leading);
    rules.pop_back();
  };
  go({JoinRule::Way::same, 0, count});
  const auto known = std::ranges::find_if(blocks, &TensorBlock::known);
  if (known == blocks.end()) return;
  for (std::size_t axis = 0; axis < golden_.shape.size(); ++axis) {
    if (known->shape[axis] == golden_.shape[axis]) continue;
    go({JoinRule::Way::cut, axis, count});
    const std::int64_t most =
        std::min<std::int64_t>(known->shape[axis], looks_for_nearest_ ? kMostOfNearest : kMostLeadingBlocks);
    for (std::int64_t leading = 2; with_leading && leading <= most; ++leading) {
      if (known->shape[axis] % leading == 0) go({JoinRule::Way::cut, axis, count, leading});
    }
  }
  go({limits_.are_norms ? JoinRule::Way::squares : JoinRule::Way::sum, 0, count});
}

void Joiner::try_all(const TensorBlocks& blocks, const std::vector<std::size_t>& sizes, bool with_leading) {
  std::vector<JoinRule> rules;
  try_rules(blocks, sizes, rules, with_leading);
}

// Of parts that fit in no way, the one in which they are nearest shows how far they are apart: what the sums rule out may
// be right but for an error.
void Joiner::look_for_nearest(const TensorBlocks& blocks, const std::vector<std::size_t>& sizes) {
  if (!best_.possible || best_.fits || best_.difference.relative() < kLikeNothing) return;
  looks_for_nearest_ = true;
  try_all(blocks, sizes, true);
  looks_for_nearest_ = false;
}

Joined Joiner::best(const TensorOf& part) {
  best_.difference.dtype = part.tensor->dtype;
  best_.difference.golden_dtype = golden_of_.tensor->dtype;
  best_.difference.golden_shape = Dims(golden_.shape);
  return std::move(best_);
}

// Ranks whose part is not the golden one's, where that of the others is: of the way of which most are right.
std::vector<std::size_t> ranks_apart(const TensorBlocks& blocks, const TensorParts& parts, const TensorBlock& golden,
                                     double tolerance) {
  std::vector<std::size_t> best;
  const auto count = static_cast<std::int64_t>(parts.ranks());
  const auto known = static_cast<std::size_t>(std::ranges::count_if(blocks, &TensorBlock::known));
  const auto look = [&](const std::function<std::optional<TensorBlock>(std::size_t)>& expected) {
    std::vector<std::size_t> apart;
    for (std::size_t rank = 0; rank < parts.ranks(); ++rank) {
      const std::optional<TensorBlock> of = expected(rank);
      if (!of) return;
      if (blocks[rank].known && !are_alike_blocks(*of, blocks[rank], tolerance)) apart.push_back(rank);
    }
    if (apart.size() < known && (best.empty() || apart.size() < best.size())) best = apart;
  };
  if (parts.calls() > 1) return {};
  look([&](std::size_t) { return golden; });
  for (std::size_t axis = 0; axis < golden.shape.size(); ++axis) {
    if (golden.shape[axis] % count != 0) continue;
    const std::int64_t outer = element_product(golden.shape, 0, axis);
    const std::int64_t inner = element_product(golden.shape, axis, golden.shape.size()) / count;
    look([&](std::size_t rank) {
      TensorBlock part{true, golden.shape, {}, 0};
      part.shape[axis] /= count;
      for (std::int64_t o = 0; o < outer; ++o) {
        const auto begin = golden.values.begin() + (o * count + static_cast<std::int64_t>(rank)) * inner;
        part.values.insert(part.values.end(), begin, begin + inner);
      }
      return std::optional(part);
    });
  }
  return best;
}

Joined with_problem(std::string problem) {
  Joined joined;
  joined.problem = std::move(problem);
  return joined;
}

bool has_no_values(const TensorOf& of) { return of.tensor->file.empty() && !of.tensor->constant; }

// Without dimensions of 1, where the two would else have other numbers of dimensions.
void squeeze_where_needed(TensorBlocks& blocks, TensorBlock& golden) {
  const bool needed = std::ranges::any_of(
      blocks, [&](const TensorBlock& block) { return block.known && block.shape.size() != golden.shape.size(); });
  if (!needed) return;
  for (TensorBlock& block : blocks) block.shape = squeezed(block.shape);
  golden.shape = squeezed(golden.shape);
}

// The golden tensor as a whole.
struct Reference {
  const TensorOf& of;
  TensorBlock block;
};

Joined join_blocks(TensorBlocks blocks, const TensorParts& parts, Reference golden, const JoinLimits& limits) {
  squeeze_where_needed(blocks, golden.block);
  drop_padding(blocks, golden.block.shape);
  Joiner joiner(golden.of, golden.block, limits);
  for (const bool with_leading : {false, true}) {
    if (with_leading && golden.block.values.size() > kMostForLeading) break;
    for (std::vector<std::size_t> sizes : mesh_sizes(parts.ranks())) {
      if (parts.calls() > 1) sizes.push_back(parts.calls());
      joiner.try_all(blocks, sizes, with_leading);
    }
  }
  const bool is_small = golden.block.values.size() <= kMostForNearest;
  if (is_small && parts.calls() == 1) joiner.look_for_nearest(blocks, {parts.ranks()});
  Joined joined = joiner.best(*parts.first());
  joined.tolerance = limits.tolerance;
  if (!joined.fits) joined.other_ranks = ranks_apart(blocks, parts, golden.block, limits.tolerance);
  return joined;
}

bool comes_nearer(const Joined& one, const Joined& other) {
  if (one.fits || !one.possible) return one.fits;
  return !other.possible || one.difference.relative() < other.difference.relative();
}

}  // namespace

bool TensorParts::any_without_values() const {
  return std::ranges::any_of(parts_,
                             [](const TensorOf& part) { return part.tensor != nullptr && has_no_values(part); });
}

TensorParts TensorParts::of_rank(std::size_t rank) const {
  TensorParts one(1, calls_);
  for (std::size_t call = 0; call < calls_; ++call) one.set(0, call, at(rank, call));
  return one;
}

const TensorOf* TensorParts::first() const {
  const auto found = std::ranges::find_if(parts_, [](const TensorOf& part) { return part.tensor != nullptr; });
  return found == parts_.end() ? nullptr : &*found;
}

bool TensorParts::any_unrecorded() const {
  return std::ranges::any_of(parts_,
                             [](const TensorOf& part) { return part.tensor != nullptr && !part.tensor->recorded(); });
}

Joined join(const TensorParts& parts, const TensorParts& golden, const JoinLimits& limits) {
  const TensorOf *first = parts.first(), *first_golden = golden.first();
  if (first == nullptr || first_golden == nullptr || parts.any_unrecorded() || golden.any_unrecorded()) return {};
  if (parts.any_without_values() || golden.any_without_values()) {
    return join_statistics(parts, golden, limits);
  }
  const Result<TensorBlocks> blocks = blocks_of(parts), golden_blocks = blocks_of(golden);
  if (!golden_blocks) return with_problem(golden_blocks.error().message);
  if (!blocks) return with_problem(blocks.error().message);
  std::optional<Joined> best;
  for (TensorBlock& whole : wholes_of(*golden_blocks, golden, *blocks)) {
    const bool is_sum = whole.is_sum;
    Joined joined = join_blocks(*blocks, parts, {*first_golden, std::move(whole)}, limits);
    joined.golden_is_sum = is_sum;
    if (!best || comes_nearer(joined, *best)) best = std::move(joined);
    if (best->fits) break;
  }
  return std::move(best).value_or(Joined());
}

}  // namespace sonde
