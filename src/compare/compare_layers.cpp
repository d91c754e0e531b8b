#include "compare/compare_layers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "model/data_name.h"
#include "operators/op_nature.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

struct LayerEnds {
  const CatalogTensor* first = nullptr;  // that it reads
  const CatalogTensor* last = nullptr;   // that it gives
  const CatalogOp* op = nullptr;
};

// "encoder.0.fc" of `Default/network-Net/encoder-Encoder/0-Layer/fc-Linear`; empty for the network itself.
std::string layer_of(std::string_view scope) {
  std::string layer;
  bool is_inside = false;
  for (std::size_t at = 0; at < scope.size();) {
    const std::size_t end = std::min(scope.find('/', at), scope.size());
    std::string_view part = scope.substr(at, end - at);
    at = end + 1;
    part = part.substr(0, part.rfind('-'));
    if (is_inside) layer += (layer.empty() ? "" : ".") + std::string(part);
    is_inside = is_inside || part == "network";
  }
  return layer;
}

bool has_values(const CatalogTensor& tensor) {
  return tensor.recorded() && tensor.has_shape && is_floating(tensor.dtype);
}

std::map<std::string, LayerEnds> layers_of(const CompareSide& side) {
  std::map<std::string, LayerEnds> layers;
  for (const CompareOp& op : side.ops) {
    if (phase_of(*op.op) != Phase::forward) continue;
    const std::string layer = layer_of(op.scope);
    if (layer.empty()) continue;
    LayerEnds& ends = layers[layer];
    for (const CompareInput& input : op.inputs) {
      const bool is_first = ends.first == nullptr && input.is_read && is_data_name(input.tensor->parameter);
      if (is_first && has_values(*input.tensor)) ends.first = input.tensor;
    }
    for (const CatalogTensor* output : op.outputs) {
      if (!has_values(*output)) continue;
      ends.last = output;
      ends.op = op.op;
    }
  }
  return layers;
}

}  // namespace

std::vector<LayerLoss> layer_losses(const DumpComparison& comparison) {
  std::map<std::string, LayerLoss> worst;
  for (std::size_t index = 0; index < comparison.steps.size(); ++index) {
    const ComparedStep& step = comparison.steps[index];
    const std::map<std::string, LayerEnds> golden = layers_of(*step.golden);
    const auto compare = [&](const CatalogTensor* mine, const CatalogTensor* theirs) -> const TensorDifference* {
      if (mine == nullptr || theirs == nullptr) return nullptr;
      const TensorDifference& found = step.differences->of({step.target->rank, mine}, {step.golden->rank, theirs});
      return found.comparable() && found.by != ComparedBy::checksum ? &found : nullptr;
    };
    for (const auto& [name, ends] : layers_of(*step.target)) {
      const auto other = golden.find(name);
      if (other == golden.end()) continue;
      const TensorDifference* out = compare(ends.last, other->second.last);
      if (out == nullptr) continue;
      const TensorDifference* in = compare(ends.first, other->second.first);
      LayerLoss loss{name, index, ends.op, out->by};
      loss.error_in = in != nullptr ? in->relative() : 0;
      loss.error_out = out->relative();
      loss.introduced = std::sqrt(std::max(0.0, loss.error_out * loss.error_out - loss.error_in * loss.error_in));
      loss.signal_to_noise =
          loss.error_out > 0 ? -20 * std::log10(loss.error_out) : std::numeric_limits<double>::infinity();
      const auto [known, is_new] = worst.try_emplace(name, loss);
      if (!is_new && loss.introduced > known->second.introduced) known->second = loss;
    }
  }
  std::vector<LayerLoss> losses;
  for (auto& [name, loss] : worst) losses.push_back(std::move(loss));
  std::ranges::stable_sort(losses, std::ranges::greater(), &LayerLoss::introduced);
  return losses;
}

}  // namespace sonde
