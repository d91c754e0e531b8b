// The slices into which FFTS+ cuts an operator, put together again.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "msaccucmp/dump_file.h"

namespace sonde::msaccucmp {

// From the text of a file's attribute. Nothing when it says nothing of slices (an exception dump's is free text).
std::optional<Slicing> parse_slicing(std::string_view text);

// One operator from the files of its slices, in their order: every output joined along the axis that was cut, the
// inputs of the first. The latest file alone when the way of cutting is unknown.
Outcome<DumpOp> merge_slices(const OpFiles& files, std::vector<DumpOp> slices);

}  // namespace sonde::msaccucmp
