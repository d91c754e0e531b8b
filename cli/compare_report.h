// A comparison as text, table, JSON, CSV and JUnit.
#pragma once

#include <string>

#include "analysis/compare.h"

namespace sonde {

// Opens with what went wrong first; then what it read and was called with, other findings, how many ops are what, and
// those without a counterpart: the first ones, or all of them where `all`.
std::string report_of(const DumpComparison& comparison, const CompareOptions& options, bool all);
// Ops that are not the same to the bit; all of them where `all`.
std::string table_of(const DumpComparison& comparison, bool all, std::size_t width);
void answer(const DumpComparison& comparison, const CompareOptions& options);  // into the document of --json
std::string csv_of(const DumpComparison& comparison);
std::string junit_of(const DumpComparison& comparison);

// How one output's numbers are told in all of these; NaN where the dumps do not tell.
struct OutputNumbers {
  double relative, max_error, mean_error, cosine, allowed;
};
OutputNumbers numbers_of(const ComparedTensor& output);

std::string names_of(const std::vector<const CatalogOp*>& ops);  // "a + b"

}  // namespace sonde
