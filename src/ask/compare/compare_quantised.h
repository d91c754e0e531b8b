// A quantised run beside one that is not: the loss of the quantisation is expected, a layer that loses much more is wrong.
#pragma once

#include "ask/compare/compare.h"

namespace sonde {

// In steps of which only one side is quantised, the findings that the loss explains are left out; a layer whose loss is
// far above that of the others is a finding. Steps without a layer that both have stay as they are.
void judge_quantised(DumpComparison& comparison);

}  // namespace sonde
