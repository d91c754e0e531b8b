// The names of operators and tensors in every answer.
#pragma once

#include <string>

#include "catalog/catalog.h"

namespace sonde {

std::string rank_text(const CatalogRank& rank);       // "0"; "0 of run7" where the path holds several dumps
std::string slot_text(const CatalogTensor& tensor);   // "output.0"
std::string dtype_text(const CatalogTensor& tensor);  // "float32"; "?" when unknown
std::string shape_text(const CatalogTensor& tensor);  // "(2,3)"; "?" when unknown
std::string source_text(const CatalogOp& op);         // "train.py:12"; empty when unknown

}  // namespace sonde
