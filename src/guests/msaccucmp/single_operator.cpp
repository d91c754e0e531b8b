// -op: one tensor of one operator, element by element.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ground/tensor/format.h"
#include "guests/msaccucmp/comparison.h"
#include "guests/msaccucmp/detail_files.h"

namespace sonde::msaccucmp {
namespace {

constexpr std::int64_t kMostTop = 10000, kLeastLines = 10000, kMostLines = 1000000;

// The subject of the detail files.
struct Detail {
  Aligned aligned;
  std::string left_ops, right_ops, axes, dump_file;
};

Outcome<std::int64_t> check(const SingleOperator& single) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_\\./:()=-";
  if (single.op_name.empty() || single.op_name.find_first_not_of(kAllowed) != std::string::npos) {
    return Failure{Code::invalid_parameter, fmt::format("-op '{}' is not the name of an operator", single.op_name)};
  }
  std::int64_t index = 0;
  const char* end = single.index.data() + single.index.size();
  const auto [stop, problem] = std::from_chars(single.index.data(), end, index);
  if (problem != std::errc() || stop != end || index < 0) {
    return Failure{Code::invalid_parameter, fmt::format("the index '{}' is not a number", single.index)};
  }
  if (single.top < 1 || single.top > kMostTop) {
    return Failure{Code::out_of_range, fmt::format("-n is {}, not 1 to {}", single.top, kMostTop)};
  }
  if (single.most_lines < kLeastLines || single.most_lines > kMostLines) {
    return Failure{Code::invalid_parameter,
                   fmt::format("-ml is {}, not {} to {}", single.most_lines, kLeastLines, kMostLines)};
  }
  return index;
}

Outcome<const DumpTensor*> tensor_of(const DumpOp& op, bool is_input, std::int64_t index) {
  const std::vector<DumpTensor>& tensors = is_input ? op.inputs : op.outputs;
  if (static_cast<std::uint64_t>(index) < tensors.size()) return &tensors[static_cast<std::size_t>(index)];
  return Failure{Code::out_of_range, fmt::format("'{}' has {} {}s: there is no {}", op.path, tensors.size(),
                                                 is_input ? "input" : "output", index)};
}

std::string axes_of(const DumpTensor& tensor, const std::string& golden_format) {
  if (has_depth(tensor.format)) return "N C D H W";
  if (static_cast<Format>(tensor.format) == Format::fractal_z && !golden_format.empty()) {
    std::string letters;
    for (const char c : golden_format) letters += (letters.empty() ? "" : " ") + std::string(1, c);
    return letters;
  }
  return tensor.shape.empty() ? "ID" : "N C H W";
}

Outcome<DumpOp> read_side(const Directory& directory, const std::string& op_name, std::string_view option) {
  const OpFiles* files =
      directory.find(op_name, directory.kind == DumpKind::quant ? std::optional<std::int64_t>(0) : std::nullopt);
  if (files == nullptr) {
    return Failure{Code::no_dump_file,
                   fmt::format("there is no dump file of '{}' in the directory of {}", op_name, option)};
  }
  return read_op(*files);
}

// The same operator of two NPU dumps, as it is stored in both.
Outcome<Detail> detail_of_dumps(const Comparison& comparison, const SingleOperator& single, std::int64_t index) {
  const Outcome<DumpOp> left = read_side(comparison.left, single.op_name, "-m");
  if (!left) return left.failure();
  const Outcome<DumpOp> right = read_side(comparison.right, single.op_name, "-g");
  if (!right) return right.failure();
  const auto left_tensor = tensor_of(*left, single.is_input, index);
  if (!left_tensor) return left_tensor.failure();
  const auto right_tensor = tensor_of(*right, single.is_input, index);
  if (!right_tensor) return right_tensor.failure();
  Outcome<Aligned> aligned = align_as_they_are(**left_tensor, **right_tensor);
  if (!aligned) {
    Failure failure = aligned.failure();
    if (failure.status == Code::invalid_shape) failure.status = Code::invalid_dump_data;
    return failure;
  }
  if ((*left_tensor)->format != (*right_tensor)->format) {
    return Failure{Code::unsupported_format, fmt::format("my output has format {}, the ground truth {}: not compared",
                                                         (*left_tensor)->format, (*right_tensor)->format)};
  }
  return Detail{std::move(*aligned), single.op_name, single.op_name, axes_of(**left_tensor, ""),
                std::filesystem::path(left->path).filename().string()};
}

Outcome<Detail> detail_by_rule(const Comparison& comparison, const SingleOperator& single, std::int64_t index,
                               const Hands& hands) {
  const RuleOp* op = comparison.rules.find(single.op_name);
  if (op == nullptr) {
    return Failure{Code::invalid_parameter, fmt::format("there is no operator '{}' in the rule file", single.op_name)};
  }
  if (op->is_inner() || op->is_left_out) {
    return Failure{Code::unsupported_comparison,
                   fmt::format("[{}] nothing on the golden side corresponds to this operator: it is {}", op->name,
                               op->is_inner() ? "inside a relation of many to many"
                                              : "between one that quantises and one that dequantises")};
  }
  const Outcome<DumpOp> left = read_side(comparison.left, op->name, "-m");
  if (!left) return left.failure();
  const auto tensor = tensor_of(*left, single.is_input, index);
  if (!tensor) return tensor.failure();
  const Outcome<Golden> golden = find_golden(comparison, *op, static_cast<std::size_t>(index), single.is_input);
  if (!golden) return golden.failure();
  if (golden->files == nullptr) {
    return Failure{Code::no_dump_file, fmt::format("[{}] there is no dump file of the ground truth {}:{}", op->name,
                                                   golden->origin.name, golden->index)};
  }
  std::string right_path;
  Outcome<Aligned> aligned = align_with_golden(comparison, *op, **tensor, *golden, AlignFor::detail, hands, right_path);
  if (!aligned) return aligned.failure();
  auto [left_ops, right_ops] = comparison.rules.names(*comparison.rules.group_of(op->name));
  std::ranges::replace(left_ops, ',', ' ');
  std::ranges::replace(right_ops, ',', ' ');
  return Detail{std::move(*aligned), left_ops, right_ops.empty() ? "*" : right_ops,
                axes_of(**tensor, golden->origin.format), std::filesystem::path(left->path).filename().string()};
}

}  // namespace

Code compare_single(const Comparison& comparison) {
  const SingleOperator& single = *comparison.options.single;
  const auto fail = [&](const Failure& failure) {
    comparison.log.error(failure.reason);
    return failure.status;
  };
  const Outcome<std::int64_t> index = check(single);
  if (!index) return fail(index.failure());
  const Hands hands{comparison.threads.runner(), static_cast<unsigned>(comparison.threads.count())};
  const Outcome<Detail> detail = comparison.has_rules() ? detail_by_rule(comparison, single, *index, hands)
                                                        : detail_of_dumps(comparison, single, *index);
  if (!detail) return fail(detail.failure());
  const DetailFiles files(comparison.options.output, single, *index, detail->dump_file);
  const Outcome<bool> written = files.write(detail->aligned, {detail->left_ops, detail->right_ops, detail->axes},
                                            comparison.threads, comparison.log);
  return written ? Code::ok : fail(written.failure());
}

}  // namespace sonde::msaccucmp
