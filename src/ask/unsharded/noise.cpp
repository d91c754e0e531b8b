#include "ask/unsharded/noise.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ground/base/shape.h"

namespace sonde {
namespace {

constexpr double kLuck = 8;               // of one run's rounding beside another's
constexpr std::size_t kMostParts = 4096;  // of one memory

std::uint64_t elements_of_part(const CatalogTensor& tensor) {
  return tensor.has_shape ? static_cast<std::uint64_t>(element_count(tensor.shape)) : 0;
}

}  // namespace

void Noise::set(std::uint32_t op, std::size_t output, double rms) {
  const CompareOp& of = golden_.ops[op];
  if (rms > 0) known_[{of.op->sequence, of.outputs[output]->slot}] = rms;
}

void Noise::pass_on(std::uint32_t op) {
  double most = 0;
  Parts parts;
  for (const CompareInput& input : golden_.ops[op].inputs) {
    if (!input.is_read) continue;
    most = std::max(most, of(input));
    parts.merge(parts_of(input));
  }
  for (std::size_t i = 0; i < golden_.ops[op].outputs.size(); ++i) {
    const CatalogTensor& output = *golden_.ops[op].outputs[i];
    const bool is_part = !parts.empty() && elements_of_part(output) < parts.rbegin()->first;
    const auto part = parts.find(elements_of_part(output));
    set(op, i, !is_part ? most : part == parts.end() ? 0 : part->second);
    if (!is_part && !parts.empty()) parts_[{golden_.ops[op].op->sequence, output.slot}] = parts;
  }
}

double Noise::of(const CompareInput& input) const {
  double most = of_last_part(input);
  for (const auto& [elements, noise] : parts_of(input)) most = std::max(most, noise);
  return most;
}

Noise::Parts Noise::parts_of(const CompareInput& input) const {
  const CompareInput* memory = written_before(input, input);
  if (memory == nullptr) {
    const bool is_of_step = input.from != kNoOp;
    const auto known = is_of_step ? parts_.find({golden_.ops[input.from].op->sequence, input.from_slot}) : parts_.end();
    return known == parts_.end() ? Parts() : known->second;
  }
  Parts parts = {{elements_of_part(*input.tensor), 0}};
  const auto add = [&](const CompareInput& part) {
    if (part.from == kNoOp) return;
    const CatalogTensor* written = golden_.output(part.from, part.from_slot);
    if (written == nullptr || !written->has_shape) return;
    double& known = parts[elements_of_part(*written)];
    known = std::max(known, of_last_part(part));
  };
  add(input);
  for (std::size_t i = 0; i < kMostParts && memory != nullptr; ++i) {
    add(*memory);
    memory = written_before(*memory, input);
  }
  return parts;
}

const CompareInput* Noise::written_before(const CompareInput& memory, const CompareInput& read) const {
  if (memory.from == kNoOp) return nullptr;
  const CatalogTensor* part = golden_.output(memory.from, memory.from_slot);
  if (part == nullptr || !part->has_shape || !read.tensor->has_shape) return nullptr;
  if (element_count(part->shape) >= element_count(read.tensor->shape)) return nullptr;
  const CompareOp& writer = golden_.ops[memory.from];
  if (writer.in_place) return writer.inputs.empty() ? nullptr : &writer.inputs.front();
  const auto overwritten = std::ranges::find(writer.inputs, false, &CompareInput::is_read);
  return overwritten == writer.inputs.end() ? nullptr : &*overwritten;
}

double Noise::of_last_part(const CompareInput& input) const {
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
