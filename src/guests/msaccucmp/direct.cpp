// Two NPU dumps without rules: operators are paired by name, tensors by number.
#include <fmt/format.h>

#include <algorithm>

#include "guests/msaccucmp/comparison.h"

namespace sonde::msaccucmp {
namespace {

// The reason why the tensors of one side of an operator are not compared; empty: they are compared.
std::string reason_against(const std::string& op, std::string_view side, const std::vector<DumpTensor>& left,
                           const std::vector<DumpTensor>& right) {
  if (left.size() != right.size()) {
    return fmt::format("[{}] my output has {} {}s, the ground truth {}", op, left.size(), side, right.size());
  }
  if (left.empty()) return fmt::format("[{}] there is no {}", op, side);
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i].shape == right[i].shape) continue;
    return fmt::format("[{}] {}:{} of my output is {}, of the ground truth {}", op, side, i, bracketed(left[i].shape),
                       bracketed(right[i].shape));
  }
  return "";
}

struct Pair {
  const Comparison& comparison;
  const DumpOp &left, &right;
  const DirectOp& op;
  std::string left_name, right_name, op_type;  // as in the rows
};

void compare_side(const Pair& pair, std::string_view side, const std::vector<DumpTensor>& left,
                  const std::vector<DumpTensor>& right, const Hands& hands, GroupResult& result) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    Row& row = result.rows.emplace_back();
    row.index = pair.op.index;
    row.op_type = pair.op_type;
    row.left = pair.left_name;
    row.right = pair.right_name;
    row.left_type = data_type_name(left[i].data_type);
    row.right_type = data_type_name(right[i].data_type);
    row.left_address = address_text(left[i]);
    row.right_address = address_text(right[i]);
    row.tensor = fmt::format("{}:{}:{}", pair.left_name, side, i);
    row.shape = bracketed(left[i].shape);
    if (pair.comparison.options.overflow) row.overflow = overflow_text(left[i], hands);
    const Outcome<Aligned> aligned = align_stored(left[i], right[i], hands.threads);
    if (!aligned) {
      row.reason = fmt::format("[{}] {}", row.tensor, aligned.failure().reason);
      if (result.status == Code::ok) result.status = aligned.failure().status;
      continue;
    }
    fill_values(pair.comparison, *aligned, left[i].shape, pair.left.path, pair.right.path, hands, row);
  }
}

}  // namespace

std::vector<DirectOp> direct_ops(const Directory& left, const Directory& right) {
  const auto by_time = [](const Directory& directory) {
    std::vector<const OpFiles*> ops;
    for (const OpFiles& op : directory.ops) ops.push_back(&op);
    std::ranges::stable_sort(ops, {}, [](const OpFiles* op) { return std::pair(op->timestamp, op->moment); });
    return ops;
  };
  std::vector<DirectOp> pairs;
  for (const OpFiles* op : by_time(left)) {
    const auto other = right.by_key.find(op->key);
    const OpFiles* golden = other == right.by_key.end() ? nullptr : &right.ops[other->second];
    pairs.push_back({static_cast<std::int64_t>(pairs.size()), op, golden});
  }
  for (const OpFiles* op : by_time(right)) {
    if (!left.by_key.contains(op->key)) pairs.push_back({static_cast<std::int64_t>(pairs.size()), nullptr, op});
  }
  return pairs;
}

GroupResult compare_direct(const Comparison& comparison, const DirectOp& op, const Hands& hands) {
  GroupResult result;
  const auto give_up = [&](std::string left, std::string right, Code status, const std::string& reason) {
    result.rows.push_back(failed_row(op.index, std::move(left), std::move(right), reason));
    result.status = status;
    result.warnings.push_back(reason);
    return result;
  };
  if (op.left == nullptr || op.right == nullptr) {
    const std::string& key = op.left != nullptr ? op.left->key : op.right->key;
    const std::string_view missing = op.left == nullptr ? "my output" : "the ground truth";
    return give_up(op.left == nullptr ? "*" : key, op.left == nullptr ? key : "*", Code::no_dump_file,
                   fmt::format("[{}] there is no dump file of {}", key, missing));
  }
  const std::string& key = op.left->key;
  result.matched = true;
  const Outcome<DumpOp> left = read_op(*op.left);
  if (!left) return give_up(key, key, left.failure().status, fmt::format("[{}] {}", key, left.failure().reason));
  const Outcome<DumpOp> right = read_op(*op.right);
  if (!right) return give_up(key, key, right.failure().status, fmt::format("[{}] {}", key, right.failure().reason));

  const std::string name = left->renames ? left->name : key;
  const Pair pair{comparison, *left, *right, op, name, name, op_type_of(left->path)};
  const std::string inputs = reason_against(key, "input", left->inputs, right->inputs);
  const std::string outputs = reason_against(key, "output", left->outputs, right->outputs);
  if (inputs.empty()) compare_side(pair, "input", left->inputs, right->inputs, hands, result);
  if (outputs.empty()) compare_side(pair, "output", left->outputs, right->outputs, hands, result);
  if (!inputs.empty() && !outputs.empty()) {
    return give_up(name, name, Code::invalid_dump_data, fmt::format("{},{}", inputs, outputs));
  }
  return result;
}

}  // namespace sonde::msaccucmp
