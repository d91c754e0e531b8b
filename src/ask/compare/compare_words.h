// Results of a comparison in words for people.
#pragma once

#include <string>
#include <vector>

#include "ask/compare/compare.h"

namespace sonde {

// "max error 0.119 at (0,3,1): 1.23, golden 1.11; …"; begins with a verb or a noun, without a full stop.
std::string difference_text(FindingKind kind, const ComparedTensor& tensor);

// The other side of an op of the target, or of an op of the golden dump.
inline std::string_view name_of_other(bool in_golden) { return in_golden ? "target" : "golden dump"; }

// "model.py:12", where the program runs the op.
std::string place_text(const CatalogOp& op);

// The finding's words without the largest error and the tolerance, for one line.
std::string short_text(const CompareFinding& finding);

// "the golden one is transposed", "NCHW, the golden one NHWC"; empty if the axes are the same.
std::string axes_text(const TensorDifference& difference);

// The differing arguments of two calls of one type: "eps=0.001, golden 1e-05". Not two spellings of one argument.
std::vector<std::string> attributes_apart(const CatalogOp& target, const CatalogOp& golden);
// Those of them that change results, not only shapes: numbers with a fraction, switches, modes.
std::vector<std::string> numbers_apart(const CatalogOp& target, const CatalogOp& golden);
// Numbers with a fraction: "eps=0.001, golden 1e-05".
std::vector<std::string> fractions_apart(const CatalogOp& target, const CatalogOp& golden);
// Those of them that decide which elements an op chooses.
std::vector<std::string> choices_apart(const CatalogOp& target, const CatalogOp& golden);
// Those that explain a difference of the size of rounding: numbers and modes that both calls give.
std::vector<std::string> values_apart(const CatalogOp& target, const CatalogOp& golden);

}  // namespace sonde
