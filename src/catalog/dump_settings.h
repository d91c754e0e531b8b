// What the copy of a run's configuration tells that the journal does not: how what is missing is to be read.
#pragma once

#include "catalog/catalog.h"

namespace sonde {

struct DumpSettings {
  bool only_overflows = false;  // ops whose results were finite were not kept
  bool inputs_after = false;    // inputs are as their operator left them
  bool reread = false;          // every input was read again, also where nobody is known to have written it
};

// From the configurations in the rank's metadata that can be read; nothing where there is none.
DumpSettings settings_of(const CatalogRank& rank);

}  // namespace sonde
