// The first difference of a sharded step from the golden one, and the op that it comes from.
#pragma once

#include <string>
#include <vector>

#include "ask/unsharded/whole_step.h"

namespace sonde {

struct ShardCause {
  FindingKind kind = FindingKind::op;
  std::uint32_t golden = kNoOp;    // the op that shows it
  std::size_t rank = 0;            // index into the ranks
  std::uint32_t op = kNoOp;        // of that rank
  std::uint32_t left_out = kNoOp;  // of kind `missing`: the golden op that the ranks do not have
  bool in_step_before = false;     // the op ran there
  bool uncertain = false;
  bool is_unreduced = false;  // it reads a gradient that the ranks have not exchanged
  const CatalogTensor* golden_tensor = nullptr;
  const CatalogTensor* tensor = nullptr;  // of the op, beside the golden one; null: the one of the same slot
  Joined joined = {};
  std::string what = {};
};

struct ShardCauses {
  std::vector<ShardCause> causes;         // in the golden order
  std::vector<std::uint32_t> harmless;    // golden ops that differ, without an effect
  std::vector<std::uint32_t> unfollowed;  // those that have one, and of which no cause was found
};

// Of a golden op's ranks: those whose parts differ, where the others' do not; else all of the stage.
std::vector<std::size_t> ranks_to_look_at(const WholeStep& step, std::uint32_t golden, const Joined& joined);

ShardCauses causes_of(const WholeStep& step);

}  // namespace sonde
