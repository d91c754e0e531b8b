// SHA-1 by the instructions that x86 processors have for it, since Goldmont, Zen and Ice Lake.
#pragma once

#include <span>

#include "ground/stats/hash_kernels.h"

namespace sonde {

// Narrowest first; empty if this CPU has no such instructions. Messages go in pairs, one pair after the other, since the
// steps of one message wait for each other and those of three do not fit in the registers.
std::span<const HashWidth> sha1_instruction_widths();

}  // namespace sonde
