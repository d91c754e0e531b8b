// Ops whose results fit, although they read something else than the golden op: an op before them is on one side alone.
#pragma once

#include <cstdint>
#include <set>

#include "ask/unsharded/whole_step.h"

namespace sonde {

// The golden inputs of an op with this label, which was found, in whose place its counterpart reads other values.
std::set<const CatalogTensor*> other_inputs(const WholeStep& step, std::uint32_t golden, const WholeStep::Label& label,
                                            bool reads_noise);

}  // namespace sonde
