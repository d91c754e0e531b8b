// BriefOps: ops of one step of which only names and places in the graph are recorded. A plan that selects few operators
// has thousands of them per step, and a Record of its own for each costs the host's thread several times as much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dump/journal/record.h"

namespace sonde {

class BriefOps {
 public:
  static constexpr std::size_t kMost = 64;

  // Whether nothing of the record would be lost: it is one of an op, without statistics, hashes, bytes or files.
  static bool can_hold(const Record& record);

  explicit BriefOps(StepId step);
  StepId step() const { return step_; }
  // False: the record is of another step, or there is no room.
  bool add(const Record& record);

  std::size_t size() const { return ops_.size(); }
  // Calls take(from, to) for ranges that hold their sequences, [from, to).
  template <typename Take>
  void sequences(Take take) const {
    for (std::size_t end = 0, begin = 0; begin < ops_.size(); begin = end) {
      const std::uint64_t first = ops_[begin].named.sequence;
      for (end = begin + 1; end < ops_.size() && ops_[end].named.sequence == first + (end - begin);) ++end;
      take(first, first + (end - begin));
    }
  }
  // Calls take(record) for each op, in the order in which they were added. `spare()` gives an empty vector.
  template <typename Spare, typename Take>
  void expand(Spare spare, Take take) const {
    Place at;
    for (const BriefOp& op : ops_) take(expanded(op, at, spare()));
  }

 private:
  struct BriefOp {
    NamedRecord named;
    bool selected = false;
    std::uint32_t tensors = 0;
  };
  struct BriefTensor {
    std::uint64_t content = 0, source = kNoSequence;
    std::optional<double> constant;
    const char* skipped = nullptr;
    std::uint32_t slot = 0, source_slot = 0, parameter = 0, placement = 0, dims = 0;
    DType dtype = DType::undefined;
    bool is_input = false, wanted = false, has_shape = false;
  };
  struct Place {
    std::size_t tensor = 0, dim = 0;
  };

  void add(const TensorRecord& tensor);
  Record expanded(const BriefOp& op, Place& at, std::vector<TensorRecord>&& tensors) const;
  TensorRecord expanded(const BriefTensor& brief, Place& at) const;

  StepId step_;
  std::vector<BriefOp> ops_;
  std::vector<BriefTensor> tensors_;  // of all ops, one after the other
  std::vector<std::int64_t> dims_;    // of all tensors
};

}  // namespace sonde
