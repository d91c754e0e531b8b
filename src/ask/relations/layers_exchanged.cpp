#include "ask/relations/layers_exchanged.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ask/relations/names_of_weights.h"
#include "ask/relations/standings.h"

namespace sonde {
namespace {

struct WeightOfLayer {
  std::uint32_t read = kNoOp, golden_read = kNoOp;  // by which operator first
  std::uint32_t weight = 0;
};

std::uint32_t first_reader(const PoolTensor& tensor) { return tensor.readers.empty() ? kNoOp : tensor.readers.front(); }

bool is_evidence(const Pool& target, const RelationJudgement& judgement, std::uint32_t weight) {
  const PoolTensor& own = target.tensors[weight];
  const Relation& relation = judgement.relations[weight];
  return own.is_weight() && own.step == 0 && relation && !relation.weak && !is_bad(judgement.standings[weight]) &&
         relation.kind != RelationKind::constant && relation.kind != RelationKind::cut;
}

using Layers = std::map<std::string, std::vector<WeightOfLayer>>;  // by the name but for the numbers of layers

Layers layers_of(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  Layers layers;
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    if (!is_evidence(target, judgement, i)) continue;
    const std::string name = name_in_layers(target.tensors[i].of.tensor->parameter);
    if (name.find('#') == std::string::npos) continue;
    const std::uint32_t other = judgement.relations[i].golden();
    const WeightOfLayer own{first_reader(target.tensors[i]), first_reader(golden.tensors[other]), i};
    if (own.read != kNoOp && own.golden_read != kNoOp) layers[name].push_back(own);
  }
  for (auto& [name, weights] : layers) std::ranges::sort(weights, {}, &WeightOfLayer::read);
  return layers;
}

// By layer of the target, in their order: the place of the golden one. Empty: two of them are one, or all are in order.
std::vector<std::size_t> exchange_in(const std::vector<WeightOfLayer>& weights) {
  std::vector<std::uint32_t> reads;
  for (const WeightOfLayer& one : weights) reads.push_back(one.golden_read);
  std::ranges::sort(reads);
  if (std::ranges::adjacent_find(reads) != reads.end()) return {};
  std::vector<std::size_t> places;
  for (const WeightOfLayer& one : weights)
    places.push_back(static_cast<std::size_t>(std::ranges::lower_bound(reads, one.golden_read) - reads.begin()));
  return std::ranges::is_sorted(places) ? std::vector<std::size_t>{} : places;
}

}  // namespace

std::optional<Culprit> exchanged_layers(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  const Layers layers = layers_of(target, golden, judgement);
  std::map<std::vector<std::size_t>, std::size_t> exchanges;
  std::size_t in_layers = 0;
  std::optional<WeightOfLayer> first;
  for (const auto& [name, weights] : layers) {
    if (weights.size() < 2) continue;
    ++in_layers;
    const std::vector<std::size_t> places = exchange_in(weights);
    if (places.empty()) continue;
    ++exchanges[places];
    std::size_t at = 0;
    while (places[at] == at) ++at;
    if (!first || weights[at].read < first->read) first = weights[at];
  }
  // Weights that are exchanged within one layer are others in each kind, and so are parts of a weight.
  constexpr std::size_t kFewest = 3;
  if (exchanges.size() != 1 || in_layers < kFewest || exchanges.begin()->second != in_layers) return std::nullopt;
  const std::uint32_t other = judgement.relations[first->weight].golden();
  return Culprit{
      .op = first->read,
      .weight = first->weight,
      .golden = other,
      .uncertain = true,
      .was_lost = true,
      .what = fmt::format("is {}, which the golden run reads in another layer: the weights of all layers are "
                          "exchanged so, or the layers run in another order",
                          relation_text(judgement.relations[first->weight], golden))};
}

}  // namespace sonde
