// The gates and states of each step of a golden LSTM or GRU, in each direction of its layers.
#pragma once

#include <cmath>
#include <string_view>

#include "ask/relations/inside_call.h"

namespace sonde {

inline double logistic_of(double value) { return 1 / (1 + std::exp(-value)); }

// `type`: that of bare_type(). False: it is another operator.
bool add_recurrence(const Call& call, std::string_view type);

}  // namespace sonde
