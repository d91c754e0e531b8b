// Zeros by nature, and zeros that come from others. The debugger's recommendation names every tensor of zeros; in a healthy training
// these are fresh moments, biases and buffers, and whatever is computed from them. Here only the places where unexpected zeros
// begin stay hits.
#pragma once

#include <span>
#include <string_view>

#include "ask/watch/watchpoints.h"
#include "read/catalog/catalog.h"

namespace sonde {

// An operator that writes numbers which the program chose, or none: zeros, zeros_like, new_zeros, zero_, full, tensor, empty, …
bool chooses_values(std::string_view op_type);
// A parameter that begins with zeros: a bias, a running mean, a moment, the second matrix of LoRA.
bool begins_with_zeros(const CatalogOp& parameter);

// Takes hits of the recommended watchpoints out of the report: zeros by nature, zeros computed from other zeros, and changes of a
// weight that was all zero. The number of those is in a note.
void keep_origins_of_zeros(const Catalog& catalog, std::span<const Watchpoint> watchpoints, WatchReport& report);

}  // namespace sonde
