#include "ask/unsharded/tensor_blocks.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "read/measure/measure.h"
#include "read/measure/slot_values.h"

namespace sonde {
namespace {

constexpr double kSameOnRanks = 1e-6;  // replicas that reductions in another order have made

std::optional<TensorBlock> block_of(const TensorOf& of) {
  if (of.tensor == nullptr || !of.tensor->recorded()) return std::nullopt;
  const std::optional<SlotValues> slot = SlotValues::open(*of.rank, *of.tensor);
  if (!slot) return std::nullopt;
  TensorBlock block{true, slot->shape(), slot->values(), 0};
  block.sum = std::accumulate(block.values.begin(), block.values.end(), 0.0);
  return block;
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool is_zero(const TensorBlock& block) {
  return std::ranges::all_of(block.values, [](double value) { return value == 0; });
}

std::optional<TensorBlock> same_block(const TensorBlock* first, std::size_t count) {
  const TensorBlock* known = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    if (!first[i].known) continue;
    if (known != nullptr && !are_alike_blocks(*known, first[i], kSameOnRanks)) return std::nullopt;
    if (known == nullptr) known = &first[i];
  }
  return known == nullptr ? TensorBlock{} : *known;
}

std::optional<TensorBlock> summed(const TensorBlock* first, std::size_t count) {
  TensorBlock sum = first[0];
  bool all_alike = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (!first[i].known || first[i].shape != sum.shape) return std::nullopt;
    all_alike = all_alike && are_alike_blocks(first[0], first[i], 0);
    if (i == 0) continue;
    sum.sum += first[i].sum;
    for (std::size_t k = 0; k < sum.values.size(); ++k) sum.values[k] += first[i].values[k];
  }
  // Equal parts are replicas: their sum would hide a mean.
  if (all_alike && count > 1 && !is_zero(first[0])) return std::nullopt;
  sum.is_sum = true;
  return sum;
}

// Norms of parts: the root of the sum of their squares.
std::optional<TensorBlock> added_in_squares(const TensorBlock* first, std::size_t count) {
  TensorBlock whole = first[0];
  for (std::size_t k = 0; k < whole.values.size(); ++k) {
    double squares = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!first[i].known || first[i].shape != whole.shape) return std::nullopt;
      squares += first[i].values[k] * first[i].values[k];
    }
    whole.values[k] = std::sqrt(squares);
  }
  whole.sum = std::accumulate(whole.values.begin(), whole.values.end(), 0.0);
  return whole;
}

std::optional<TensorBlock> cut_block(const TensorBlock* first, std::size_t count, const JoinRule& rule) {
  TensorBlock whole;
  for (std::size_t i = 0; i < count; ++i) {
    const TensorBlock& part = first[i];
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
  const std::int64_t outer = element_product(whole.shape, 0, rule.axis) * rule.leading;
  whole.values.reserve(static_cast<std::size_t>(element_product(whole.shape, 0, whole.shape.size())));
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t run = static_cast<std::int64_t>(first[i].values.size()) / std::max<std::int64_t>(outer, 1);
      const auto begin = first[i].values.begin() + o * run;
      whole.values.insert(whole.values.end(), begin, begin + run);
    }
  }
  return whole;
}

std::optional<TensorBlock> joined_by(const JoinRule& rule, const TensorBlock* first, std::size_t count) {
  switch (rule.way) {
    case JoinRule::Way::same:
      return same_block(first, count);
    case JoinRule::Way::sum:
      return summed(first, count);
    case JoinRule::Way::squares:
      return added_in_squares(first, count);
    case JoinRule::Way::cut:
      break;
  }
  return cut_block(first, count, rule);
}

}  // namespace

std::int64_t element_product(const BlockShape& shape, std::size_t from, std::size_t to) {
  std::int64_t count = 1;
  for (std::size_t i = from; i < to; ++i) count *= shape[i];
  return count;
}

double norm_of(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += std::isfinite(value) ? value * value : 0;
  return std::sqrt(squares);
}

bool are_alike_blocks(const TensorBlock& a, const TensorBlock& b, double tolerance) {
  if (a.shape != b.shape) return false;
  double squares = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    if (same_number(a.values[i], b.values[i])) continue;
    const double apart = a.values[i] - b.values[i];
    if (!std::isfinite(apart)) return false;
    squares += apart * apart;
  }
  return std::sqrt(squares) <= tolerance * norm_of(a.values);
}

Result<TensorBlocks> blocks_of(const TensorParts& parts) {
  TensorBlocks blocks;
  for (std::size_t rank = 0; rank < parts.ranks(); ++rank) {
    for (std::size_t call = 0; call < parts.calls(); ++call) {
      const TensorOf& part = parts.at(rank, call);
      std::optional<TensorBlock> block = block_of(part);
      if (part.tensor != nullptr && !block) return open_file(*part.rank, *part.tensor).error();
      blocks.push_back(std::move(block).value_or(TensorBlock{}));
    }
  }
  return blocks;
}

void drop_padding(TensorBlocks& blocks, const BlockShape& golden) {
  const auto is_flat = [](const TensorBlock& block) { return block.known && block.shape.size() == 1; };
  if (golden.size() != 1 || !std::ranges::all_of(blocks, is_flat)) return;
  std::int64_t all = 0;
  for (const TensorBlock& block : blocks) all += block.shape[0];
  for (TensorBlock& block : blocks) {
    const bool is_last = &block == &blocks.back();
    const std::int64_t of_one = block.shape[0] - golden[0];
    const std::int64_t surplus = of_one > 0                                    ? of_one
                                 : is_last && all < golden[0] + block.shape[0] ? all - golden[0]
                                                                               : 0;
    if (surplus <= 0 || 2 * surplus > block.shape[0]) continue;
    const auto end = block.values.end() - surplus;
    if (!std::all_of(end, block.values.end(), [&](double value) { return same_number(value, *end); })) continue;
    block.values.erase(end, block.values.end());
    block.shape[0] -= surplus;
  }
}

std::optional<TensorBlocks> join_neighbours(const TensorBlocks& blocks, std::size_t count, const JoinRule& rule) {
  TensorBlocks out;
  for (std::size_t i = 0; i < blocks.size(); i += count) {
    std::optional<TensorBlock> one = joined_by(rule, &blocks[i], count);
    if (!one) return std::nullopt;
    out.push_back(std::move(*one));
  }
  return out;
}

std::vector<std::vector<std::size_t>> mesh_sizes(std::size_t ranks) {
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

}  // namespace sonde
