#include "read/operators/node_category.h"

#include <algorithm>
#include <array>

#include "ground/base/text.h"
#include "ground/model/gradient_name.h"

namespace sonde {
namespace {

// The state that optimizers keep for each parameter, by PyTorch's and MindSpore's names: it is named after a weight but
// is not one.
constexpr std::array<std::string_view, 26> kStates = {
    "acc_delta.", "accum.",          "accumulation.", "adam_m.",       "adam_v.",     "ax.",
    "col_var.",   "etas.",           "exp_avg.",      "exp_avg_diff.", "exp_avg_sq.", "exp_inf.",
    "grad_avg.",  "max_exp_avg_sq.", "moment1.",      "moment2.",      "moments.",    "momentum_buffer.",
    "mu.",        "mu_product.",     "prev_grad.",    "row_var.",      "square_avg.", "step_size.",
    "sum.",       "variance.",
};

bool is_state(std::string_view name) {
  // If names come from file names only, `_` replaces the dots.
  const bool has_dots = name.find('.') != std::string_view::npos;
  return std::ranges::any_of(kStates, [&](std::string_view start) {
    if (has_dots) return name.starts_with(start);
    start.remove_suffix(1);
    return name.starts_with(start) && name.substr(start.size()).starts_with('_');
  });
}

// Sorted: the types that the debugger calls activations, and PyTorch's further ones.
constexpr std::array<std::string_view, 37> kActivations = {
    "celu",        "elu",
    "fastgelu",    "gelu",
    "geluv2",      "glu",
    "hardshrink",  "hardsigmoid",
    "hardswish",   "hardtanh",
    "hshrink",     "hsigmoid",
    "hswish",      "leakyrelu",
    "logsigmoid",  "logsigmoidforward",
    "logsoftmax",  "logsoftmaxv2",
    "mish",        "prelu",
    "prelukernel", "relu",
    "relu6",       "reluv2",
    "rrelu",       "rreluwithnoise",
    "selu",        "seluext",
    "sigmoid",     "silu",
    "softmax",     "softmaxv2",
    "softplus",    "softshrink",
    "softsign",    "swish",
    "tanh",
};
static_assert(std::ranges::is_sorted(kActivations));

bool is_gradient(const CatalogOp& op, std::string_view name) {
  if (op.is_parameter || op.op_type == "Const") return op.is_parameter && is_gradient_name(name);
  // In some dumps names come from file names only; they have `_` for `/`.
  return name == "gradients" || name.starts_with("gradients/") || name.starts_with("gradients_") ||
         op.phase == Phase::backward || op.op_type == "parameters_grad";
}

bool is_weight_name(std::string_view name) {
  const bool named =
      name.ends_with(".weight") || name.ends_with(".bias") || name.ends_with("_weight") || name.ends_with("_bias");
  return named && name.find("optimizer-") == std::string_view::npos && !name.starts_with("gradients/") &&
         !is_state(name);
}

bool is_weight(const CatalogOp& op, std::string_view name) { return op.is_parameter && is_weight_name(name); }

}  // namespace

bool is_optimizer_state(std::string_view name) {
  return is_state(name) || name.find("optimizer-") != std::string_view::npos;
}

bool is_weight_of_module(const CatalogOp& op, const CatalogTensor& tensor) {
  return op.is_module && op.phase == Phase::forward && tensor.is_input && !tensor.parameter.empty() &&
         is_weight_name(lower_case(tensor.parameter));
}

std::string plain_type(std::string_view op_type) {
  std::string plain = lower_case(op_type);
  std::erase(plain, '_');
  return plain;
}

bool is_of(NodeCategory category, const CatalogOp& op) {
  if (category == NodeCategory::tensor) return true;
  const std::string name = lower_case(op.op_name);
  switch (category) {
    case NodeCategory::weight:
      return is_weight(op, name);
    case NodeCategory::gradient:
      return is_gradient(op, name);
    default: {
      if (op.is_parameter || is_gradient(op, name)) return false;
      const std::string type = plain_type(op.op_type);
      return std::ranges::binary_search(kActivations, type);
    }
  }
}

}  // namespace sonde
