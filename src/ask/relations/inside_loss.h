// The values inside of a golden loss: logarithms of shares, those of the labels, differences and their squares.
#pragma once

#include <string_view>

#include "ask/relations/inside_call.h"

namespace sonde {

// `type`: that of bare_type(). Of other operators nothing is added.
void add_loss(const Call& call, std::string_view type);

}  // namespace sonde
