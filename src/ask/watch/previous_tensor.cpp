#include "ask/watch/previous_tensor.h"

#include <algorithm>

namespace sonde {

PreviousTensor PreviousTensors::before(const TensorPlace& place) {
  const PreviousStep step = history_.before(place.step);
  PreviousTensor previous{std::nullopt, step.number, step.from_history};
  if (!step.step) return previous;
  const CatalogOp& op = catalog_.steps[place.step].ops[place.op];
  const std::vector<std::uint32_t>& runs = runs_of(place.step, op);
  const auto nth = static_cast<std::size_t>(std::ranges::find(runs, place.op) - runs.begin());
  const std::vector<std::uint32_t>& earlier = runs_of(*step.step, op);
  if (nth >= earlier.size()) return previous;
  const CatalogTensor& tensor = op.tensors[place.tensor];
  const std::vector<CatalogTensor>& tensors = catalog_.steps[*step.step].ops[earlier[nth]].tensors;
  for (std::uint32_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].is_input != tensor.is_input || tensors[t].slot != tensor.slot) continue;
    previous.place = TensorPlace{rank_, *step.step, earlier[nth], t};
    break;
  }
  return previous;
}

const std::vector<std::uint32_t>& PreviousTensors::runs_of(std::uint32_t step, const CatalogOp& op) {
  const auto [at, is_new] = steps_.try_emplace(step);
  if (is_new) {
    const std::vector<CatalogOp>& ops = catalog_.steps[step].ops;
    for (std::uint32_t i = 0; i < ops.size(); ++i) at->second[ops[i].is_parameter][ops[i].op_name].push_back(i);
  }
  return at->second[op.is_parameter][op.op_name];
}

}  // namespace sonde
