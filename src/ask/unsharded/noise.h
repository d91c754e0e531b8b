// Tensors that are nothing but rounding, as the gradient of a key's bias in an attention, whose true value is 0: two runs
// have other values there, and so has what is computed from them.
//
//   Noise noise(golden, learned.noise);
//   noise.set(op, output, 1e-10);
//   if (noise.explains(input, joined)) ...  // that the two runs read other values
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "ask/compare/compare_side.h"
#include "ask/unsharded/joined_tensor.h"

namespace sonde {

// Of golden tensors, by the sequence number of the op that made them and their slot: the root mean square of the error that
// rounding explains; infinite: gradients overflow in both runs, and nothing is left to compare.
using NoiseOfOutputs = std::map<std::pair<std::uint64_t, std::uint32_t>, double>;

class Noise {
 public:
  // `known`: of the steps before; this step adds its own.
  Noise(const CompareSide& golden, NoiseOfOutputs& known) : golden_(golden), known_(known) {}

  // Of an output of a golden op: the error that rounding explains; 0: the tensor is more than rounding.
  void set(std::uint32_t op, std::size_t output, double rms);
  // The op only moves what it reads.
  void pass_on(std::uint32_t op);
  // The golden op's input differs, as two runs' rounding does.
  bool explains(const CompareInput& input, const Joined& read) const;
  bool is_in(const CompareInput& input) const { return of(input) > 0; }
  // It is made from gradients that overflow in both runs.
  bool may_be_anything(const CompareInput& input) const;

 private:
  // By the number of their elements: what ops have written one after the other into one memory, as the bucket of
  // gradients. The last one is the memory itself. Empty: one op wrote all of it.
  using Parts = std::map<std::uint64_t, double>;

  double of(const CompareInput& input) const;
  double of_last_part(const CompareInput& input) const;
  Parts parts_of(const CompareInput& input) const;
  // The memory before the last part was written; null: that op wrote all that is read.
  const CompareInput* written_before(const CompareInput& memory, const CompareInput& read) const;

  const CompareSide& golden_;
  NoiseOfOutputs& known_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, Parts> parts_;  // of outputs of this step, as in known_
};

}  // namespace sonde
