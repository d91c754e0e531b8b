// A comparison as text, table, answer, CSV and JUnit.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "ask/compare/compare.h"
#include "sonde/answers.h"

namespace sonde {

// Begins with the first error; then the inputs and arguments of its op, two more findings and the number of ops with
// each verdict. `all`: every finding, the ops without a counterpart, and a table of the others, `width` columns wide.
// With marks (line_kind.h).
std::string report_of(const DumpComparison& comparison, const CompareOptions& options, bool all, std::size_t width);
// The commands that follow the first difference; empty: there is none.
std::vector<NextCommand> next_commands(const DumpComparison& comparison, const CompareOptions& options);
// Without problems and without `ops`: there may be many, and they follow one by one.
Comparison answer_of(const DumpComparison& comparison, const CompareOptions& options);
void for_each_op(const DumpComparison& comparison, const std::function<void(OperatorPair&&)>& take);
std::string csv_of(const DumpComparison& comparison);
std::string junit_of(const DumpComparison& comparison);

// A table of the layers by the errors that they introduce.
std::string layers_text(const DumpComparison& comparison, std::size_t width);

// A table of how tensors of two implementations correspond; the same for spreadsheets.
std::string relations_text(const DumpComparison& comparison, std::size_t width);
std::string relations_csv(const DumpComparison& comparison);

// The numbers of one output in all of these forms; NaN if the dumps do not have them.
struct OutputNumbers {
  double relative, max_error, mean_error, cosine, allowed;
};
OutputNumbers numbers_of(const ComparedTensor& output);

std::string step_text(const DumpComparison& comparison, const ComparedStep& step);  // "rank 1, step 3"
// The error and its place: one line.
std::string line_of(const DumpComparison& comparison, const CompareFinding& finding);

// A line for each input and argument of the operator of a difference, on both sides.
std::vector<std::string> evidence_of(const DumpComparison& comparison, const CompareFinding& finding);
std::string place_after_comma(const CatalogOp& op);  // ", train.py:12"; empty: not known

using VerdictCounts = std::array<std::size_t, 6>;  // of ops, by OpVerdict
VerdictCounts count_verdicts(const DumpComparison& comparison);

std::string names_of(const std::vector<const CatalogOp*>& ops);  // "a + b"

}  // namespace sonde
