// The names of ranks, types and source lines in every answer. Names of tensors: catalog/slot_text.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "read/catalog/catalog.h"
#include "read/catalog/slot_text.h"

namespace sonde {

std::string rank_text(std::uint32_t rank, std::string_view dump);  // "0"; "0 of run7" if the path holds several dumps
std::string rank_text(const CatalogRank& rank);
std::string dtype_text(const CatalogTensor& tensor);  // "float32"; "?" when unknown
std::string shape_text(const CatalogTensor& tensor);  // "(2,3)"; "?" when unknown
std::string source_text(const CatalogOp& op);         // "train.py:12"; empty when unknown

}  // namespace sonde
