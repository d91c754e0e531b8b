// Judges the tensors of the target by their relations, and finds the operator or weight that makes results differ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ask/relations/mapped.h"
#include "ask/relations/relation.h"

namespace sonde {

enum class Standing : std::uint8_t {
  good,     // corresponds to golden tensors, as far as rounding and its inputs explain
  beyond,   // corresponds, with an error that nothing explains
  alone,    // corresponds to nothing
  unknown,  // the dump has no numbers of it
};

// A side's operators that lie between what corresponds and results that do not.
struct Region {
  std::vector<char> has;           // by operator of the pool
  std::vector<std::uint32_t> ops;  // in order
  bool empty() const { return ops.empty(); }
};

struct Culprit {
  std::uint32_t op = kNoOp;                  // of the target's pool
  std::optional<std::uint32_t> weight = {};  // tensor of the target's pool: it is to blame, `op` reads it
  std::optional<std::uint32_t> golden = {};  // tensor of the golden pool that should have been met
  std::optional<std::uint32_t> like = {};    // tensor of the target's pool that is like `golden`
  std::vector<std::uint32_t> group = {};     // operators that may be meant, in order; empty: `op` alone
  bool uncertain = false;
  bool was_lost = false;      // the weight lacks another one: to blame although other operators that differ come first
  bool may_be_moved = false;  // `what` is no more than other values: an operator before it may have put them in order
  bool shows_error = false;   // beside `what`: how far `like` is from `golden`
  std::string what = {};
};

struct RelationJudgement {
  std::vector<Relation> relations;               // by tensor of the target
  std::vector<Standing> standings;               // by tensor of the target
  std::vector<char> is_weight;                   // by tensor of the target: a parameter, or data that are a golden one
  std::vector<char> met;                         // by tensor of the golden pool: all of it corresponds
  std::vector<std::uint64_t> counts_over_steps;  // by tensor of the target: its elements in all steps; empty: unknown
  std::size_t weights = 0, related_weights = 0;
  bool weights_are_others = false;  // most of them
  bool nothing_corresponds = false;
  bool nothing_compared =
      false;  // by statistics: no result of the target is golden, or has the size of one that is not
  bool has_results_left = false;  // by statistics: some differ that the other side has in no size
  Region target, golden;
  std::vector<Culprit> culprits;            // the first one is the answer
  std::vector<std::string> contradictions;  // a line for each entry of a map that the values contradict
};

// `golden` gets values inside of its operators if results differ. Both have been read with their parts. `claims`: what a
// map says; where the values contradict it, what they show counts.
RelationJudgement judge_relations(const Pool& target, Pool& golden, const Threads& threads, const MapClaims* claims);

// By a map alone, without a search: of both the shapes have been read, and each tensor is read once. Empty: the map does
// not say enough, the values contradict it, or results differ.
std::optional<RelationJudgement> judge_by_map(Pool& target, Pool& golden, const Threads& threads,
                                              const MapClaims& claims);

}  // namespace sonde
