// A whole catalog as text, every field of it: two are the same when their texts are.
#pragma once

#include <string>

#include "catalog/catalog.h"

namespace sonde {

// Leaves out the values of an index alone (CatalogStep::sum) and the objects that ops share (sites).
std::string text_of(const Catalog& catalog);

}  // namespace sonde
