// Comparison: the common parts of all ways to compare two directories. Only used inside src/guests/msaccucmp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ground/base/parallel.h"
#include "guests/msaccucmp/alignment.h"
#include "guests/msaccucmp/compare.h"
#include "guests/msaccucmp/custom.h"
#include "guests/msaccucmp/directory.h"
#include "guests/msaccucmp/dump_file.h"
#include "guests/msaccucmp/result_table.h"
#include "guests/msaccucmp/rules.h"

namespace sonde::msaccucmp {

// The result for one operator, or for a group of them.
struct GroupResult {
  std::vector<Row> rows;
  Code status = Code::ok;
  bool matched = false;               // something was compared
  std::vector<std::string> warnings;  // for the log, in the order of the groups
};

struct Comparison {
  const CompareOptions& options;
  const Log& log;
  Directory left, right;
  Rules rules;  // empty without -f and -q
  Columns columns;
  std::unique_ptr<CustomAlgorithms> custom;  // null: none was requested
  Threads threads;

  bool has_rules() const { return !options.rules.empty() || !options.quant_rules.empty(); }
};

// The use of threads: several tensors in parallel with a thread each, or one tensor with all threads.
struct Hands {
  ForEach for_each = in_order;
  unsigned threads = 1;
};

// The values of one pair, and remarks about them in `row.reason`. `shape` decides whether it is a scalar. For two NPU
// dumps without rules bools are compared as numbers, and -max is ignored.
void fill_values(const Comparison& comparison, const Aligned& aligned, const std::vector<std::int64_t>& shape,
                 const std::string& left_path, const std::string& right_path, const Hands& hands, Row& row);
// "YES", "NO" or "NaN": float16 that reached its largest value.
std::string overflow_text(const DumpTensor& tensor, const Hands& hands);
// Rows without a value, or one row for a whole operator.
Row failed_row(std::int64_t index, std::string left, std::string right, std::string reason);
void add_reason(Row& row, const std::string& reason);
// The `Address` column of an NPU's tensor.
std::string address_text(const DumpTensor& tensor);

// Direct comparison of two NPU dumps, operator by operator name.
struct DirectOp {
  std::int64_t index = 0;
  const OpFiles *left = nullptr, *right = nullptr;  // one may be missing
};
std::vector<DirectOp> direct_ops(const Directory& left, const Directory& right);
GroupResult compare_direct(const Comparison& comparison, const DirectOp& op, const Hands& hands);

// By the rules of a fused model.
GroupResult compare_group(const Comparison& comparison, const Group& group, const Hands& hands);
// The golden tensor of an operator's input or output: its slot, its memory order and its file.
struct Golden {
  OriginOutput origin;
  std::int64_t index = 0;
  const OpFiles* files = nullptr;
  std::string producer;  // the operator whose output this is
  std::int64_t producer_index = 0;
};
Outcome<Golden> find_golden(const Comparison& comparison, const RuleOp& op, std::size_t index, bool is_input);
Outcome<Aligned> align_with_golden(const Comparison& comparison, const RuleOp& op, const DumpTensor& left,
                                   const Golden& golden, AlignFor purpose, const Hands& hands, std::string& right_path);
// Compares only outputs of operators that quantise, and only inputs of operators that do not dequantise.
bool compares_inputs(const RuleOp& op);
bool compares_outputs(const RuleOp& op);

// FFTS+: an input that was read in slices gets the result of the output that the slices were cut from.
void take_from_producers(std::vector<Row>& rows);

// The operators that -r or -s selects, as groups; all of them without these options.
Outcome<std::vector<const Group*>> chosen_groups(const Comparison& comparison);

Code write_mapping(const Comparison& comparison, const std::vector<const Group*>& groups,
                   const std::filesystem::path& file);
Code compare_single(const Comparison& comparison);
void advise(const Comparison& comparison, const std::vector<Row>& rows);

}  // namespace sonde::msaccucmp
