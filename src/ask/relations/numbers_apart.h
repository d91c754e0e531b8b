// Operators that the target calls with another number than the golden operator that computes the same at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ask/relations/pool.h"

namespace sonde {

struct NumberApart {
  std::uint32_t op = 0;  // of the target
  std::string what;      // "adds 1e-05, and the golden norm 1e-06"
};

// One of the golden operators multiplies by this number, or is an attention that scales by it or its square.
bool scales_by(const Pool& golden, const std::vector<std::uint32_t>& golden_ops, double number);

class NumbersApart {
 public:
  // `golden_ops`: those that the target's operators may stand for.
  NumbersApart(const Pool& target, const Pool& golden, const std::vector<std::uint32_t>& golden_ops)
      : target_(target), golden_(golden), golden_ops_(golden_ops) {}

  // The first of these that scales by another number than the golden attention, or runs along another axis than the last.
  std::optional<NumberApart> of_attention(const std::vector<std::uint32_t>& ops) const;
  // The first of these that has another epsilon than the golden norm, or divides by another number.
  std::optional<NumberApart> of_norm(const std::vector<std::uint32_t>& ops) const;

  // The only one of these with a number that the golden operators do not have, where these have one that is in none of them.
  std::optional<NumberApart> of_one(const std::vector<std::uint32_t>& ops) const;

 private:
  bool golden_adds(double number) const;

  const Pool& target_;
  const Pool& golden_;
  const std::vector<std::uint32_t>& golden_ops_;
};

}  // namespace sonde
