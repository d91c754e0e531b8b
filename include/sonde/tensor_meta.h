// TensorMeta: the facts about one slot of one operator that do not depend on the reader. The record of a run, its
// journal, the catalog of a dump, findings and Dump::tensor() contain it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "sonde/dims.h"
#include "sonde/dtype.h"

namespace sonde {

inline constexpr std::uint64_t kNoSequence = ~0ULL;
// Replaces the number of an output for an internal result of the op (a saved mask), which is not one of its outputs.
inline constexpr std::uint32_t kInnerSlot = ~0U;

struct TensorMeta {
  bool is_input = false;
  bool wanted = true;  // the plan selects this slot; false: only its place in the graph is known
  // Position among the op's tensor arguments (lists flattened, None keeps its place) or results.
  std::uint32_t slot = 0;
  DType dtype = DType::undefined;  // undefined: not known without the tensor's file
  bool has_shape = false;
  Dims shape;
  // Equal numbers in one run: the same bytes in the same shape and type. 0: unknown.
  std::uint64_t content = 0;
  // For an input: sequence and output slot of the op that produced it: the last one that wrote that memory, or a later
  // one that made this view of it.
  std::uint64_t source = kNoSequence;
  std::uint32_t source_slot = 0;
  std::optional<double> constant;  // an input that is a number of the user's code
  std::uint64_t timestamp_us = 0;  // since the Unix epoch; names the file

  TensorMeta& meta() { return *this; }
  void set_shape(Dims sizes) {
    shape = std::move(sizes);
    has_shape = true;
  }
  void copy_shape(std::span<const std::int64_t> sizes) {
    shape.assign(sizes);
    has_shape = true;
  }
};

}  // namespace sonde
