// Tries what would follow if an operator of the target did something else: the change that makes wrong results golden shows
// the operator to blame, and how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

struct Trial {
  std::uint32_t op = kNoOp;                  // of the target
  std::optional<std::uint32_t> weight = {};  // of the target: what the operator reads is to blame
  std::string what;
  std::uint32_t like = 0, golden = 0;  // the last result that would be golden
};

// Of the operators `ops`, in order; `least`: what follows must be golden in it or behind it. By values alone.
std::optional<Trial> mended_by(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                               const Region& region, const std::vector<std::uint32_t>& ops, std::uint32_t least);

}  // namespace sonde
