// Whether the ranks called the same collectives: a rank that did not arrive, calls another one, or with another size,
// makes the others wait for ever.
#pragma once

#include <cstdint>

#include "contract/command_answers.h"
#include "read/catalog/catalog.h"

namespace sonde {

// Adds what is wrong to `report`, and counts the calls that it compared. Calls of a group are compared up to the first
// difference: what follows is its effect.
void verify_calls_of_ranks(const Catalog& catalog, Verification& report);

}  // namespace sonde
