#include "ask/unsharded/noise.h"

#include <algorithm>
#include <cmath>

namespace sonde {
namespace {

constexpr double kLuck = 8;  // of one run's rounding beside another's

}  // namespace

void Noise::set(std::uint32_t op, std::size_t output, double rms) {
  const CompareOp& of = golden_.ops[op];
  if (rms > 0) known_[{of.op->sequence, of.outputs[output]->slot}] = rms;
}

void Noise::pass_on(std::uint32_t op) {
  double most = 0;
  for (const CompareInput& input : golden_.ops[op].inputs) {
    if (input.is_read) most = std::max(most, of(input));
  }
  for (std::size_t i = 0; i < golden_.ops[op].outputs.size(); ++i) set(op, i, most);
}

double Noise::of(const CompareInput& input) const {
  const bool is_of_step = input.from != kNoOp;
  const auto made = is_of_step ? std::pair(golden_.ops[input.from].op->sequence, input.from_slot)
                               : std::pair(input.tensor->source, input.tensor->source_slot);
  const auto known = known_.find(made);
  if (known != known_.end()) return known->second;
  if (!is_of_step || golden_.output(input.from, input.from_slot) != nullptr) return 0;
  // Kept by the op for the backward pass: the mean of a norm.
  const auto other = known_.lower_bound({made.first, 0});
  return other != known_.end() && other->first.first == made.first ? other->second : 0;
}

bool Noise::may_be_anything(const CompareInput& input) const { return std::isinf(of(input)); }

bool Noise::explains(const CompareInput& input, const Joined& read) const {
  if (may_be_anything(input)) return true;
  const TensorDifference& difference = read.difference;
  return read.possible && !read.fits && difference.different_non_finite == 0 &&
         difference.rms_error <= kLuck * of(input);
}

}  // namespace sonde
