#include "ask/relations/recomputed.h"

#include <string>

#include "read/operators/op_nature.h"

namespace sonde {

const Dense* Recomputed::recorded(std::uint32_t tensor) {
  const auto [found, is_new] = recorded_.try_emplace(tensor);
  if (is_new) {
    const PoolValues values = pool_.values_of(tensor);
    if (values && static_cast<std::size_t>(values.view().elements()) <= kMostElementsAgain) {
      const TensorView whole = values.view();
      found->second = Dense{{whole.shape.begin(), whole.shape.end()}, all_values(whole)};
    }
  }
  return found->second ? &*found->second : nullptr;
}

DenseInputs Recomputed::inputs_of(std::uint32_t op) {
  DenseInputs inputs;
  for (const std::uint32_t input : pool_.ops[op].inputs) {
    const Dense* one = recorded(input);
    if (one == nullptr) return {};
    inputs.push_back(one);
  }
  return inputs;
}

const KnownFunction& Recomputed::function_of(std::uint32_t op, std::size_t output) {
  const auto [found, is_new] = functions_.try_emplace({op, output});
  if (is_new) found->second = find(op, output);
  return found->second;
}

KnownFunction Recomputed::find(std::uint32_t op, std::size_t output) {
  const DenseInputs inputs = inputs_of(op);
  const Dense* result = recorded(pool_.ops[op].outputs[output]);
  if (inputs.empty() || result == nullptr) return {};
  const std::string type = bare_type(pool_.catalog_op(op).op_type);
  const std::optional<double> number = number_read(pool_.op(op));
  KnownFunctions all;
  if (moves_or_casts(pool_.op(op).kind) || pool_.op(op).kind == OpKind::copy) add_moves(all, type, inputs, *result);
  if (inputs.size() <= 2) add_elementwise(all, type, number);
  add_choices(all, type, inputs, *result, number);
  add_sums(all, pool_.catalog_op(op), inputs, *result);
  add_layers(all, pool_.catalog_op(op), type, inputs, *result);
  add_with_numbers(all, pool_.catalog_op(op), type, inputs, number);
  for (KnownFunction& one : all) {
    const std::optional<Dense> again = one.apply(inputs);
    if (again && is_nearly(*again, *result)) return std::move(one);
  }
  return {};
}

}  // namespace sonde
