// Puts golden tensors in the place of results of the target, and computes again what follows. If that is golden then, the
// result should have been this golden tensor, whatever the operator did instead: no change of it is guessed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

struct GoldenInPlace {
  std::uint32_t op = kNoOp;                // of the target: the first whose result should have been another one
  std::uint32_t tensor = 0;                // of the target: this result
  std::uint32_t golden = 0;                // what it should have been
  std::uint32_t last = kNoOp;              // the last operator whose result would then be golden
  std::uint32_t last_golden = 0;           // that golden result
  std::vector<std::uint32_t> before = {};  // operators that may be meant: it, and those before it up to what is golden
  bool reads_golden = false;               // the operator reads what the golden run reads there: it is to blame itself
};

// By values alone. `region`: of the target.
std::optional<GoldenInPlace> golden_in_place(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                             const Region& region);

// "reads what the golden run reads; with golden … in the place of its result, that of … is golden …"
std::string text_of(const GoldenInPlace& found, const Pool& target, const Pool& golden);

// The later operator reads what the first one gives, or what is computed of it.
bool follows_from(const Pool& pool, std::uint32_t first, std::uint32_t later);

}  // namespace sonde
