// The names of tensors, and the lines of ops, in every answer.
#pragma once

#include <string>

#include "read/catalog/catalog.h"
#include "sonde/answers.h"

namespace sonde {

Side side_of(const CatalogTensor& tensor);
std::string slot_text(const CatalogTensor& tensor);                     // "output.0"
std::string name_of(const CatalogOp& op, const CatalogTensor& tensor);  // "{full name}:output.0"
std::string line_text(const CatalogOp& op);                             // " (train.py:41)"; empty without a line

}  // namespace sonde
