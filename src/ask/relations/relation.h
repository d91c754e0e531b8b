// Relation: how a tensor of the target is made from tensors of the golden run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ask/relations/pool.h"
#include "read/measure/tensor_difference.h"
#include "sonde/answers.h"

namespace sonde {

// An axis of a part: all axes of the golden tensor but its last as one.
inline constexpr std::int32_t kAxisOfRows = 64;

// Indices `at` to `at + count` of the target's axis are those from `start` on, each `step` further, of the golden axis.
struct RelationPart {
  std::uint32_t golden = 0;  // tensor of the pool
  std::int32_t axis = -1;    // of it, without its 1s; -1: the whole tensor is one index; kAxisOfRows
  std::int64_t at = 0, start = 0, step = 1, count = 1;
};

struct Relation {
  RelationKind kind = RelationKind::none;
  std::int32_t axis = -1;            // of the target; -1: the whole tensor
  std::vector<std::int64_t> merged;  // the target's sizes with its first axes as one, and its last; empty: its own
  std::vector<RelationPart> parts;
  // With its axes in this order one side has the elements of the other; which side: `turns_target`.
  std::vector<std::size_t> order;
  bool turns_target = false;
  bool is_of_sums = false;  // statistics show it: the parts are whole tensors, their order is not known
  bool weak = false;        // so few or so plain elements that they are alike by chance: it only confirms
  TensorDifference difference;

  explicit operator bool() const { return kind != RelationKind::none; }
  std::uint32_t golden() const { return parts.front().golden; }
  // All of one golden tensor, its axes perhaps in another order.
  bool is_whole() const { return kind == RelationKind::same || kind == RelationKind::permuted; }
};

// The number of indices along an axis of a part, of a tensor of this shape without its 1s.
std::int64_t size_along(const std::vector<std::int64_t>& shape, std::int32_t axis);

// "rows 0 to 31 = q_proj.weight, 32 to 47 = k_proj.weight": for people.
std::string relation_text(const Relation& relation, const Pool& golden);

}  // namespace sonde
