// ForwardGap: the forwards without gradients between two training steps, by root. A reference model runs as often before
// each step; an evaluation does not.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace sonde {

class ForwardGap {
 public:
  // A root is called without gradients.
  void count(std::uint64_t root);
  // The forwards of this root, so far, belong to the training step to come. `first`: no training step has begun yet.
  bool is_as_often_as_before(std::uint64_t root, bool first) const;
  // A root is called with gradients; the next training step begins, or it continues the open one.
  void with_gradients(bool step_begins);
  // The gap so far has ended.
  void optimizer_stepped() { ended_ = true; }

 private:
  void begin();

  // Since the optimizer stepped; before the last training step.
  std::unordered_map<std::uint64_t, std::uint32_t> now_, before_;
  bool ended_ = false;  // the optimizer has stepped since
};

}  // namespace sonde
