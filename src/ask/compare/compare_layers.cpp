#include "ask/compare/compare_layers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "ground/base/text.h"
#include "read/operators/op_nature.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

struct LayerEnds {
  const CatalogTensor* first = nullptr;  // that it reads
  const CatalogTensor* last = nullptr;   // that it gives
  const CatalogOp* op = nullptr;
  std::uint32_t place = 0;
};

// "network", or "network1" for a second one.
bool is_network(std::string_view part) {
  constexpr std::string_view kName = "network";
  return part.starts_with(kName) &&
         std::ranges::all_of(part.substr(kName.size()), [](char c) { return c >= '0' && c <= '9'; });
}

bool has_values(const CatalogTensor& tensor) {
  return tensor.recorded() && tensor.has_shape && is_floating(tensor.dtype);
}

// By op of the forward pass: its layer; empty for others, and for the network's own.
std::vector<std::string> layers_by_op(const CompareSide& side) {
  std::vector<std::string> layers(side.ops.size());
  for (std::size_t i = 0; i < side.ops.size(); ++i) {
    if (phase_of(*side.ops[i].op) == Phase::forward) layers[i] = layer_of(side.ops[i].scope);
  }
  return layers;
}

// A module that only one side has belongs to the one around it: a wrapper that quantises.
void take_common(std::vector<std::string>& layers, const std::set<std::string>& others) {
  for (std::string& layer : layers) {
    while (!layer.empty() && !others.contains(layer)) {
      const std::size_t dot = layer.rfind('.');
      layer.resize(dot == std::string::npos ? 0 : dot);
    }
  }
}

// The first tensor that a layer reads is of another layer, or from outside; its own weights as numbers are none.
std::map<std::string, LayerEnds> ends_of(const CompareSide& side, const std::vector<std::string>& names) {
  std::map<std::string, LayerEnds> layers;
  for (std::uint32_t i = 0; i < side.ops.size(); ++i) {
    const CompareOp& op = side.ops[i];
    if (names[i].empty()) continue;
    LayerEnds& ends = layers[names[i]];
    for (const CompareInput& input : op.inputs) {
      const bool is_own = input.from != kNoOp && names[input.from] == names[i];
      const bool is_first =
          ends.first == nullptr && input.is_read && !is_own && !input.tensor->parameter.is_parameter();
      if (is_first && !input.tensor->constant && has_values(*input.tensor)) ends.first = input.tensor;
    }
    for (const CatalogTensor* output : op.outputs) {
      if (!has_values(*output)) continue;
      ends.last = output;
      ends.op = op.op;
      ends.place = i;
    }
  }
  return layers;
}

}  // namespace

std::string layer_of(std::string_view scope) {
  std::string layer;
  bool is_inside = false;
  for (std::string_view part : split(scope, '/')) {
    part = part.substr(0, part.rfind('-'));
    if (is_inside) layer += (layer.empty() ? "" : ".") + std::string(part);
    is_inside = is_inside || is_network(part);
  }
  return layer;
}

std::vector<LayerLoss> layer_losses(const ComparedStep& step, std::size_t index) {
  std::vector<LayerLoss> losses;
  if (step.differences == nullptr) return losses;  // the ranks have parts of the layers
  std::vector<std::string> mine = layers_by_op(*step.target), theirs = layers_by_op(*step.golden);
  const std::set<std::string> my_names(mine.begin(), mine.end()), their_names(theirs.begin(), theirs.end());
  take_common(mine, their_names);
  take_common(theirs, my_names);
  const std::map<std::string, LayerEnds> golden = ends_of(*step.golden, theirs);
  const auto compare = [&](const CatalogTensor* left, const CatalogTensor* right) -> const TensorDifference* {
    if (left == nullptr || right == nullptr) return nullptr;
    const TensorDifference& found = step.differences->of({step.target->rank, left}, {step.golden->rank, right});
    return found.comparable() && found.by != ComparedBy::checksum ? &found : nullptr;
  };
  for (const auto& [name, ends] : ends_of(*step.target, mine)) {
    const auto other = golden.find(name);
    if (other == golden.end()) continue;
    const TensorDifference* out = compare(ends.last, other->second.last);
    if (out == nullptr) continue;
    const TensorDifference* in = compare(ends.first, other->second.first);
    LayerLoss loss;
    loss.layer = name;
    loss.step = index;
    loss.op = ends.op;
    loss.place = ends.place;
    loss.by = out->by;
    loss.error_in = in != nullptr ? in->relative() : 0;
    loss.error_out = out->relative();
    loss.introduced = std::sqrt(std::max(0.0, loss.error_out * loss.error_out - loss.error_in * loss.error_in));
    loss.signal_to_noise =
        loss.error_out > 0 ? -20 * std::log10(loss.error_out) : std::numeric_limits<double>::infinity();
    losses.push_back(std::move(loss));
  }
  std::ranges::stable_sort(losses, {}, &LayerLoss::place);
  return losses;
}

std::vector<LayerLoss> layer_losses(const DumpComparison& comparison) {
  if (!comparison.correspondence.empty()) return {};  // two implementations have other layers
  std::map<std::string, LayerLoss> worst;
  for (std::size_t index = 0; index < comparison.steps.size(); ++index) {
    for (const LayerLoss& loss : layer_losses(comparison.steps[index], index)) {
      const auto [known, is_new] = worst.try_emplace(loss.layer, loss);
      if (!is_new && loss.introduced > known->second.introduced) known->second = loss;
    }
  }
  std::vector<LayerLoss> losses;
  for (auto& [name, loss] : worst) losses.push_back(std::move(loss));
  std::ranges::stable_sort(losses, std::ranges::greater(), &LayerLoss::introduced);
  return losses;
}

}  // namespace sonde
