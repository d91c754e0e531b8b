// A whole catalog as text, with every field: two catalogs are equal if their texts are.
#pragma once

#include <string>

#include "read/catalog/catalog.h"

namespace sonde {

// Leaves out the values that only an index has (CatalogStep::sum) and the objects that ops share (sites).
std::string text_of(const Catalog& catalog);

}  // namespace sonde
