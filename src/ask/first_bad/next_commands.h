// next_commands: what to do after an answer of first_bad, each with its command.
#pragma once

#include <vector>

#include "ask/first_bad/first_bad.h"
#include "read/catalog/catalog.h"

namespace sonde {

// Empty: nothing was found.
std::vector<NextCommand> next_commands(const Catalog& catalog, const FirstBad& report);

}  // namespace sonde
