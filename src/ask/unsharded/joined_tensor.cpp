#include "ask/unsharded/joined_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "ask/unsharded/joined_statistics.h"
#include "ground/base/text.h"
#include "read/measure/measure.h"
#include "read/measure/slot_values.h"

namespace sonde {
namespace {

using Shape = std::vector<std::int64_t>;

// The elements of a part, or of several that are joined.
struct Block {
  bool known = false;
  Shape shape;
  std::vector<double> values;  // in C order
  double sum = 0;
  bool is_sum = false;  // parts were added up
};

constexpr double kSameOnRanks = 1e-6;             // replicas that reductions in another order have made
constexpr std::size_t kMostLeadingBlocks = 64;    // of a dimension that was made of two
constexpr std::size_t kMostForLeading = 1 << 24;  // elements
constexpr std::size_t kLargestFactor = 16;
constexpr double kSumSlack = 2;  // of an error of each element
constexpr double kLargest = 64;  // the largest error over the root mean square of all

std::int64_t product(const Shape& shape, std::size_t from, std::size_t to) {
  std::int64_t count = 1;
  for (std::size_t i = from; i < to; ++i) count *= shape[i];
  return count;
}

std::optional<Block> block_of(const TensorOf& of) {
  if (of.tensor == nullptr || !of.tensor->recorded()) return std::nullopt;
  const std::optional<SlotValues> slot = SlotValues::open(*of.rank, *of.tensor);
  if (!slot) return std::nullopt;
  Block block{true, slot->shape(), slot->values(), 0};
  block.sum = std::accumulate(block.values.begin(), block.values.end(), 0.0);
  return block;
}

double norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += std::isfinite(value) ? value * value : 0;
  return std::sqrt(squares);
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool are_alike(const Block& a, const Block& b, double tolerance) {
  if (a.shape != b.shape) return false;
  double squares = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    if (same_number(a.values[i], b.values[i])) continue;
    const double apart = a.values[i] - b.values[i];
    if (!std::isfinite(apart)) return false;
    squares += apart * apart;
  }
  return std::sqrt(squares) <= tolerance * norm(a.values);
}

bool is_zero(const Block& block) {
  return std::ranges::all_of(block.values, [](double value) { return value == 0; });
}

// How the parts along one dimension of the ranks, or of the calls, are joined.
struct Rule {
  enum class Way { same, cut, sum } way = Way::same;
  std::size_t axis = 0;
  std::size_t count = 1;     // of parts
  std::int64_t leading = 1;  // the axis is one of two that became one; the first has so many
};

using Blocks = std::vector<Block>;

std::optional<Block> same_block(const Block* first, std::size_t count) {
  const Block* known = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    if (!first[i].known) continue;
    if (known != nullptr && !are_alike(*known, first[i], kSameOnRanks)) return std::nullopt;
    if (known == nullptr) known = &first[i];
  }
  return known == nullptr ? Block{} : *known;
}

std::optional<Block> summed(const Block* first, std::size_t count) {
  Block sum = first[0];
  bool all_alike = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (!first[i].known || first[i].shape != sum.shape) return std::nullopt;
    all_alike = all_alike && are_alike(first[0], first[i], 0);
    if (i == 0) continue;
    sum.sum += first[i].sum;
    for (std::size_t k = 0; k < sum.values.size(); ++k) sum.values[k] += first[i].values[k];
  }
  // Equal parts are replicas: their sum would hide a mean.
  if (all_alike && count > 1 && !is_zero(first[0])) return std::nullopt;
  sum.is_sum = true;
  return sum;
}

std::optional<Block> cut_block(const Block* first, std::size_t count, const Rule& rule) {
  Block whole;
  for (std::size_t i = 0; i < count; ++i) {
    const Block& part = first[i];
    if (!part.known || part.shape.size() <= rule.axis || part.shape[rule.axis] % rule.leading != 0) return std::nullopt;
    whole.sum += part.sum;
    if (i == 0) {
      whole.known = true;
      whole.shape = part.shape;
      continue;
    }
    if (part.shape.size() != whole.shape.size()) return std::nullopt;
    for (std::size_t k = 0; k < part.shape.size(); ++k) {
      if (k != rule.axis && part.shape[k] != whole.shape[k]) return std::nullopt;
    }
    whole.shape[rule.axis] += part.shape[rule.axis];
  }
  const std::int64_t outer = product(whole.shape, 0, rule.axis) * rule.leading;
  whole.values.reserve(static_cast<std::size_t>(product(whole.shape, 0, whole.shape.size())));
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t run = static_cast<std::int64_t>(first[i].values.size()) / std::max<std::int64_t>(outer, 1);
      const auto begin = first[i].values.begin() + o * run;
      whole.values.insert(whole.values.end(), begin, begin + run);
    }
  }
  return whole;
}

// Joins groups of `count` neighbours.
std::optional<Blocks> reduced(const Blocks& blocks, std::size_t count, const Rule& rule) {
  Blocks out;
  for (std::size_t i = 0; i < blocks.size(); i += count) {
    std::optional<Block> one = rule.way == Rule::Way::same  ? same_block(&blocks[i], count)
                               : rule.way == Rule::Way::sum ? summed(&blocks[i], count)
                                                            : cut_block(&blocks[i], count, rule);
    if (!one) return std::nullopt;
    out.push_back(std::move(*one));
  }
  return out;
}

bool fits_into(const Blocks& blocks, const Shape& golden) {
  return std::ranges::all_of(blocks, [&](const Block& block) {
    if (!block.known) return true;
    if (block.shape.size() != golden.size()) return false;
    for (std::size_t i = 0; i < golden.size(); ++i) {
      if (block.shape[i] > golden[i]) return false;
    }
    return true;
  });
}

std::string words_of(const std::vector<Rule>& rules) {
  std::string text;
  for (const Rule& rule : rules) {
    if (rule.count == 1) continue;
    if (!text.empty()) text += ", then ";
    text += rule.way == Rule::Way::same  ? "the same on each"
            : rule.way == Rule::Way::sum ? "added up"
                                         : fmt::format("concatenated along {}", rule.axis);
  }
  return text;
}

class Joiner {
 public:
  Joiner(const TensorOf& golden_of, Block golden, const JoinLimits& limits)
      : golden_of_(golden_of), golden_(std::move(golden)), limits_(limits) {}

  // `sizes`: of the dimensions of ranks and calls, the last one is joined first.
  void try_all(const Blocks& blocks, const std::vector<std::size_t>& sizes, bool with_leading);
  Joined best(const TensorOf& part);

 private:
  void try_rules(const Blocks& blocks, std::vector<std::size_t> sizes, std::vector<Rule>& rules, bool with_leading);
  bool may_fit(const Blocks& blocks, const Rule& rule) const;
  void look_at(const Block& whole, const std::vector<Rule>& rules);
  double factor_of(const Block& whole) const;

  const TensorOf& golden_of_;
  const Block golden_;
  const JoinLimits& limits_;
  Joined best_;
  double least_ = std::numeric_limits<double>::infinity();
};

double Joiner::factor_of(const Block& whole) const {
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

void Joiner::look_at(const Block& whole, const std::vector<Rule>& rules) {
  const double factor = factor_of(whole);
  std::vector<double> scaled;
  if (factor != 1) {
    scaled = whole.values;
    for (double& value : scaled) value /= factor;
  }
  const Shape flat = {static_cast<std::int64_t>(whole.values.size())}, strides = {1};
  const auto view = [&](const std::vector<double>& values) {
    return TensorView{.dtype = DType::float64,
                      .data = reinterpret_cast<const std::byte*>(values.data()),
                      .shape = flat,
                      .strides = strides};
  };
  TensorDifference found = difference_of_values(view(factor == 1 ? whole.values : scaled), view(golden_.values));
  const bool same_bad = found.different_non_finite == 0;
  const bool fits = same_bad && found.rms_error <= limits_.tolerance * found.rms &&
                    found.max_error <= kLargest * limits_.tolerance * found.max_size;
  const double error = fits ? -1 : same_bad ? found.rms_error : std::numeric_limits<double>::max();
  if (best_.possible && error >= least_) return;
  least_ = error;
  best_.possible = true;
  best_.fits = fits;
  best_.factor = factor;
  best_.words = words_of(rules);
  best_.is_sum = std::ranges::any_of(rules, [](const Rule& rule) { return rule.way == Rule::Way::sum; });
  best_.is_cut = std::ranges::any_of(rules, [](const Rule& rule) { return rule.way == Rule::Way::cut; });
  best_.difference = std::move(found);
  best_.difference.shape = Dims(whole.shape);
}

// By the sums of the parts, which are known: most ways need no joining.
bool Joiner::may_fit(const Blocks& blocks, const Rule& rule) const {
  double sum = 0;
  for (const Block& block : blocks) {
    if (!block.known) continue;
    if (rule.way == Rule::Way::same) {
      sum = block.sum;
    } else {
      sum += block.sum;
    }
  }
  if (!std::isfinite(sum) || !std::isfinite(golden_.sum)) return true;
  const auto count = static_cast<double>(golden_.values.size());
  const double allowed = kSumSlack * limits_.tolerance * norm(golden_.values) * std::sqrt(count);
  const auto fits = [&](double factor) { return std::abs(sum / factor - golden_.sum) <= allowed; };
  for (std::size_t factor = 1; factor <= kLargestFactor; ++factor) {  // of those that are faults, too
    if (fits(static_cast<double>(factor)) || fits(1 / static_cast<double>(factor))) return true;
  }
  return std::ranges::any_of(limits_.factors, fits);
}

void Joiner::try_rules(const Blocks& blocks, std::vector<std::size_t> sizes, std::vector<Rule>& rules,
                       bool with_leading) {
  if (best_.fits || !fits_into(blocks, golden_.shape)) return;
  if (sizes.empty()) {
    if (blocks[0].known && blocks[0].shape == golden_.shape) look_at(blocks[0], rules);
    return;
  }
  const std::size_t count = sizes.back();
  sizes.pop_back();
  const auto go = [&](const Rule& rule) {
    if (sizes.empty() && best_.possible && !may_fit(blocks, rule)) return;
    const std::optional<Blocks> joined = reduced(blocks, count, rule);
    if (!joined) return;
    rules.push_back(rule);
    try_rules(*joined, sizes, rules, with_leading);
    rules.pop_back();
  };
  go({Rule::Way::same, 0, count});
  const auto known = std::ranges::find_if(blocks, &Block::known);
  if (known == blocks.end()) return;
  for (std::size_t axis = 0; axis < golden_.shape.size(); ++axis) {
    if (known->shape[axis] == golden_.shape[axis]) continue;
    go({Rule::Way::cut, axis, count});
    const auto most = static_cast<std::int64_t>(kMostLeadingBlocks);
    for (std::int64_t leading = 2; with_leading && leading <= std::min(known->shape[axis], most); ++leading) {
      if (known->shape[axis] % leading == 0) go({Rule::Way::cut, axis, count, leading});
    }
  }
  go({Rule::Way::sum, 0, count});
}

void Joiner::try_all(const Blocks& blocks, const std::vector<std::size_t>& sizes, bool with_leading) {
  std::vector<Rule> rules;
  try_rules(blocks, sizes, rules, with_leading);
}

Joined Joiner::best(const TensorOf& part) {
  best_.difference.dtype = part.tensor->dtype;
  best_.difference.golden_dtype = golden_of_.tensor->dtype;
  best_.difference.golden_shape = Dims(golden_.shape);
  return std::move(best_);
}

// The dimensions of the ranks: all in one, or of two, or of three.
std::vector<std::vector<std::size_t>> meshes(std::size_t ranks) {
  std::vector<std::vector<std::size_t>> found = {{ranks}};
  for (std::size_t a = 2; a < ranks; ++a) {
    if (ranks % a != 0) continue;
    found.push_back({a, ranks / a});
    for (std::size_t b = 2; b < ranks / a; ++b) {
      if (ranks / a % b == 0) found.push_back({a, b, ranks / a / b});
    }
  }
  return found;
}

// Ranks whose part is not the golden one's, where that of the others is: of the way of which most are right.
std::vector<std::size_t> ranks_apart(const Blocks& blocks, const TensorParts& parts, const Block& golden,
                                     double tolerance) {
  std::vector<std::size_t> best;
  const auto count = static_cast<std::int64_t>(parts.ranks());
  const auto known = static_cast<std::size_t>(std::ranges::count_if(blocks, &Block::known));
  const auto look = [&](const std::function<std::optional<Block>(std::size_t)>& expected) {
    std::vector<std::size_t> apart;
    for (std::size_t rank = 0; rank < parts.ranks(); ++rank) {
      const std::optional<Block> of = expected(rank);
      if (!of) return;
      if (blocks[rank].known && !are_alike(*of, blocks[rank], tolerance)) apart.push_back(rank);
    }
    if (apart.size() < known && (best.empty() || apart.size() < best.size())) best = apart;
  };
  if (parts.calls() > 1) return {};
  look([&](std::size_t) { return golden; });
  for (std::size_t axis = 0; axis < golden.shape.size(); ++axis) {
    if (golden.shape[axis] % count != 0) continue;
    const std::int64_t outer = product(golden.shape, 0, axis);
    const std::int64_t inner = product(golden.shape, axis, golden.shape.size()) / count;
    look([&](std::size_t rank) {
      Block part{true, golden.shape, {}, 0};
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
void squeeze_where_needed(Blocks& blocks, Block& golden) {
  const bool needed = std::ranges::any_of(
      blocks, [&](const Block& block) { return block.known && block.shape.size() != golden.shape.size(); });
  if (!needed) return;
  for (Block& block : blocks) block.shape = squeezed(block.shape);
  golden.shape = squeezed(golden.shape);
}

Result<Blocks> blocks_of(const TensorParts& parts) {
  Blocks blocks;
  for (std::size_t rank = 0; rank < parts.ranks(); ++rank) {
    for (std::size_t call = 0; call < parts.calls(); ++call) {
      const TensorOf& part = parts.at(rank, call);
      std::optional<Block> block = block_of(part);
      if (part.tensor != nullptr && !block) return open_file(*part.rank, *part.tensor).error();
      blocks.push_back(std::move(block).value_or(Block{}));
    }
  }
  return blocks;
}

// The golden tensor as a whole.
struct Reference {
  const TensorOf& of;
  Block block;
};

Joined join_blocks(Blocks blocks, const TensorParts& parts, Reference golden, const JoinLimits& limits) {
  squeeze_where_needed(blocks, golden.block);
  Joiner joiner(golden.of, golden.block, limits);
  for (const bool with_leading : {false, true}) {
    if (with_leading && golden.block.values.size() > kMostForLeading) break;
    for (std::vector<std::size_t> sizes : meshes(parts.ranks())) {
      if (parts.calls() > 1) sizes.push_back(parts.calls());
      joiner.try_all(blocks, sizes, with_leading);
    }
  }
  Joined joined = joiner.best(*parts.first());
  joined.tolerance = limits.tolerance;
  if (!joined.fits) joined.other_ranks = ranks_apart(blocks, parts, golden.block, limits.tolerance);
  return joined;
}

bool comes_nearer(const Joined& one, const Joined& other) {
  if (one.fits || !one.possible) return one.fits;
  return !other.possible || one.difference.relative() < other.difference.relative();
}

// `of (16, 8)` and `from (8, 0)` of `Shard(0) of (16, 8) on tp=2, from (8, 0)`. Empty: the text does not say it.
Shape sizes_after(std::string_view placement, std::string_view word) {
  Shape sizes;
  const std::size_t at = placement.find(word);
  if (at == std::string_view::npos) return sizes;
  std::string_view text = placement.substr(at + word.size());
  for (std::string_view size : fields_in(text.substr(0, text.find(')')), ',')) {
    size.remove_prefix(std::min(size.find_first_not_of(' '), size.size()));
    if (size.empty()) continue;  // of `(8,)`
    std::int64_t number = 0;
    if (std::from_chars(size.data(), size.data() + size.size(), number).ec != std::errc()) return {};
    sizes.push_back(number);
  }
  return sizes;
}

// The ranks that a placement is about: 4 of `on data=2 × tensor=2`. A mesh of fewer ranks than the run has says nothing
// about the others.
std::int64_t ranks_of_mesh(std::string_view placement) {
  const std::size_t at = placement.find(" on ");
  if (at == std::string_view::npos) return 0;
  std::string_view text = placement.substr(at);
  text = text.substr(0, text.find(','));
  std::int64_t count = 1;
  for (std::size_t sign = text.find('='); sign != std::string_view::npos; sign = text.find('=', sign + 1)) {
    std::int64_t size = 0;
    if (std::from_chars(text.data() + sign + 1, text.data() + text.size(), size).ec == std::errc()) count *= size;
  }
  return count;
}

// Copies a part into the whole, from `begin` on in each dimension. False: it does not fit in.
bool put_part(const Block& part, const Shape& begin, Block& whole) {
  if (part.shape.size() != whole.shape.size()) return false;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (begin[i] + part.shape[i] > whole.shape[i]) return false;
  }
  for (std::size_t i = 0; i < part.values.size(); ++i) {
    std::int64_t at = 0, rest = static_cast<std::int64_t>(i), stride = 1;
    for (std::size_t axis = part.shape.size(); axis-- > 0;) {
      at += (begin[axis] + rest % part.shape[axis]) * stride;
      rest /= part.shape[axis];
      stride *= whole.shape[axis];
    }
    whole.values[static_cast<std::size_t>(at)] = part.values[i];
  }
  return true;
}

// The whole tensor, as the placements of the parts say. Nothing: one has none, or has a part of a sum.
std::optional<Block> whole_by_placements(const Blocks& blocks, const TensorParts& parts) {
  Block whole;
  for (std::size_t rank = 0; rank < parts.ranks(); ++rank) {
    const CatalogTensor* tensor = parts.at(rank, 0).tensor;
    if (tensor == nullptr) continue;
    const std::string_view placement = tensor->placement;
    const Shape shape = sizes_after(placement, " of (");
    const bool is_of_all = ranks_of_mesh(placement) == static_cast<std::int64_t>(parts.ranks());
    if (!is_of_all || shape.empty() || placement.find("Partial") != std::string_view::npos) return std::nullopt;
    if (!whole.known)
      whole = {true, shape, std::vector<double>(static_cast<std::size_t>(product(shape, 0, shape.size()))), 0};
    Shape begin = sizes_after(placement, "from (");
    begin.resize(shape.size());
    if (shape != whole.shape || !put_part(blocks[rank], begin, whole)) return std::nullopt;
  }
  if (!whole.known) return std::nullopt;
  whole.sum = std::accumulate(whole.values.begin(), whole.values.end(), 0.0);
  return whole;
}

// The tensors that the golden parts can be of, without those that the target's parts have too few elements for.
class Wholes {
 public:
  explicit Wholes(const Blocks& target);

  void add(const Blocks& blocks, std::vector<std::size_t> sizes);
  std::vector<Block>& found() { return found_; }

 private:
  std::size_t most_ = 0;  // elements
  std::vector<Block> found_;
};

Wholes::Wholes(const Blocks& target) {
  for (const Block& block : target) most_ += block.values.size();
}

void Wholes::add(const Blocks& blocks, std::vector<std::size_t> sizes) {
  if (sizes.empty()) {
    const Block& whole = blocks.front();
    const bool is_known = std::ranges::any_of(found_, [&](const Block& other) { return are_alike(whole, other, 0); });
    if (whole.known && whole.values.size() <= most_ && !is_known) found_.push_back(whole);
    return;
  }
  const std::size_t count = sizes.back();
  sizes.pop_back();
  std::vector<Rule> rules = {{Rule::Way::same, 0, count}};
  for (std::size_t axis = 0; axis < blocks.front().shape.size(); ++axis) rules.push_back({Rule::Way::cut, axis, count});
  rules.push_back({Rule::Way::sum, 0, count});
  for (const Rule& rule : rules) {
    if (const std::optional<Blocks> joined = reduced(blocks, count, rule)) add(*joined, sizes);
  }
}

std::vector<Block> wholes_of(const Blocks& golden, const TensorParts& parts, const Blocks& target) {
  if (parts.is_one()) return golden;
  if (std::optional<Block> whole = whole_by_placements(golden, parts)) return {std::move(*whole)};
  Wholes wholes(target);
  for (const std::vector<std::size_t>& sizes : meshes(parts.ranks())) wholes.add(golden, sizes);
  return std::move(wholes.found());
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
  const Result<Blocks> blocks = blocks_of(parts), golden_blocks = blocks_of(golden);
  if (!golden_blocks) return with_problem(golden_blocks.error().message);
  if (!blocks) return with_problem(blocks.error().message);
  std::optional<Joined> best;
  for (Block& whole : wholes_of(*golden_blocks, golden, *blocks)) {
    const bool is_sum = whole.is_sum;
    Joined joined = join_blocks(*blocks, parts, {*first_golden, std::move(whole)}, limits);
    joined.golden_is_sum = is_sum;
    if (!best || comes_nearer(joined, *best)) best = std::move(joined);
    if (best->fits) break;
  }
  return std::move(best).value_or(Joined());
}

}  // namespace sonde
