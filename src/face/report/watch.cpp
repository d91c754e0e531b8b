#include "face/report/watch.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <set>

#include "face/report/catalog_text.h"
#include "face/report/json.h"
#include "face/report/table.h"
#include "face/report/text.h"
#include "read/catalog/slot_text.h"

namespace sonde {
namespace {

struct Where {
  const CatalogRank* rank;
  const CatalogStep* step;
  const CatalogOp* op;
  const CatalogTensor* tensor;
};

Where where(const Catalog& catalog, const TensorPlace& place) {
  const CatalogRank& rank = catalog.ranks[place.rank];
  const CatalogStep& step = rank.steps[place.step];
  const CatalogOp& op = step.ops[place.op];
  return {&rank, &step, &op, &op.tensors[place.tensor]};
}

std::string six_digits(double value) { return fmt::format("{:.6g}", value); }

// "abs_mean_gt 10": the parameters that fired; empty for conditions without a threshold.
std::string setting_text(const WatchHit& hit) {
  std::vector<std::string> parts;
  for (const WatchParameter& parameter : hit.parameters) {
    if (parameter.hit) parts.push_back(fmt::format("{} {}", parameter.parameter->name, six_digits(parameter.value)));
  }
  return joined(parts, ", ");
}

std::string actual_text(const WatchHit& hit) {
  if (!hit.found.empty()) return hit.found;
  std::vector<std::string> parts;
  for (const WatchParameter& parameter : hit.parameters) {
    if (!parameter.hit) continue;
    if (parameter.actual) parts.push_back(six_digits(*parameter.actual));
    if (parameter.at_least) parts.push_back(">= " + six_digits(*parameter.at_least));
    if (parameter.at_most) parts.push_back("<= " + six_digits(*parameter.at_most));
  }
  if (parts.empty() && hit.nan_count.value_or(0) > 0) parts.push_back(fmt::format("{} nan", *hit.nan_count));
  if (hit.parameters.empty() && hit.inf_count.value_or(0) > 0) parts.push_back(fmt::format("{} inf", *hit.inf_count));
  return joined(parts, ", ");
}

std::string dtype_of(const WatchHit& hit) {
  return hit.dtype == DType::undefined ? "?" : std::string(info(hit.dtype).lower);
}
std::string shape_of(const WatchHit& hit) { return hit.shape ? shape_text(*hit.shape, '(', ')') : "?"; }

std::string previous_text(const WatchHit& hit) {
  return hit.previous_step ? fmt::format("{}{}", *hit.previous_step, (hit.error_code & kWatchNoHistory) != 0 ? "?" : "")
                           : "";
}

JudgedCondition condition_of(const Watchpoint& watchpoint, const WatchHit& hit) {
  JudgedCondition condition;
  condition.id = watchpoint.condition.info->id;
  condition.abbr = watchpoint.condition.info->abbreviation;
  condition.params = judged_values(hit);
  return condition;
}

JudgedPoint point_of(const Watchpoint& watchpoint, const WatchHit& hit) {
  JudgedPoint point;
  point.id = hit.watchpoint + 1;
  point.watch_condition = condition_of(watchpoint, hit);
  point.hit = hit.hit;
  point.error_code = hit.error_code;
  for (const std::string_view word : error_words(hit.error_code)) point.error_list.emplace_back(word);
  for (const std::string_view message : error_messages(hit.error_code)) point.error_msg.emplace_back(message);
  point.hit_detail = detail_of(hit);
  point.previous_step = hit.previous_step;
  point.nan_count = hit.nan_count;
  point.inf_count = hit.inf_count;
  return point;
}

// Of an answer's part: the operator that it is about.
template <typename Part>
void put_op(Part& part, const Where& at) {
  part.op_name = at.op->op_name;
  part.rank = at.rank->rank;
  part.graph = at.step->id.graph;
  part.step = at.step->id.number;
}

WatchedOp op_of(const Where& at) {
  WatchedOp op;
  put_op(op, at);
  op.op_type = at.op->op_type;
  op.scope = scope_of(*at.op);
  op.graph_name = fmt::format("kernel_graph_{}", at.step->id.graph);
  op.source_file = at.op->source_file;
  op.source_line = at.op->line;
  op.function = at.op->function;
  return op;
}

WatchedTensor tensor_of(const Where& at, const WatchHit& hit) {
  WatchedTensor tensor;
  tensor.side = side_of(*at.tensor);
  tensor.slot = at.tensor->slot;
  tensor.dtype = dtype_of(hit);
  if (hit.shape) tensor.shape.emplace(hit.shape->begin(), hit.shape->end());
  tensor.timestamp_us = hit.timestamp_us;
  if (!at.tensor->file.empty()) tensor.tensor_file = (at.rank->directory / at.tensor->file).string();
  return tensor;
}

// Grouped by operator and tensor, in the order of their first hits.
std::vector<WatchedOp> hits_of(const Catalog& catalog, std::span<const Watchpoint> watchpoints,
                               const WatchReport& report) {
  std::vector<WatchedOp> ops;
  std::map<TensorPlace, std::size_t> op_at;      // by the place with tensor 0
  std::map<TensorPlace, std::size_t> tensor_at;  // within its operator
  for (const WatchHit& hit : report.hits) {
    const Where at = where(catalog, hit.tensor);
    TensorPlace place = hit.tensor;
    place.tensor = 0;
    const auto [op, is_new_op] = op_at.try_emplace(place, ops.size());
    if (is_new_op) ops.push_back(op_of(at));
    std::vector<WatchedTensor>& tensors = ops[op->second].tensors;
    const auto [tensor, is_new_tensor] = tensor_at.try_emplace(hit.tensor, tensors.size());
    if (is_new_tensor) tensors.push_back(tensor_of(at, hit));
    tensors[tensor->second].watch_points.push_back(point_of(watchpoints[hit.watchpoint], hit));
  }
  return ops;
}

std::vector<WatchPoint> points_of(std::span<const Watchpoint> watchpoints) {
  std::vector<WatchPoint> points;
  for (const Watchpoint& watchpoint : watchpoints) {
    WatchPoint& point = points.emplace_back();
    point.id = points.size();
    point.name = watchpoint.name;
    point.watch_condition = {
        std::string(watchpoint.condition.info->id), std::string(watchpoint.condition.info->abbreviation), {}};
    for (const ParameterValue& value : watchpoint.condition.parameters) {
      point.watch_condition.params.push_back({std::string(value.parameter->name), value.value});
    }
    point.tensors = watchpoint.tensors.size();
  }
  return points;
}

std::string_view word_of(ConditionParameter::Kind kind) {
  return kind == ConditionParameter::Kind::check     ? "CHECK_PARAM"
         : kind == ConditionParameter::Kind::support ? "SUPPORT_PARAM"
                                                     : "HIDDEN_PARAM";
}

std::string limits_text(const ConditionParameter& parameter) {
  constexpr double kMost = std::numeric_limits<double>::max();
  if (parameter.low == -kMost) return "";
  if (parameter.high == kMost) return fmt::format("{} {:g}", parameter.without_low ? ">" : ">=", parameter.low);
  return fmt::format("{:g}..{:g}", parameter.low, parameter.high);
}

}  // namespace

std::vector<JudgedValue> judged_values(const WatchHit& hit) {
  std::vector<JudgedValue> values;
  for (const WatchParameter& parameter : hit.parameters) {
    values.push_back({std::string(parameter.parameter->name), parameter.value, parameter.actual, parameter.hit,
                      parameter.at_least, parameter.at_most});
  }
  return values;
}

std::string hits_table(const Catalog& catalog, std::span<const Watchpoint> watchpoints, const WatchReport& report,
                       std::size_t width) {
  Table table({{"rank", Align::right},
               {"graph", Align::right},
               {"step", Align::right},
               {"op", Align::left, true},
               {"slot"},
               {"dtype", Align::left, false, 3},
               {"shape", Align::left, true, 4},
               {"condition"},
               {"set"},
               {"found", Align::right},
               {"before", Align::right},
               {"line", Align::left, false, 1}});
  bool many_graphs = false;
  for (const WatchHit& hit : report.hits) many_graphs |= where(catalog, hit.tensor).step->id.graph != 0;
  for (const WatchHit& hit : report.hits) {
    if (!hit.hit) continue;
    const Where at = where(catalog, hit.tensor);
    table.add({catalog.ranks.size() > 1 ? std::to_string(at.rank->rank) : "",
               many_graphs ? std::to_string(at.step->id.graph) : "", std::to_string(at.step->id.number),
               std::string(at.op->op_name), slot_text(*at.tensor), dtype_of(hit), shape_of(hit),
               std::string(watchpoints[hit.watchpoint].condition.info->id), setting_text(hit), actual_text(hit),
               previous_text(hit), source_text(*at.op)});
  }
  return table.empty() ? "" : table.text(width);
}

std::string summary_table(const Catalog& catalog, std::span<const Watchpoint> watchpoints, const WatchReport& report,
                          std::size_t width) {
  struct Sum {
    std::size_t hits = 0;
    std::set<std::string_view> ops;
    const WatchHit* first = nullptr;
  };
  std::map<std::uint32_t, Sum> sums;  // by watchpoint
  const auto step_of = [&](const WatchHit& hit) { return where(catalog, hit.tensor).step->id.number; };
  for (const WatchHit& hit : report.hits) {
    if (!hit.hit) continue;
    Sum& sum = sums[hit.watchpoint];
    ++sum.hits;
    sum.ops.insert(where(catalog, hit.tensor).op->op_name);
    if (sum.first == nullptr || step_of(hit) < step_of(*sum.first)) sum.first = &hit;
  }
  Table table({{"condition"},
               {"hits", Align::right},
               {"ops", Align::right},
               {"first step", Align::right},
               {"first op", Align::left, true},
               {"line", Align::left, false, 1}});
  for (const auto& [watchpoint, sum] : sums) {
    const Where at = where(catalog, sum.first->tensor);
    table.add({std::string(watchpoints[watchpoint].condition.info->id), std::to_string(sum.hits),
               std::to_string(sum.ops.size()), std::to_string(at.step->id.number), std::string(at.op->op_name),
               source_text(*at.op)});
  }
  return table.empty() ? "" : table.text(width);
}

std::string doubts_text(const Catalog& catalog, std::span<const Watchpoint> watchpoints, const WatchReport& report) {
  struct Doubt {
    std::size_t count = 0;
    std::string first;
  };
  std::map<std::pair<std::uint32_t, std::string>, Doubt> doubts;  // by watchpoint and reason
  const auto add = [&](std::uint32_t watchpoint, const std::string& reason, const TensorPlace& place) {
    Doubt& doubt = doubts[{watchpoint, reason}];
    if (doubt.count++ > 0) return;
    const Where at = where(catalog, place);
    doubt.first = fmt::format("{}:{}, step {}", at.op->op_name, slot_text(*at.tensor), at.step->id.number);
  };
  for (const WatchHit& hit : report.hits) {
    if (hit.hit) continue;
    add(hit.watchpoint, reason_of(hit), hit.tensor);
  }
  for (const WatchGap& gap : report.gaps) add(gap.watchpoint, gap.reason, gap.tensor);
  std::string text;
  for (const auto& [key, doubt] : doubts) {
    text += printable(fmt::format("not judged: {} of {}: {} (such as {})", watchpoints[key.first].condition.info->id,
                                  count_text(doubt.count, "tensor"), key.second, doubt.first)) +
            "\n";
  }
  return text;
}

WatchDocument answer_of(const Catalog& catalog, std::span<const Watchpoint> watchpoints, const WatchReport& report) {
  WatchDocument answer;
  answer.watch_points = points_of(watchpoints);
  answer.hits = hits_of(catalog, watchpoints, report);
  answer.not_judged.emplace();
  for (const WatchGap& gap : report.gaps) {
    const Where at = where(catalog, gap.tensor);
    NotJudged& one = answer.not_judged->emplace_back();
    put_op(one, at);
    one.id = gap.watchpoint + 1;
    one.side = side_of(*at.tensor);
    one.slot = at.tensor->slot;
    one.reason = gap.reason;
  }
  answer.notes = report.notes;
  answer.tensors = report.tensors;
  answer.not_read = report.not_read;
  answer.files_read = report.files;
  answer.bytes_read = report.bytes;
  answer.outdated = false;
  return answer;
}

std::string conditions_table(std::size_t width) {
  Table table({{"condition"},
               {"short"},
               {"no.", Align::right},
               {"nodes"},
               {"parameter"},
               {"values"},
               {"default"},
               {"fires on"}});
  for (const ConditionInfo& condition : all_conditions()) {
    std::vector<std::string> head = {std::string(condition.id), std::string(condition.abbreviation),
                                     std::to_string(static_cast<int>(condition.check)),
                                     std::string(word_of(condition.target))};
    bool is_first = true;
    const auto add = [&](std::string name, std::string limits, std::string fallback) {
      table.add({is_first ? head[0] : "", is_first ? head[1] : "", is_first ? head[2] : "", is_first ? head[3] : "",
                 std::move(name), std::move(limits), std::move(fallback),
                 is_first ? std::string(condition.summary) : ""});
      is_first = false;
    };
    if (condition.parameters.empty()) add("", "", "");
    for (const ConditionParameter& parameter : condition.parameters) {
      add(std::string(parameter.name), limits_text(parameter),
          parameter.fallback ? fmt::format("{:g}", *parameter.fallback) : "");
    }
  }
  return table.text(width);
}

WatchDocument conditions_answer() {
  std::vector<Condition> all;
  for (const ConditionInfo& info : all_conditions()) {
    Condition& condition = all.emplace_back();
    condition.id = info.id;
    condition.abbr = info.abbreviation;
    condition.target = word_of(info.target);
    condition.backend = static_cast<std::uint64_t>(info.check);
    condition.summary = info.summary;
    for (const ConditionParameter& parameter : info.parameters) {
      ConditionParameterInfo& one = condition.parameters.emplace_back();
      one.name = parameter.name;
      one.type = "FLOAT64";
      one.support_disable = parameter.kind == ConditionParameter::Kind::check;
      one.default_value = parameter.fallback;
      one.param_type = word_of(parameter.kind);
      if (parameter.needs_range) one.required_params = {"range_start_inclusive", "range_end_inclusive"};
      one.values = limits_text(parameter);
    }
  }
  WatchDocument answer;
  answer.conditions = std::move(all);
  return answer;
}

}  // namespace sonde
