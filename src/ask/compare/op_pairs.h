// OpPairs: which ops of the two sides belong together: the matches made at the start, and the ops compared so far.
//
//   OpPairs pairs(step, options, apart);                        // matches
//   ComparedOp& op = pairs.keep(compared, {target}, {golden});  // for each op of the target, in order
//   pairs.keep_alone_in_golden();                               // in the end
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "ask/compare/compare.h"
#include "ask/compare/op_blocks.h"

namespace sonde {

inline constexpr std::size_t kLongestChain = 4;  // further ops that may together correspond to one op of the other side

using Group = std::vector<std::uint32_t>;                // ops of one side, in order; the last gives the outputs
using OpPair = std::pair<std::uint32_t, std::uint32_t>;  // of the target, golden

bool same_elements(const CatalogTensor& a, const CatalogTensor& b);  // or the shape of one is unknown

class OpPairs {
 public:
  // `apart`: pairs that an earlier pass found not to belong together.
  OpPairs(ComparedStep& step, const NameMap& names, const std::set<OpPair>& apart);

  const OpMatch& match_of(std::uint32_t target) const { return matches_[target]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(matches_.size()); }
  // The block that ends with the target's op; null: there is none.
  const OpBlock* block_at(std::uint32_t target) const;
  bool is_inside_block(std::uint32_t target) const { return inside_block_[target]; }  // and not its end
  bool is_promised(std::uint32_t golden) const { return promised_[golden]; }          // a match takes it
  bool are_apart(std::uint32_t target, std::uint32_t golden) const { return apart_.contains({target, golden}); }
  // One optimizer is fused, the other by lists or plain: only their final results can be compared.
  bool have_other_optimizers() const { return other_optimizers_; }

  // The compared op that it is part of; null: not compared so far.
  const ComparedOp* of_target(std::uint32_t op) const { return of_target_[op]; }
  const ComparedOp* of_golden(std::uint32_t op) const { return of_golden_[op]; }
  const ComparedOp* of(bool in_golden, std::uint32_t op) const { return in_golden ? of_golden_[op] : of_target_[op]; }
  const std::deque<ComparedOp>& ops() const { return step_.ops; }
  bool is_free_target(std::uint32_t op) const { return of_target_[op] == nullptr && matches_[op].golden == kNoOp; }
  bool is_free_golden(std::uint32_t op) const { return of_golden_[op] == nullptr && !promised_[op]; }
  // No counterpart was found for the op of this side.
  bool is_alone(bool in_golden, std::uint32_t op) const;
  // It reads, or is read by, an op without a counterpart.
  bool is_doubtful(const ComparedOp& op) const;
  // The first op of the chain of ops without a counterpart that leads to this one, but not beyond a collective: a
  // division before it is a part of the mean over the ranks.
  std::uint32_t first_alone_before(bool in_golden, std::uint32_t op) const;
  // It, and the ops after it that have no counterpart of their own, each a reader of the one before.
  Group chain_from(bool in_golden, std::uint32_t op) const;
  // The place of a golden op in the order of the target's.
  std::uint32_t place_of_golden(std::uint32_t golden) const;

  // The comparison of the two with each other; null: they do not belong together.
  const ComparedOp* compared_as(std::uint32_t target, std::uint32_t golden) const;
  bool same_producer(const CompareInput& target, const CompareInput& golden) const;
  // The compared output that both read; null: the inputs come from outside or from ops that do not belong together.
  const ComparedTensor* output_read(const CompareInput& target, const CompareInput& golden) const;

  // The match of the target's op is another golden op than before.
  void exchange(std::uint32_t target, std::uint32_t golden);
  ComparedOp& keep(ComparedOp op, const Group& target, const Group& golden);
  void keep_alone(std::uint32_t target);
  void keep_alone_in_golden();

 private:
  const CompareSide& side(bool in_golden) const { return in_golden ? golden_ : target_; }
  bool is_free(bool in_golden, std::uint32_t op) const { return in_golden ? is_free_golden(op) : is_free_target(op); }
  void leave_optimizers_out();
  void leave_other_lines_out();
  void collect_blocks();

  ComparedStep& step_;
  const CompareSide& target_;
  const CompareSide& golden_;
  const std::set<OpPair>& apart_;
  std::vector<OpMatch> matches_;  // by the target's ops
  std::vector<bool> promised_;    // by golden op
  std::vector<OpBlock> blocks_;
  std::vector<bool> inside_block_;                  // by the target's ops
  std::vector<ComparedOp*> of_target_, of_golden_;  // by op: into step_.ops
  bool other_optimizers_ = false;
};

}  // namespace sonde
