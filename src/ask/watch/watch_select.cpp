// The tensors that watchpoints check: those of a category of operators, and the debugger's recommendation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "ask/watch/watchpoints.h"
#include "read/operators/node_category.h"

namespace sonde {
namespace {

using Takes = std::function<bool(const CatalogRank&, const CatalogStep&, const CatalogOp&)>;

bool takes_side(WatchSelection::Sides sides, const CatalogTensor& tensor) {
  return sides == WatchSelection::Sides::both || tensor.is_input == (sides == WatchSelection::Sides::inputs);
}

struct Recommendation {
  std::string_view name, condition;
  std::vector<std::pair<std::string, double>> parameters;
  NodeCategory category;                // of the nodes; also the condition's own target if it needs all of them
  std::vector<std::string_view> types;  // plain_type(); empty: all
};

std::vector<Recommendation> recommendations() {
  const double tanh_end = std::tanh(8.8), sigmoid_low = 1 / (1 + std::exp(16.2)),
               sigmoid_high = 1 / (1 + std::exp(-16.2));
  const auto range = [](double start, double end, const char* check, double value) {
    return std::vector<std::pair<std::string, double>>{
        {"range_start_inclusive", start}, {"range_end_inclusive", end}, {check, value}};
  };
  using enum NodeCategory;
  return {
      {"recommend_weight_initialization_watchpoint",
       "weight_initialization",
       {{"zero_percentage_ge", 100}},
       weight,
       {}},
      {"recommend_weight_change_too_large_watchpoint",
       "weight_change_too_large",
       {{"abs_mean_update_ratio_gt", 1}},
       weight,
       {}},
      {"recommend_gradient_vanishing_watchpoint", "gradient_vanishing", {{"abs_mean_lt", 1e-9}}, gradient, {}},
      {"recommend_operator_overflow_watchpoint", "operator_overflow", {}, tensor, {}},
      {"recommend_tensor_overflow_watchpoint", "tensor_overflow", {}, tensor, {}},
      {"recommend_tensor_all_zero_watchpoint", "tensor_all_zero", {{"zero_percentage_ge", 100}}, tensor, {}},
      {"recommend_tanh_activation_range_watchpoint",
       "activation_range",
       range(-tanh_end, tanh_end, "range_percentage_lt", 0.1),
       activation,
       {"tanh"}},
      {"recommend_sigmoid_activation_range_watchpoint",
       "activation_range",
       range(sigmoid_low, sigmoid_high, "range_percentage_lt", 0.1),
       activation,
       {"sigmoid"}},
      {"recommend_relu_activation_range_watchpoint",
       "activation_range",
       range(-1, 0, "range_percentage_gt", 99.9),
       activation,
       {"relu", "reluv2"}},
  };
}

bool has_step_zero(const Catalog& catalog, const std::vector<TensorPlace>& tensors) {
  for (const TensorPlace& place : tensors) {
    if (catalog.ranks[place.rank].steps[place.step].id.number == 0) return true;
  }
  return false;
}

}  // namespace

std::vector<TensorPlace> select_watched(const Catalog& catalog, const WatchSelection& selection) {
  std::vector<TensorPlace> places;
  std::unordered_map<const char*, bool> is_of_category;  // by name: texts of a catalog are kept once
  for (std::uint32_t r = 0; r < catalog.ranks.size(); ++r) {
    const CatalogRank& rank = catalog.ranks[r];
    for (std::uint32_t s = 0; s < rank.steps.size(); ++s) {
      const CatalogStep& step = rank.steps[s];
      for (std::uint32_t o = 0; o < step.ops.size(); ++o) {
        const CatalogOp& op = step.ops[o];
        const bool is_weight = selection.category == NodeCategory::weight;
        const bool of_module = is_weight && op.is_module;
        if (selection.category != NodeCategory::tensor && !of_module) {
          const auto [at, is_new] = is_of_category.try_emplace(op.op_name.data());
          if (is_new) at->second = is_of(selection.category, op);
          if (!at->second) continue;
        }
        if (selection.takes && !selection.takes(rank, step, op)) continue;
        for (std::uint32_t t = 0; t < op.tensors.size(); ++t) {
          const CatalogTensor& tensor = op.tensors[t];
          const bool taken = of_module ? is_weight_of_module(op, tensor) : takes_side(selection.sides, tensor);
          const TensorPlace place = {r, s, o, t};
          if (!taken || !tensor.recorded()) continue;
          if (!selection.takes_tensor || selection.takes_tensor(place)) places.push_back(place);
        }
      }
    }
  }
  return places;
}

std::vector<Watchpoint> recommended_watchpoints(const Catalog& catalog, const WatchSelection& selection) {
  std::vector<Watchpoint> watchpoints;
  for (const Recommendation& recommendation : recommendations()) {
    if (selection.category != NodeCategory::tensor && selection.category != recommendation.category &&
        recommendation.category != NodeCategory::tensor) {
      continue;
    }
    WatchSelection own = selection;
    if (recommendation.category != NodeCategory::tensor) own.category = recommendation.category;
    own.takes = [&](const CatalogRank& rank, const CatalogStep& step, const CatalogOp& op) {
      if (selection.takes && !selection.takes(rank, step, op)) return false;
      if (recommendation.types.empty()) return true;
      const std::string type = plain_type(op.op_type);
      return std::ranges::find(recommendation.types, type) != recommendation.types.end();
    };
    Watchpoint watchpoint;
    watchpoint.name = recommendation.name;
    watchpoint.only_origins = true;
    watchpoint.condition = *make_condition(recommendation.condition, recommendation.parameters);
    watchpoint.tensors = select_watched(catalog, own);
    if (watchpoint.tensors.empty()) continue;
    const bool is_first_step = watchpoint.condition.info->check == WatchCheck::initialization;
    if (is_first_step && !has_step_zero(catalog, watchpoint.tensors)) continue;
    watchpoints.push_back(std::move(watchpoint));
  }
  return watchpoints;
}

Result<std::vector<Watchpoint>> make_watchpoints(const Catalog& catalog, std::span<const WatchCondition> conditions,
                                                 bool recommended, const WatchSelection& selection,
                                                 std::vector<std::string>& notes) {
  std::vector<Watchpoint> watchpoints;
  if (recommended) watchpoints = recommended_watchpoints(catalog, selection);
  for (const WatchCondition& condition : conditions) {
    const NodeCategory target = condition.info->target;
    WatchSelection own = selection;
    if (target != NodeCategory::tensor) {
      if (own.category != NodeCategory::tensor && own.category != target) {
        return Error{ErrorCode::invalid_argument,
                     fmt::format("condition '{}' watches nodes of category {}, not {}", condition.info->id,
                                 word_of(target), word_of(own.category))};
      }
      own.category = target;
    }
    Watchpoint& watchpoint = watchpoints.emplace_back();
    watchpoint.condition = condition;
    watchpoint.tensors = select_watched(catalog, own);
    if (!watchpoint.tensors.empty()) continue;
    const std::string category =
        own.category == NodeCategory::tensor ? "" : fmt::format(", or none is of category {}", word_of(own.category));
    notes.push_back(fmt::format("condition '{}' has nothing to watch: no {} of these nodes was recorded{}",
                                condition.info->id, own.sides == WatchSelection::Sides::inputs ? "input" : "output",
                                category));
  }
  return watchpoints;
}

}  // namespace sonde
