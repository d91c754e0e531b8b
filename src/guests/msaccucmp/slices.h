// Combines the slices into which FFTS+ cuts an operator.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "guests/msaccucmp/dump_file.h"

namespace sonde::msaccucmp {

// Parses the attribute of a file. Empty if it does not describe slices (in an exception dump it is free text).
std::optional<Slicing> parse_slicing(std::string_view text);

// Combines one operator from the files of its slices, in their order: every output is joined along the axis that was
// cut, and the inputs are those of the first. Uses the latest file alone if the kind of slicing is unknown.
Outcome<DumpOp> merge_slices(const OpFiles& files, std::vector<DumpOp> slices);

}  // namespace sonde::msaccucmp
