#include "ask/relations/mapped.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>

#include "ask/compare/relation_map.h"

namespace sonde {
namespace {

// The place of a tensor in its step: an output of an operator, what an operator reads, or a parameter.
struct PlaceInStep {
  std::string_view name;
  bool is_parameter = false, is_read = false;
  std::uint32_t slot = 0;
  auto operator<=>(const PlaceInStep&) const = default;
};

PlaceInStep place_of(const PlacedTensor& tensor) {
  if (!tensor.parameter.empty()) return {.name = tensor.parameter, .is_parameter = true};
  return {.name = tensor.op_name, .is_read = tensor.is_read, .slot = tensor.slot.value_or(0)};
}

std::string name_of(const PlacedTensor& tensor) {
  const std::string_view name = tensor.parameter.empty() ? tensor.op_name : tensor.parameter;
  std::string text(name.empty() ? "a tensor without a name" : name);
  if (tensor.is_read) text += fmt::format(":input.{}", tensor.slot.value_or(0));
  if (!tensor.is_read && tensor.slot.value_or(0) > 0) text += fmt::format(":output.{}", *tensor.slot);
  return text;
}

// The tensors of a pool by their places.
class Places {
 public:
  explicit Places(const Pool& pool) : pool_(pool), by_step_(pool.steps.size()), of_(pool.tensors.size()) {
    for (std::uint32_t op = 0; op < pool.ops.size(); ++op) {
      const PoolOp& own = pool.ops[op];
      const std::string_view name = pool.catalog_op(op).op_name;
      for (const std::uint32_t output : own.outputs) {
        if (pool.tensors[output].computed == nullptr)
          add(output, {.name = name, .slot = pool.tensors[output].of.tensor->slot});
      }
      for (std::size_t i = 0; i < own.inputs.size(); ++i) {
        const PoolTensor& input = pool.tensors[own.inputs[i]];
        if (input.op != kNoOp) continue;
        if (input.of.tensor->parameter.is_parameter()) {
          add(own.inputs[i], {.name = input.of.tensor->parameter, .is_parameter = true});
        } else {
          add(own.inputs[i], {.name = name, .is_read = true, .slot = own.slots[i]});
        }
      }
    }
  }

  // In the step with this place; null: there is none.
  const std::uint32_t* at(std::size_t step, const PlaceInStep& place) const {
    if (step >= by_step_.size()) return nullptr;
    const auto found = by_step_[step].find(place);
    return found == by_step_[step].end() ? nullptr : &found->second;
  }
  // The first place of a tensor; empty for values that no dump has.
  const std::optional<PlaceInStep>& of(std::uint32_t tensor) const { return of_[tensor]; }

  // The steps that a place of a map means.
  std::vector<std::size_t> steps_of(const PlacedTensor& tensor) const {
    std::vector<std::size_t> steps;
    for (std::size_t i = 0; i < pool_.steps.size(); ++i) {
      const StepId& id = pool_.steps[i]->step->id;
      if (tensor.step && (*tensor.step != id.number || tensor.graph.value_or(0) != id.graph ||
                          tensor.rank.value_or(0) != pool_.steps[i]->rank->rank)) {
        continue;
      }
      steps.push_back(i);
    }
    return steps;
  }

 private:
  void add(std::uint32_t tensor, const PlaceInStep& place) {
    by_step_[pool_.tensors[tensor].step].try_emplace(place, tensor);
    if (!of_[tensor]) of_[tensor] = place;
  }

  const Pool& pool_;
  std::vector<std::map<PlaceInStep, std::uint32_t>> by_step_;
  std::vector<std::optional<PlaceInStep>> of_;
};

// Reads one entry after the other.
class Claims {
 public:
  Claims(const Pool& target, const Pool& golden)
      : target_(target), golden_(golden), places_(target), golden_places_(golden) {
    claims_.of.resize(target.tensors.size());
  }

  void add(const MappedTensor& entry) {
    bool is_there = false;
    for (const std::size_t step : places_.steps_of(entry.tensor)) {
      const std::uint32_t* tensor = places_.at(step, place_of(entry.tensor));
      if (tensor == nullptr) continue;
      is_there = true;
      problem_.clear();
      Relation claim = claim_of(entry, *tensor, step);
      if (!problem_.empty()) break;
      claims_.of[*tensor] = std::move(claim);
    }
    if (!is_there) problem_ = "the target has no such tensor";
    if (!problem_.empty())
      claims_.not_there.push_back(fmt::format("the map has an entry for {}: {}", name_of(entry.tensor), problem_));
    problem_.clear();
  }

  // A map of another program names nothing that is there.
  MapClaims take() {
    constexpr std::size_t kMostLines = 100;
    std::vector<std::string>& lines = claims_.not_there;
    if (lines.size() > kMostLines) {
      const std::size_t more = lines.size() - kMostLines;
      lines.resize(kMostLines);
      lines.push_back(fmt::format("the map has {} more such entries", more));
    }
    return std::move(claims_);
  }

 private:
  void note(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }

  // Of that axis; `note`s that there is none.
  std::int64_t size_along(const std::vector<std::int64_t>& shape, std::uint32_t axis, const std::string& of) {
    if (axis < shape.size() || (axis == kAxisOfRows && shape.size() > 2))
      return sonde::size_along(shape, static_cast<std::int32_t>(axis));
    note(fmt::format("axis {}, and {} has {}", axis, of, shape.size()));
    return 0;
  }

  RelationPart part_of(const MapPart& part, std::size_t step, std::int64_t at) {
    RelationPart found{.at = at};
    const std::vector<std::size_t> steps = golden_places_.steps_of(part.tensor);
    const std::size_t golden_step = !part.tensor.step ? step : steps.empty() ? golden_.steps.size() : steps.front();
    const std::uint32_t* tensor = golden_places_.at(golden_step, place_of(part.tensor));
    const std::string name = name_of(part.tensor);
    if (tensor == nullptr) {
      note(fmt::format("the golden dump has no {}{}", name,
                       part.tensor.step ? fmt::format(" in step {}", *part.tensor.step) : ""));
      return found;
    }
    found.golden = *tensor;
    if (!part.axis) return found;
    found.axis = static_cast<std::int32_t>(*part.axis);
    found.start = static_cast<std::int64_t>(part.start.value_or(0));
    found.step = part.stride.value_or(1);
    found.count = static_cast<std::int64_t>(part.count.value_or(1));
    const std::int64_t size = size_along(golden_.tensors[*tensor].shape, *part.axis, name);
    const bool is_short = found.count > 0 && found.count <= kMostIndices && std::abs(found.step) <= kMostIndices &&
                          found.start >= 0 && found.start <= kMostIndices;
    const std::int64_t last = is_short ? found.start + found.step * (found.count - 1) : -1;
    if (found.start < 0 || found.start >= size || last < 0 || last >= size)
      note(fmt::format("{} indices from {} on, and axis {} of {} has {}", found.count, found.start, *part.axis, name,
                       size));
    return found;
  }

  Relation claim_of(const MappedTensor& entry, std::uint32_t tensor, std::size_t step) {
    Relation claim;
    claim.kind = entry.relation;
    if (!claim) return claim;
    const std::vector<std::int64_t>& shape = target_.tensors[tensor].shape;
    std::int64_t at = 0;
    for (const MapPart& part : entry.parts.value_or(std::vector<MapPart>())) {
      claim.parts.push_back(part_of(part, step, at));
      at += problem_.empty() ? claim.parts.back().count : 0;
    }
    const bool is_of_parts = claim.kind == RelationKind::joined || claim.kind == RelationKind::cut;
    const std::size_t expected = claim.kind == RelationKind::sum ? 2 : is_of_parts ? claim.parts.size() : 1;
    if (claim.parts.empty() || claim.parts.size() != expected)
      note(fmt::format("{} parts; `{}` has {}", claim.parts.size(), word_of(claim.kind), is_of_parts ? 1 : expected));
    if (entry.order) claim.order.assign(entry.order->begin(), entry.order->end());
    claim.turns_target = entry.turns_target;
    check_order(claim, shape);
    if (entry.merged) claim.merged = *entry.merged;
    const bool is_merged = !claim.merged.empty();
    const std::int64_t all = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    const bool is_of_all = is_merged && claim.merged.size() == 2 && claim.merged[0] > 0 && all % claim.merged[0] == 0 &&
                           all / claim.merged[0] == claim.merged[1];
    if (is_merged && !is_of_all) {
      note("`merged` is not two sizes of as many elements");
    }
    claim.is_of_sums = is_of_parts && !entry.axis && !claim.parts.empty() && claim.parts.front().axis < 0;
    if (!entry.axis) return claim;
    claim.axis = static_cast<std::int32_t>(*entry.axis);
    const std::int64_t size = size_along(is_merged ? claim.merged : shape, *entry.axis, "the tensor");
    if (problem_.empty() && at != size)
      note(fmt::format("parts of {} indices, and its axis {} has {}", at, *entry.axis, size));
    return claim;
  }

  // Each axis once.
  void check_order(const Relation& claim, const std::vector<std::int64_t>& shape) {
    if (claim.order.empty() || !problem_.empty()) return;
    const std::size_t axes = claim.turns_target ? shape.size() : golden_.tensors[claim.golden()].shape.size();
    std::vector<std::size_t> sorted = claim.order;
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != i || sorted.size() != axes)
        return note(fmt::format("`order` does not name each of {} axes once", axes));
    }
  }

  static constexpr std::int64_t kMostIndices = std::int64_t{1} << 31;

  const Pool& target_;
  const Pool& golden_;
  const Places places_, golden_places_;
  MapClaims claims_;
  std::string problem_;
};

// Collects the entries of a map.
class Keeper {
 public:
  Keeper(const Pool& target, const Pool& golden, const std::vector<Relation>& relations)
      : target_(target), golden_(golden), relations_(relations), places_(target), golden_places_(golden) {}

  RelationMap map(bool with_none) {
    for (std::uint32_t i = 0; i < target_.tensors.size(); ++i) {
      if (target_.tensors[i].print.count == 0 || !places_.of(i) || (!relations_[i] && !with_none)) continue;
      const auto [at, is_new] = by_place_.try_emplace(*places_.of(i));
      if (is_new) order_.push_back(*places_.of(i));
      at->second.push_back(i);
    }
    RelationMap map{.version = kRelationMapVersion, .tensors = {}};
    for (const PlaceInStep& place : order_) {
      const std::vector<std::uint32_t>& tensors = by_place_[place];
      if (is_alike_in_all(tensors)) {
        add(tensors.front(), false, map);
      } else {
        for (const std::uint32_t tensor : tensors) add(tensor, true, map);
      }
    }
    return map;
  }

 private:
  // The golden tensor in the step with the same place in the dump, where it has the same values; else itself.
  std::uint32_t golden_in(std::size_t step, std::uint32_t golden) const {
    const PoolTensor& own = golden_.tensors[golden];
    if (own.step == step || !golden_places_.of(golden)) return golden;
    const std::uint32_t* other = golden_places_.at(step, *golden_places_.of(golden));
    if (other == nullptr) return golden;
    const TensorPrint &a = own.print, &b = golden_.tensors[*other].print;
    const bool are_equal = a.count == b.count && a.whole.sum == b.whole.sum && a.whole.norm == b.whole.norm;
    return are_equal ? *other : golden;
  }

  // The relation is the same in each step: one entry without steps says it.
  bool is_alike_in_all(const std::vector<std::uint32_t>& tensors) const {
    if (tensors.size() != target_.steps.size()) return false;
    std::string first;
    for (const std::uint32_t tensor : tensors) {
      const std::size_t step = target_.tensors[tensor].step;
      for (const RelationPart& part : relations_[tensor].parts) {
        if (golden_.tensors[golden_in(step, part.golden)].step != step) return false;
      }
      const std::optional<MappedTensor> entry = entry_of(tensor, false);
      if (!entry) return false;
      const std::string text = text_of_map({.version = 0, .tensors = {*entry}});
      if (first.empty()) first = text;
      if (text != first) return false;
    }
    return true;
  }

  static void put_step(const Pool& pool, std::size_t step, PlacedTensor& into) {
    const StepId& id = pool.steps[step]->step->id;
    into.step = id.number;
    if (id.graph != 0) into.graph = id.graph;
    if (pool.steps[step]->rank->rank != 0) into.rank = pool.steps[step]->rank->rank;
  }

  static PlacedTensor placed(const PlaceInStep& place) {
    PlacedTensor tensor;
    (place.is_parameter ? tensor.parameter : tensor.op_name) = place.name;
    tensor.is_read = place.is_read;
    if (place.slot != 0) tensor.slot = place.slot;
    return tensor;
  }

  std::optional<MappedTensor> entry_of(std::uint32_t tensor, bool with_steps) const {
    const Relation& relation = relations_[tensor];
    MappedTensor entry;
    entry.tensor = placed(*places_.of(tensor));
    if (with_steps) put_step(target_, target_.tensors[tensor].step, entry.tensor);
    entry.relation = relation.kind;
    if (relation.axis >= 0) entry.axis = static_cast<std::uint32_t>(relation.axis);
    if (!relation.merged.empty()) entry.merged = relation.merged;
    if (!relation.order.empty()) entry.order.emplace(relation.order.begin(), relation.order.end());
    entry.turns_target = relation.turns_target;
    if (!relation.parts.empty()) entry.parts.emplace();
    for (const RelationPart& part : relation.parts) {
      const std::uint32_t golden = golden_in(target_.tensors[tensor].step, part.golden);
      if (!golden_places_.of(golden)) return std::nullopt;
      MapPart& kept = entry.parts->emplace_back();
      kept.tensor = placed(*golden_places_.of(golden));
      if (with_steps) put_step(golden_, golden_.tensors[golden].step, kept.tensor);
      if (part.axis < 0) continue;
      kept.axis = static_cast<std::uint32_t>(part.axis);
      if (part.start != 0) kept.start = static_cast<std::uint64_t>(part.start);
      if (part.step != 1) kept.stride = part.step;
      if (part.count != 1) kept.count = static_cast<std::uint64_t>(part.count);
    }
    return entry;
  }

  void add(std::uint32_t tensor, bool with_steps, RelationMap& map) const {
    // Values inside of golden operators are in no dump.
    if (std::optional<MappedTensor> entry = entry_of(tensor, with_steps)) map.tensors.push_back(std::move(*entry));
  }

  const Pool& target_;
  const Pool& golden_;
  const std::vector<Relation>& relations_;
  const Places places_, golden_places_;
  std::map<PlaceInStep, std::vector<std::uint32_t>> by_place_;
  std::vector<PlaceInStep> order_;
};

}  // namespace

MapClaims claims_of(const RelationMap& map, const Pool& target, const Pool& golden) {
  Claims claims(target, golden);
  for (const MappedTensor& entry : map.tensors) claims.add(entry);
  return claims.take();
}

RelationMap map_of(const Pool& target, const Pool& golden, const std::vector<Relation>& relations, bool with_none) {
  return Keeper(target, golden, relations).map(with_none);
}

}  // namespace sonde
