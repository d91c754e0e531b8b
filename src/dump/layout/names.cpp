#include "dump/layout/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "ground/model/data_name.h"

namespace sonde {
namespace {

// 1.2: "_shape_2_3"; a scalar gives "_shape_0".
std::string sizes_text(const Dims& shape) {
  std::string text;
  for (const std::int64_t size : shape.values()) text.append("_").append(std::to_string(size));
  return text.empty() ? "_0" : text;
}

std::string with_dashes(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '/') {
      out.append("--");
    } else {
      out.push_back(c == '\\' || c == ' ' ? '_' : c);
    }
  }
  return out;
}

// 1.2 numbers constants from 1: `data-0` is `cst1`.
std::string old_constant_name(const std::string& name) {
  if (kind_of_name(name) != NameKind::data) return name;
  const std::string digits = name.substr(kDataName.size());
  const bool is_number = !digits.empty() && digits.size() < 10 &&
                         std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; });
  return is_number ? fmt::format("cst{}", std::stoul(digits) + 1) : name;
}

}  // namespace

std::uint32_t task_number(const NamedRecord& record) {
  return record.kind == RecordKind::parameter ? kNoTask : record.task_id % 65536;
}

std::string_view root_module(std::string_view op_name) {
  for (const std::string_view prefix : {"Gradients/", "Default/", "recompute/"}) {
    if (op_name.starts_with(prefix)) op_name.remove_prefix(prefix.size());
  }
  constexpr std::string_view kRoot = "network";
  const std::size_t end = op_name.find('/');
  if (end == std::string_view::npos || !op_name.starts_with(kRoot)) return {};
  const std::string_view label = op_name.substr(kRoot.size(), end - kRoot.size());
  const std::size_t dash = label.find_first_not_of("0123456789");
  return dash != std::string_view::npos && label[dash] == '-' ? label.substr(dash + 1) : std::string_view();
}

// The name of an op up to the last `/`, that one included.
std::string LayoutNames::name_prefix(const Site& site) const {
  const std::string scope = site.scope.empty() ? std::string() : site.scope + "/";
  const std::string_view grad = release_ < Release::v2_7 ? "grad" : "Grad_";
  switch (site.phase) {
    case Phase::backward:
      if (site.forward_op_type.empty()) return "Gradients/Default/";
      return fmt::format("Gradients/Default/{}{}{}/", scope, grad, site.forward_op_type);
    case Phase::recompute:
      return "Default/recompute/" + scope;
    default:
      return "Default/" + scope;
  }
}

std::string LayoutNames::number_key(const Site& site) const { return name_prefix(site) + site.op_type; }

std::string LayoutNames::op_name(const Site& site, std::uint32_t number) const {
  return fmt::format("{}{}-op{}", name_prefix(site), site.op_type, number);
}

std::string LayoutNames::name_in_files(const OpName& op) const {
  if (release_ > Release::v2_0) return sanitised(op.op_name);
  const bool is_parameter = op.op_type == "Parameter";
  if (release_ == Release::v1_2) return with_dashes(is_parameter ? old_constant_name(op.op_name) : op.op_name);
  // A parameter has no scope to remove: two parameters may differ only before a `/`.
  std::string name = is_parameter ? op.op_name : op.op_name.substr(op.op_name.rfind('/') + 1);
  std::ranges::replace(name, '/', '_');
  return name;
}

std::string LayoutNames::tensor_file_name(const OpName& op, const RecordedTensor& tensor, std::uint32_t task,
                                          int attempt) const {
  const std::string_view side = tensor.is_input ? "input" : "output";
  if (form_ == TensorForm::raw) {
    const std::string again = attempt > 0 ? fmt::format(".{}", attempt) : std::string();
    return fmt::format("{}_{}_{}_shape{}_{}_{}{}.bin", name_in_files(op), side, tensor.slot, sizes_text(tensor.shape),
                       info(tensor.dtype).name, name_of(tensor.format), again);
  }
  // MindSpore says ND for five dimensions, too.
  const Format unset = tensor.shape.size() == 4 ? Format::nchw : Format::nd;
  const Format format = has_tasks_ && tensor.format == Format::default_format ? unset : tensor.format;
  std::string name = fmt::format("{}.{}.{}.0.{}.{}.{}.{}", sanitised(op.op_type), name_in_files(op), task,
                                 tensor.timestamp_us, side, tensor.slot, name_of(format));
  if (kind_ >= LayoutKind::ge) {
    if (release_ >= Release::v2_5) name.append(".").append(info(tensor.dtype).lower);
  } else if (release_ == Release::v2_7) {
    name.append(".").append(info(tensor.dtype).name);
  }
  return name.append(".npy");
}

std::string LayoutNames::op_file_name(const OpName& op, std::uint32_t task, std::uint64_t timestamp_us) const {
  if (exceptions_) return fmt::format("exception_info.0.{}.{}", task, timestamp_us);
  const std::string_view stream = kind_ == LayoutKind::mindspore_1_2_async ? "" : "0.";
  return fmt::format("{}.{}.{}.{}{}", sanitised(op.op_type), sanitised(op.op_name), task, stream, timestamp_us);
}

}  // namespace sonde
