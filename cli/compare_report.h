// A comparison as text, table, JSON, CSV and JUnit.
#pragma once

#include <string>

#include "compare/compare.h"

namespace sonde {

// Something could not be looked at: "no difference" must not be said.
bool is_incomplete(const DumpComparison& comparison);

// Opens with what went wrong first; then what it read and was called with, two more findings and how many ops are what.
// `all`: every finding, and the ops without a counterpart. `problems`: a dump could not be read wholly.
std::string report_of(const DumpComparison& comparison, const CompareOptions& options, bool all, bool problems);
// Every op that has a counterpart, with its numbers.
std::string table_of(const DumpComparison& comparison, std::size_t width);
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
