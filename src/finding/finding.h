// Finding: what an analysis reports: where, which numbers, why it matters, and what it saw that says so. Owns its texts, so
// it outlives the catalog it was made from.
//
//   Finding finding = finding_at(rank, step, op, &op.tensors[0]);
//   finding.kind = "overflow";
//   finding.why = "exp of 90.3 does not fit float16, whose largest value is 65504";
//   finding.numbers.push_back({"largest input", 90.3});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "graph/source_text.h"

namespace sonde {

struct Number {
  std::string name;
  double value = 0;
};

// A tensor that a finding is about or points to.
struct FindingTensor {
  std::string op;  // full name; empty where nothing in the dump made it
  std::string op_type;
  bool is_input = false;
  std::uint32_t slot = 0;
  std::string tensor_name;  // of the parameter, gradient or input data it is
  DType dtype = DType::undefined;
  bool has_shape = false;
  std::vector<std::int64_t> shape;
  std::optional<KnownStatistics> statistics;
  std::string file;  // whole path; empty: no values
};

// A line of the program, with its neighbours where the text is there.
struct FindingCode {
  std::string file, function;
  std::uint32_t line = 0;  // 0: unknown
  struct Line {
    std::uint32_t number = 0;
    std::string text;
  };
  std::vector<Line> lines;
};

enum class Severity : std::uint8_t {
  error,    // exit status 1
  warning,  // exit status 1
  note,     // worth telling, nothing wrong: exit status 0
};
std::string_view word_of(Severity severity);

struct Finding {
  std::string kind;  // of the analysis' own list: `overflow`, `bad_input`, …
  Severity severity = Severity::error;
  std::uint32_t rank = 0;
  StepId step;
  Phase phase = Phase::forward;
  FindingTensor tensor;  // what is wrong; its `op` is the op that is to blame
  FindingCode code;
  std::vector<std::string> tags;  // what else is true of it: `backward_only`, `one_rank_only`, …
  std::vector<Number> numbers;
  std::string why;                    // one sentence
  std::vector<std::string> evidence;  // what was seen, a line each
  std::vector<std::string> limits;    // what this dump cannot tell, a line each
};

FindingTensor finding_tensor(const CatalogRank& rank, const CatalogOp& op, const CatalogTensor& tensor);

// Everything that the dump says of the place; `tensor` null: the op as a whole.
Finding finding_at(const CatalogRank& rank, const CatalogStep& step, const CatalogOp& op,
                   const CatalogTensor* tensor = nullptr);

// `around` lines before and after the op's own.
FindingCode code_of(const CatalogOp& op, SourceTexts& sources, std::uint32_t around = 1);

// "output.0"
std::string slot_name(bool is_input, std::uint32_t slot);
// "Default/…/conv2d-op0:output.0"; of something nothing in the dump made, its name.
std::string name_of(const FindingTensor& tensor);

// "90.3", "65504", "3.40282e+38", "nan", "-inf"
std::string number_text(double value);

}  // namespace sonde
