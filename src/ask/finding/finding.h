// Finding: a result of an analysis: the place, the numbers, the reason and the evidence. Owns its texts, so
// it outlives its catalog.
//
//   Finding finding = finding_at(rank, step, op, &op.tensors[0]);
//   finding.kind = WrongKind::overflow;
//   finding.why = "exp of 90.3 does not fit float16, whose largest value is 65504";
//   finding.numbers.push_back({"largest input", 90.3});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dump/graph/source_text.h"
#include "read/catalog/catalog.h"
#include "read/operators/earlier_writer.h"
#include "sonde/findings.h"

namespace sonde {

FindingTensor finding_tensor(const CatalogRank& rank, const CatalogOp& op, const CatalogTensor& tensor);

// All facts of the dump about the place; `tensor` null: the finding is about the op.
Finding finding_at(const CatalogRank& rank, const CatalogStep& step, const CatalogOp& op,
                   const CatalogTensor* tensor = nullptr);

StepId step_of(const Finding& finding);

// Of an op whose line is in a library: the innermost line of the program itself that led there; of one in a function that
// several lines call: the line that called it. Nothing: it is neither, or not known.
std::optional<Caller> caller_of(const CatalogRank& rank, const CatalogOp& op);

// `around` lines before and after the op's own.
Code code_of(const CatalogRank& rank, const CatalogOp& op, SourceTexts& sources, std::uint32_t around = 1);

// The way through earlier steps of the rank.
std::vector<EarlierOp> earlier_ops(const CatalogRank& rank, const std::vector<EarlierWriter>& way);

// " --step 2 --graph 1 --rank 3", for a command; a graph other than training's, and the rank if it is needed.
std::string place_options(const CatalogRank& rank, StepId step, bool with_rank);

// A command for what to do next. The words of its purpose are written here alone.
NextCommand next_command(NextKind kind, std::string command);

// "output.0"
std::string slot_name(bool is_input, std::uint32_t slot);
std::string slot_name(const FindingTensor& tensor);
// "Default/…/conv2d-op0:output.0"; its name if nothing in the dump made it.
std::string name_of(const FindingTensor& tensor);

// "90.3", "65504", "3.40282e+38", "nan", "-inf"

}  // namespace sonde
