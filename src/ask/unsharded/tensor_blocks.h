// The elements of parts of a tensor, and the ways to join neighbours: ranks, or calls of a module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ask/unsharded/joined_tensor.h"
#include "sonde/result.h"

namespace sonde {

inline constexpr std::int64_t kMostLeadingBlocks = 64;  // of a dimension that was made of two

using BlockShape = std::vector<std::int64_t>;

// The elements of a part, or of several that are joined.
struct TensorBlock {
  bool known = false;
  BlockShape shape;
  std::vector<double> values;  // in C order
  double sum = 0;
  bool is_sum = false;  // parts were added up
};
using TensorBlocks = std::vector<TensorBlock>;

// How the parts along one dimension of the ranks, or of the calls, are joined.
struct JoinRule {
  enum class Way { same, cut, sum, squares } way = Way::same;
  std::size_t axis = 0;      // of a cut
  std::size_t count = 1;     // of parts
  std::int64_t leading = 1;  // the axis is one of two that became one; the first has so many
};

std::int64_t element_product(const BlockShape& shape, std::size_t from, std::size_t to);
double norm_of(const std::vector<double>& values);  // of the finite ones
// Up to the tolerance, of the norm; NaN is like NaN.
bool are_alike_blocks(const TensorBlock& a, const TensorBlock& b, double tolerance);

// Of all parts, rank by rank; not known where a rank has none. An error: a file cannot be read.
Result<TensorBlocks> blocks_of(const TensorParts& parts);
// A flat buffer that ranks share out ends in equal numbers where its elements are not a multiple of theirs: the parts
// without those that one process does not have.
void drop_padding(TensorBlocks& blocks, const BlockShape& golden);
// Joins groups of `count` neighbours. Nothing: the rule does not fit them.
std::optional<TensorBlocks> join_neighbours(const TensorBlocks& blocks, std::size_t count, const JoinRule& rule);
// The dimensions of the ranks: all in one, or of two, or of three.
std::vector<std::vector<std::size_t>> mesh_sizes(std::size_t ranks);

}  // namespace sonde
