// The op before an input that differs, where the golden run has no counterpart of it: on the rank that reads it, on one
// that sent it or brought it into a collective, or in the step before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ask/unsharded/causes.h"
#include "ask/unsharded/origins.h"

namespace sonde {

class EarlierOps {
 public:
  explicit EarlierOps(const WholeStep& step) : step_(step), golden_(step.golden()), origins_(step) {}

  // The input differs, although the golden one's maker was found: the op behind those that are right.
  std::optional<ShardCause> before(std::uint32_t golden, const CompareInput& input, const Joined& joined) const;
  // Where the rank has what it reads from another one, that one's op.
  std::optional<ShardCause> before_received(std::size_t rank, const CompareInput& read, const ShardCause& cause) const;
  // A collective that made the input, which should have added up what the ranks have.
  std::optional<ShardCause> collective_before(std::uint32_t golden, const CompareInput& input,
                                              const Joined& joined) const;

 private:
  void choose(const Origins& origins, ShardCause cause, int& best_weight, std::optional<ShardCause>& best) const;
  std::optional<ShardCause> brought_by_others(const ShardCause& cause) const;
  std::optional<ShardCause> sent_by(std::size_t rank, const CompareSide& side, std::uint32_t receive,
                                    const ShardCause& cause) const;
  std::optional<ShardCause> in_step_before(std::size_t rank, const CompareInput& input, const ShardCause& cause) const;

  const WholeStep& step_;
  const CompareSide& golden_;
  const OriginSearch origins_;
};

}  // namespace sonde
