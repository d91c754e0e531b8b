// What the graph files of the host itself add to a catalog: source lines, data flow and attributes of operators of which
// the dump says no more than names, values and times. MindSpore writes such files beside its dumps.
#pragma once

#include "catalog/catalog.h"

namespace sonde {

// Only to runs whose journal, if there is one, has neither lines nor sources. Files that cannot be read, or make no sense,
// become problems of the catalog.
void add_host_graphs(CatalogRank& rank, Catalog& catalog);

}  // namespace sonde
