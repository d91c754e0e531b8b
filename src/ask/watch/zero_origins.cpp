#include "ask/watch/zero_origins.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ground/base/text.h"
#include "ground/model/gradient_name.h"
#include "read/catalog/data_flow.h"
#include "read/operators/node_category.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

// Ends of the names of parameters and buffers.
constexpr std::array<std::string_view, 6> kZeroEnds = {"bias",        "beta",    "running_mean",
                                                       "moving_mean", "rel_pos", "grad_scale"};

enum class Zeros : std::uint8_t {
  none,
  by_nature,         // written by the program
  of_parameter,      // a parameter that begins with zeros
  begin_here,        // a hit
  from_other_zeros,  // computed from a hit
};

bool is_about_zeros(const WatchCondition& condition) {
  const WatchCheck check = condition.info->check;
  return check == WatchCheck::all_zero || check == WatchCheck::initialization || check == WatchCheck::too_small ||
         check == WatchCheck::change_too_large;
}

bool holds_numbers(const CatalogTensor& tensor) {
  return tensor.dtype == DType::undefined || is_floating(tensor.dtype) || is_complex(tensor.dtype);
}

class Origins {
 public:
  Origins(const Catalog& catalog, std::span<const Watchpoint> watchpoints, const WatchReport& report)
      : catalog_(catalog) {
    for (const WatchHit& hit : report.hits) {
      const WatchCondition& condition = watchpoints[hit.watchpoint].condition;
      if (!hit.hit || !watchpoints[hit.watchpoint].only_origins) continue;
      if (condition.info->check == WatchCheck::all_zero) zero_.insert(&tensor_of(hit.tensor));
      if (condition.info->check == WatchCheck::too_small) small_.insert(&tensor_of(hit.tensor));
    }
    for (const CatalogRank& rank : catalog.ranks) walk(rank);
  }

  const CatalogOp& op_of(const TensorPlace& place) const {
    return catalog_.ranks[place.rank].steps[place.step].ops[place.op];
  }
  const CatalogTensor& tensor_of(const TensorPlace& place) const { return op_of(place).tensors[place.tensor]; }

  // Whether a healthy training has the hit too, or another hit says it already.
  bool is_expected(const WatchHit& hit, const WatchCondition& condition) const {
    const CatalogOp& op = op_of(hit.tensor);
    switch (condition.info->check) {
      case WatchCheck::initialization:
        return op.is_parameter && begins_with_zeros(op);
      case WatchCheck::change_too_large:
        return was_zero(hit);
      default:
        const auto at = origin_.find(&tensor_of(hit.tensor));
        return at != origin_.end() && at->second != Zeros::begin_here;
    }
  }

 private:
  // The part by which a tensor of zeros has changed says nothing.
  bool was_zero(const WatchHit& hit) const {
    const CatalogOp& op = op_of(hit.tensor);
    const std::vector<CatalogStep>& steps = catalog_.ranks[hit.tensor.rank].steps;
    for (std::uint32_t s = hit.tensor.step; s-- > 0;) {
      if (steps[s].id.graph != steps[hit.tensor.step].id.graph || steps[s].id.number != hit.previous_step) continue;
      for (const CatalogOp& before : steps[s].ops) {
        if (!before.is_parameter || before.op_name != op.op_name) continue;
        return std::ranges::any_of(before.tensors,
                                   [&](const CatalogTensor& tensor) { return zero_.contains(&tensor); });
      }
    }
    return false;
  }

  void walk(const CatalogRank& rank) {
    DataFlow flow(rank);
    for (const CatalogStep& step : rank.steps) {
      by_name_.clear();
      readers_.clear();
      unused_.clear();
      for (const CatalogOp& op : step.ops) note_readers(op);
      for (const CatalogOp& op : step.ops) {
        if (op.is_parameter && !is_gradient(op)) look_at_parameter(op);
        if (op.is_parameter && is_gradient(op) && is_unused(op)) unused_.insert(op.op_name);
      }
      for (const CatalogOp& op : step.ops) {
        if (op.is_parameter) continue;
        look_at(op, flow);
        flow.add(op);
      }
      for (const CatalogOp& op : step.ops) {
        if (op.is_parameter && is_gradient(op)) look_at_gradient(op, flow);
      }
    }
  }

  static bool is_gradient(const CatalogOp& parameter) { return is_gradient_name(parameter.op_name); }

  void note_readers(const CatalogOp& op) {
    if (op.is_parameter) return;
    for (const CatalogTensor& tensor : op.tensors) {
      if (tensor.is_input && !tensor.parameter.empty()) readers_[tensor.parameter].push_back({&op, &tensor});
    }
  }

  void look_at_parameter(const CatalogOp& op) {
    for (const CatalogTensor& tensor : op.tensors) {
      if (!zero_.contains(&tensor)) continue;
      const bool expected = begins_with_zeros(op) || !holds_numbers(tensor);
      origin_[&tensor] = by_name_[op.op_name] = expected ? Zeros::of_parameter : Zeros::begin_here;
    }
  }

  bool is_read_in_forward(std::string_view name) const {
    const auto at = readers_.find(name);
    return at != readers_.end() &&
           std::ranges::any_of(at->second, [](const Reader& reader) { return reader.op->phase == Phase::forward; });
  }

  // A gradient of zeros whose parameter no operator reads; where the dump does not say what they read, that is not known.
  bool is_unused(const CatalogOp& gradient) const {
    const std::string_view name = gradient.op_name.substr(0, gradient.op_name.size() - 5);
    return !readers_.empty() && !is_read_in_forward(name) &&
           std::ranges::any_of(gradient.tensors, [&](const CatalogTensor& tensor) { return zero_.contains(&tensor); });
  }

  Zeros of_gradient(const CatalogOp& op, const DataFlow& flow) const {
    const std::string_view name = op.op_name;
    if (unused_.contains(name)) return Zeros::by_nature;
    const auto at = readers_.find(name);
    if (at == readers_.end()) return Zeros::begin_here;
    for (const Reader& reader : at->second) {
      // The gradient before backward adds to it: zero_grad(set_to_none=False) wrote it.
      const bool adds = reader.op->phase == Phase::backward && nature_of(reader.op->op_type).in_place;
      if (adds && reader.input->slot == 0) return Zeros::by_nature;
    }
    for (const Reader& reader : at->second) {
      const auto maker = flow.maker(*reader.input);
      const CatalogTensor* made = maker ? DataFlow::output(*maker) : nullptr;
      if (const auto origin = origin_.find(made); origin != origin_.end()) {
        return origin->second == Zeros::begin_here ? Zeros::from_other_zeros : origin->second;
      }
    }
    return Zeros::begin_here;
  }

  void look_at_gradient(const CatalogOp& op, const DataFlow& flow) {
    for (const CatalogTensor& tensor : op.tensors) {
      if (zero_.contains(&tensor) || small_.contains(&tensor)) origin_[&tensor] = of_gradient(op, flow);
    }
  }

  Zeros of_input(const CatalogTensor& input, const DataFlow& flow) const {
    if (const auto maker = flow.maker(input)) {
      const CatalogTensor* made = DataFlow::output(*maker);
      const auto at = made != nullptr ? origin_.find(made) : origin_.end();
      return at == origin_.end() ? Zeros::none : at->second;
    }
    const auto at = by_name_.find(input.parameter);
    if (at != by_name_.end()) return at->second;
    if (unused_.contains(input.parameter)) return Zeros::by_nature;
    const bool is_zero = input.statistics && input.statistics->max == 0.0 && input.statistics->min == 0.0;
    return is_zero && input.parameter.empty() ? Zeros::by_nature : Zeros::none;  // a number of the program
  }

  void look_at(const CatalogOp& op, const DataFlow& flow) {
    bool from_hit = false, from_nature = false, from_parameter = false, all = true;
    for (const CatalogTensor& input : op.tensors) {
      if (!input.is_input || !holds_numbers(input) || input.constant) continue;
      const Zeros zeros = of_input(input, flow);
      from_hit = from_hit || zeros == Zeros::begin_here || zeros == Zeros::from_other_zeros;
      from_parameter = from_parameter || zeros == Zeros::of_parameter;
      from_nature = from_nature || zeros == Zeros::by_nature;
      all = all && zeros != Zeros::none;
    }
    const bool chosen = chooses_values(op.op_type);
    for (const CatalogTensor& output : op.tensors) {
      if (output.is_input || (!zero_.contains(&output) && !small_.contains(&output))) continue;
      Zeros& origin = origin_[&output];
      // A product with a mask of zeros is no longer what the program wrote.
      const bool inherits = from_parameter || (from_nature && all);
      origin = chosen || !holds_numbers(output) ? Zeros::by_nature
               : from_hit                       ? Zeros::from_other_zeros
               : inherits                       ? (from_parameter ? Zeros::of_parameter : Zeros::by_nature)
                                                : Zeros::begin_here;
    }
  }

  const Catalog& catalog_;
  std::unordered_set<const CatalogTensor*> zero_, small_;
  std::unordered_map<const CatalogTensor*, Zeros> origin_;
  std::unordered_map<std::string_view, Zeros> by_name_;  // parameters of the step
  std::unordered_set<std::string_view> unused_;          // gradients of parameters that nobody read
  struct Reader {
    const CatalogOp* op;
    const CatalogTensor* input;
  };
  std::unordered_map<std::string_view, std::vector<Reader>> readers_;  // of parameters and gradients, in the step
};

}  // namespace

bool chooses_values(std::string_view op_type) {
  const std::string type = single_type(op_type);
  const OpNature nature = nature_of(op_type);
  return nature.brings || nature.uninitialised || writes_chosen_numbers(type);
}

bool begins_with_zeros(const CatalogOp& parameter) {
  std::string name = lower_case(parameter.op_name);
  if (is_gradient_name(name)) return false;
  return is_optimizer_state(name) || name.find("lora_b") != std::string::npos ||
         name.find("lora_embedding_b") != std::string::npos ||
         std::ranges::any_of(kZeroEnds, [&](std::string_view end) { return name.ends_with(end); });
}

void keep_origins_of_zeros(const Catalog& catalog, std::span<const Watchpoint> watchpoints, WatchReport& report) {
  const bool any = std::ranges::any_of(watchpoints, [](const Watchpoint& of) { return of.only_origins; });
  if (!any || report.hits.empty()) return;
  const Origins origins(catalog, watchpoints, report);
  const std::size_t before = report.hits.size();
  std::erase_if(report.hits, [&](const WatchHit& hit) {
    const Watchpoint& watchpoint = watchpoints[hit.watchpoint];
    return hit.hit && watchpoint.only_origins && is_about_zeros(watchpoint.condition) &&
           origins.is_expected(hit, watchpoint.condition);
  });
  if (report.hits.size() == before) return;
  report.notes.push_back(
      fmt::format("recommended: {} hits are left out: zeros that the program wrote, or that come from other zeros; "
                  "`-c tensor_all_zero` lists all",
                  before - report.hits.size()));
}

}  // namespace sonde
