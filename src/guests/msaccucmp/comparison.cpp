#include "guests/msaccucmp/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace sonde::msaccucmp {
namespace {

constexpr std::int32_t kFloat16 = 2;
constexpr double kLargestFloat16 = 65504;

}  // namespace

void add_reason(Row& row, const std::string& reason) {
  if (reason.empty()) return;
  row.reason += (row.reason.empty() ? "" : ",") + reason;
}

Row failed_row(std::int64_t index, std::string left, std::string right, std::string reason) {
  Row row;
  row.index = index;
  row.left = std::move(left);
  row.right = std::move(right);
  row.reason = std::move(reason);
  return row;
}

std::string address_text(const DumpTensor& tensor) { return fmt::format("{}", tensor.address); }

void fill_values(const Comparison& comparison, const Aligned& aligned, const std::vector<std::int64_t>& shape,
                 const std::string& left_path, const std::string& right_path, const Hands& hands, Row& row) {
  std::int64_t left_dims[2], right_dims[2];
  const bool is_direct =
      comparison.left.kind == DumpKind::offline && !comparison.has_rules() && !comparison.left.ops.empty();
  const std::int64_t wanted = is_direct ? 0 : comparison.options.most_elements;
  const std::int64_t most = wanted > 0 ? wanted : -1;
  const Operands operands{aligned.left.flat(left_dims, most),
                          aligned.right.flat(right_dims, most),
                          is_scalar(shape),
                          is_direct,
                          left_path,
                          right_path};
  std::vector<Algorithm> builtin;
  for (const Choice& choice : comparison.options.algorithms) {
    if (choice.builtin) builtin.push_back(*choice.builtin);
  }
  std::vector<std::string> remarks;
  const std::vector<std::string> values = compute(builtin, operands, remarks, hands.for_each);
  auto next = values.begin();
  for (const Choice& choice : comparison.options.algorithms) {
    if (choice.builtin) {
      row.values.push_back(*next++);
      continue;
    }
    CustomAlgorithms::Answer answer = comparison.custom->compute(choice.name, operands.left, operands.right,
                                                                 operands.is_scalar, left_path, right_path);
    row.values.push_back(std::move(answer.value));
    if (!answer.message.empty()) remarks.push_back(std::move(answer.message));
  }
  add_reason(row, fmt::format("{}", fmt::join(remarks, ",")));
}

std::string overflow_text(const DumpTensor& tensor, const Hands& hands) {
  if (tensor.data_type != kFloat16 || tensor.problem) return std::string(kNotAvailable);
  std::int64_t dims[2];
  const TensorView view = tensor.array.flat(dims);
  const PairSums sums = compare_pair(view, view, {}, hands.for_each);
  if (sums.non_finite.nan > 0) return "NO";
  const bool has_infinity = sums.non_finite.infinities() > 0;
  return has_infinity || std::max(std::abs(sums.min), std::abs(sums.max)) >= kLargestFloat16 ? "YES" : "NO";
}

}  // namespace sonde::msaccucmp
