// Adds facts from the host's own graph files to a catalog: source lines, data flow and attributes of operators for
// which the dump has only names, values and times. MindSpore writes such files beside its dumps.
#pragma once

#include "read/catalog/catalog.h"

namespace sonde {

// Only for runs without a journal, or whose journal has neither lines nor sources. Unreadable or malformed files
// become problems of the catalog.
void add_host_graphs(CatalogRank& rank, Catalog& catalog);

}  // namespace sonde
