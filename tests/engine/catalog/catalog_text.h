// A whole catalog as text, every field of it: two are the same when their texts are.
#pragma once

#include <string>

#include "catalog/catalog.h"

namespace sonde {

// Without what only an index tells (CatalogStep::sum), and what shares between ops (sites).
std::string text_of(const Catalog& catalog);

}  // namespace sonde
