// Alignment: two tensors of different memory order, brought into one order and to one size for comparison.
#pragma once

#include <string>
#include <vector>

#include "guests/msaccucmp/dump_file.h"
#include "guests/msaccucmp/outcome.h"

namespace sonde::msaccucmp {

struct Aligned {
  Array left, right;                // with equal numbers of elements
  std::vector<std::int64_t> shape;  // of the left array: what the `Shape` column shows
};

// Two tensors of NPU dumps that are stored with the same shape. Padding is removed if its size is known.
Outcome<Aligned> align_stored(const DumpTensor& left, const DumpTensor& right, unsigned threads);

// The layout of the golden tensor, from a rule file.
struct GoldenLayout {
  std::string format;  // "NCHW"; empty: as the left one
  std::vector<std::int64_t> shape;
};

enum class AlignFor {
  comparison,
  detail,  // a single operator: both sides in NCHW (NCDHW), so that people can find elements
};
// A tensor of an NPU and the golden tensor from its rule.
Outcome<Aligned> align_by_rule(const DumpTensor& left, const DumpTensor& right, GoldenLayout golden, AlignFor purpose,
                               unsigned threads);

// Unchanged: both must have one shape.
Outcome<Aligned> align_as_they_are(const DumpTensor& left, const DumpTensor& right);

// True if all sizes are 1, or if there are none.
bool is_scalar(const std::vector<std::int64_t>& shape);
// "[2,3,4]"
std::string bracketed(const std::vector<std::int64_t>& shape);

bool has_depth(std::int32_t format);

}  // namespace sonde::msaccucmp
