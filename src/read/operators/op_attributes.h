// The attributes of an op, by their names.
#pragma once

#include <optional>
#include <string_view>

#include "read/catalog/catalog.h"

namespace sonde {

// Null: the op has none of that name, or the dump does not say.
const Attribute* attribute_of(const CatalogOp& op, std::string_view name);
// A number, or the first one of a list.
std::optional<double> number_in(const CatalogOp& op, std::string_view name);

// A batch norm in training, or its derivative: it normalises by the mean and the variance of the rows that it reads, and
// only writes its running statistics.
bool normalises_by_batch(const CatalogOp& op);

}  // namespace sonde
