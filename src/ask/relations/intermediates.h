// Values inside of golden operators that the other side may compute step by step: scores of attention, variances of norms,
// gates of an LSTM.
#pragma once

#include "ask/relations/blame.h"

namespace sonde {

// Adds those of `ops`, up to a limit. False: there are none.
bool add_intermediates(Pool& pool, const std::vector<std::uint32_t>& ops);

}  // namespace sonde
