// -map: the pairs of our files and golden ones, without a comparison.
#include <fmt/format.h>

#include <algorithm>

#include "guests/msaccucmp/comparison.h"

namespace sonde::msaccucmp {
namespace {

struct MappingRow {
  const RuleOp& op;
  std::string left, right, tensor, left_path, right_path;
};

std::vector<std::string> cells(const Comparison& comparison, const MappingRow& row) {
  std::vector<std::string> cells = {fmt::format("{}", row.op.index)};
  if (comparison.columns.sequence) cells.push_back(fmt::format("{}", row.op.sequence));
  cells.insert(cells.end(), {row.op.type, row.left, row.right, row.tensor, row.left_path, row.right_path});
  return cells;
}

std::string golden_path(const Comparison& comparison, const RuleOp& op, std::size_t index, bool is_input) {
  const Outcome<Golden> golden = find_golden(comparison, op, index, is_input);
  if (!golden || golden->files == nullptr) return std::string(kNotAvailable);
  return golden->files->files.back().path.string();
}

void map_op(const Comparison& comparison, const RuleOp& op, MappingRow row,
            std::vector<std::vector<std::string>>& rows) {
  const bool is_quant_file = comparison.left.kind == DumpKind::quant;
  const OpFiles* files = comparison.left.find(op.name, is_quant_file ? std::optional<std::int64_t>(0) : std::nullopt);
  const auto give_up = [&] { rows.push_back(cells(comparison, row)); };
  if (files == nullptr) {
    comparison.log.warning(fmt::format("[{}] there is no dump file of my output", op.name));
    return give_up();
  }
  row.left_path = files->files.back().path.string();
  const Outcome<DumpOp> left = read_dump_file(files->files.back().path);
  if (!left) {
    comparison.log.warning(fmt::format("[{}] {}", op.name, left.failure().reason));
    return give_up();
  }
  const auto add = [&](std::string_view side, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      row.tensor = fmt::format("{}:{}:{}", op.name, side, i);
      row.right_path = golden_path(comparison, op, i, side == "input");
      rows.push_back(cells(comparison, row));
    }
  };
  if (compares_inputs(op)) add("input", left->inputs.size());
  if (compares_outputs(op)) add("output", left->outputs.size());
}

}  // namespace

Code write_mapping(const Comparison& comparison, const std::vector<const Group*>& groups,
                   const std::filesystem::path& file) {
  // Groups in the order of their numbers, for any order of the choice.
  std::vector<std::vector<std::vector<std::string>>> by_group(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Relation relation = comparison.rules.relation(*groups[g]);
    const bool is_single = relation == Relation::one_to_one || relation == Relation::many_to_one;
    const auto [left, right] = comparison.rules.names(*groups[g]);
    const std::string none(kNotAvailable);
    for (const std::size_t i : groups[g]->ops) {
      const RuleOp& op = comparison.rules.ops[i];
      std::string origins = op.origins_text();
      if (origins.empty()) origins = "*";
      map_op(comparison, op, {op, is_single ? op.name : left, is_single ? origins : right, none, none, none},
             by_group[g]);
    }
  }
  std::vector<std::size_t> order(groups.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto index_of = [&](std::size_t g) { return comparison.rules.ops[groups[g]->ops[0]].index; };
  std::ranges::stable_sort(order, {}, index_of);
  std::string text;
  std::vector<std::string> header = {"Index",       "OpType",      "NPUDump",        "GroundTruth",
                                     "TensorIndex", "NPUDumpPath", "GroundTruthPath"};
  if (comparison.columns.sequence) header.insert(header.begin() + 1, "OpSequence");
  add_csv_line(text, header);
  for (const std::size_t g : order) {
    for (const std::vector<std::string>& row : by_group[g]) add_csv_line(text, row);
  }
  if (const Outcome<bool> written = write_result(file, text); !written) {
    comparison.log.error(written.failure().reason);
    return written.failure().status;
  }
  comparison.log.info(fmt::format("The mapping table has been written to '{}'.", file.string()));
  return Code::ok;
}

}  // namespace sonde::msaccucmp
