// A step of a rank, and of the golden ranks together.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ask/unsharded/joined_tensor.h"
#include "ask/unsharded/sites.h"

namespace sonde {

struct RankStep {
  const CatalogRank* rank = nullptr;
  std::shared_ptr<CompareSide> side;
  std::size_t stage = 0;  // of a pipeline
  SiteCalls calls;
  std::shared_ptr<CompareSide> before = {};  // the step before; null: none
};

// A tensor of a call.
struct CallSlot {
  bool is_input = false;
  std::uint32_t number = 0;  // of an output its slot; of an input its slot, or its place among those of a group
};

// Null: the call has none there.
const CatalogTensor* tensor_at(const RankStep& rank, const SiteCall& call, const CallSlot& slot);

// The first golden rank shows the ops. If there are several, all have parts of its tensors.
class GoldenStep {
 public:
  explicit GoldenStep(const std::vector<RankStep>& ranks);

  const std::vector<RankStep>& all() const { return ranks_; }
  const CompareSide& side() const { return *ranks_.front().side; }
  const SiteCalls& calls() const { return ranks_.front().calls; }
  std::size_t ranks() const { return ranks_.size(); }
  const CompareSide* before() const { return ranks_.front().before.get(); }  // null: unknown
  bool is_sharded() const { return ranks_.size() > 1; }
  // The op, with the others that an op on a wrapper is made of. Empty: a trial's.
  const std::vector<std::uint32_t>& ops_of_call(std::uint32_t op) const;
  // Inputs of an op; of one that is several ops, those that they read from outside.
  std::vector<const CompareInput*> inputs_of_call(std::uint32_t op) const;
  // A tensor of the first rank, and those of the same call of the others.
  TensorParts parts_of(const TensorOf& tensor) const;

 private:
  const std::vector<RankStep>& ranks_;
  std::map<const CatalogTensor*, std::uint32_t> ops_;  // of several ranks: by tensor of the first one
};

}  // namespace sonde
