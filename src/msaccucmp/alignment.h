// Alignment: two tensors of different memory order, brought into one order and to one size for comparison.
#pragma once

#include <string>
#include <vector>

#include "msaccucmp/dump_file.h"
#include "msaccucmp/outcome.h"

namespace sonde::msaccucmp {

struct Aligned {
  Array left, right;                // as many elements
  std::vector<std::int64_t> shape;  // of the left array: what the `Shape` column shows
};

// Two tensors of NPU dumps that are stored with the same shape. Real padding is taken away where it is known; nothing
// else is.
Outcome<Aligned> align_stored(const DumpTensor& left, const DumpTensor& right, unsigned threads);

// The layout of the golden tensor, from a rule file.
struct GoldenLayout {
  std::string format;  // "NCHW"; empty: as the left one
  std::vector<std::int64_t> shape;
};

enum class AlignFor {
  comparison,
  detail,  // of a single operator: both sides in NCHW (NCDHW), for people to find their way
};
// An NPU's tensor and what its rule says is the golden one.
Outcome<Aligned> align_by_rule(const DumpTensor& left, const DumpTensor& right, GoldenLayout golden, AlignFor purpose,
                               unsigned threads);

// As they are: both must have one shape.
Outcome<Aligned> align_as_they_are(const DumpTensor& left, const DumpTensor& right);

// All sizes are 1, or there are none.
bool is_scalar(const std::vector<std::int64_t>& shape);
// "[2,3,4]"
std::string bracketed(const std::vector<std::int64_t>& shape);

bool has_depth(std::int32_t format);

}  // namespace sonde::msaccucmp
