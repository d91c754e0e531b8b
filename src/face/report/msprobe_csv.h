// The table of `msprobe compare`, with its verdicts, from a comparison of ours.
#pragma once

#include <string>

#include "ask/compare/compare.h"

namespace sonde {

// Needs CompareOptions::all_sums. The columns are those of real data, of statistics, or of checksums, depending on the
// dumps.
std::string msprobe_csv_of(const DumpComparison& comparison);

}  // namespace sonde
