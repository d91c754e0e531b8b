// Facts about tensors and operators that a FlowGraph asks for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "ask/first_bad/flow_graph.h"
#include "ask/first_bad/flow_kinds.h"
#include "read/catalog/catalog.h"
#include "read/measure/health.h"

namespace sonde {

inline bool is_scalar(const CatalogTensor* tensor) {
  if (tensor == nullptr || !tensor->has_shape) return false;
  return std::ranges::all_of(tensor->shape, [](std::int64_t size) { return size == 1; });
}

inline bool may_be_floating(const CatalogTensor* tensor) {
  return tensor == nullptr || tensor->dtype == DType::undefined || is_floating(tensor->dtype) ||
         is_complex(tensor->dtype);
}

inline bool is_data(const CatalogTensor& tensor) { return !tensor.parameter.is_parameter(); }

// Recognises by its name a parameter that a network learns; a mask never is one.
inline bool is_weight(const CatalogTensor& tensor) {
  return tensor.parameter.ends_with("weight") || tensor.parameter.ends_with("bias");
}

// `Gradients/Default/net/Grad_svd` of `Gradients/Default/net/Grad_svd/div-op0`.
inline std::string_view place_of(const CatalogOp& op) { return op.op_name.substr(0, op.op_name.rfind('/')); }

// Whether the output has infinities of a sign that the inputs lack.
inline bool sign_is_new(const FlowOp& op, const Health& inputs, const Health& output) {
  if (op.nature.flips_sign) return false;
  return (output.positive_inf && !inputs.positive_inf) || (output.negative_inf && !inputs.negative_inf);
}

}  // namespace sonde
