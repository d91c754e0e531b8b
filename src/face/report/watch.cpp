#include "face/report/watch.h"

#include <fmt/format.h>

#include <limits>
#include <map>

#include "face/report/catalog_text.h"
#include "face/report/table.h"
#include "face/report/text.h"

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

Json params_of(const WatchHit& hit) {
  Json params = Json::array();
  for (const WatchParameter& parameter : hit.parameters) {
    params.push_back({{"name", parameter.parameter->name},
                      {"value", json_of(parameter.value)},
                      {"actual_value", parameter.actual ? json_of(*parameter.actual) : Json()},
                      {"is_hit", parameter.hit}});
    if (parameter.at_least) params.back()["at_least"] = json_of(*parameter.at_least);
    if (parameter.at_most) params.back()["at_most"] = json_of(*parameter.at_most);
  }
  return params;
}

Json point_of(const Watchpoint& watchpoint, const WatchHit& hit) {
  Json json = {{"id", hit.watchpoint + 1},
               {"watch_condition",
                {{"id", watchpoint.condition.info->id},
                 {"abbr", watchpoint.condition.info->abbreviation},
                 {"params", params_of(hit)}}},
               {"hit", hit.hit},
               {"error_code", hit.error_code},
               {"error_list", error_words(hit.error_code)},
               {"error_msg", error_messages(hit.error_code)}};
  if (const std::string detail = detail_of(hit); !detail.empty()) json["hit_detail"] = detail;
  if (hit.previous_step) json["previous_step"] = *hit.previous_step;
  if (hit.nan_count) json["nan_count"] = *hit.nan_count;
  if (hit.inf_count) json["inf_count"] = *hit.inf_count;
  return json;
}

Json node_of(const Where& at) {
  Json json = {{"op_name", at.op->op_name},  {"op_type", at.op->op_type},
               {"scope", scope_of(*at.op)},  {"rank", at.rank->rank},
               {"graph", at.step->id.graph}, {"graph_name", fmt::format("kernel_graph_{}", at.step->id.graph)},
               {"step", at.step->id.number}};
  json.update(json_of_source(*at.op));
  json["tensors"] = Json::array();
  return json;
}

Json tensor_of(const Where& at, const WatchHit& hit) {
  Json json = {{"side", side_of(*at.tensor)},
               {"slot", at.tensor->slot},
               {"dtype", dtype_of(hit)},
               {"shape", hit.shape ? Json(*hit.shape) : Json()},
               {"timestamp_us", hit.timestamp_us}};
  if (!at.tensor->file.empty()) json["tensor_file"] = (at.rank->directory / at.tensor->file).string();
  json["watch_points"] = Json::array();
  return json;
}

// Grouped by node and tensor, in the order of their first hits.
Json hits_json(const Catalog& catalog, std::span<const Watchpoint> watchpoints, const WatchReport& report) {
  Json nodes = Json::array();
  std::map<TensorPlace, std::size_t> node_at;    // by the place with tensor 0
  std::map<TensorPlace, std::size_t> tensor_at;  // within its node
  for (const WatchHit& hit : report.hits) {
    const Where at = where(catalog, hit.tensor);
    TensorPlace op = hit.tensor;
    op.tensor = 0;
    const auto [node, is_new_node] = node_at.try_emplace(op, nodes.size());
    if (is_new_node) nodes.push_back(node_of(at));
    Json& tensors = nodes[node->second]["tensors"];
    const auto [tensor, is_new_tensor] = tensor_at.try_emplace(hit.tensor, tensors.size());
    if (is_new_tensor) tensors.push_back(tensor_of(at, hit));
    tensors[tensor->second]["watch_points"].push_back(point_of(watchpoints[hit.watchpoint], hit));
  }
  return nodes;
}

Json watchpoints_json(std::span<const Watchpoint> watchpoints) {
  Json all = Json::array();
  for (std::size_t i = 0; i < watchpoints.size(); ++i) {
    Json params = Json::array();
    for (const ParameterValue& value : watchpoints[i].condition.parameters) {
      params.push_back({{"name", value.parameter->name}, {"value", json_of(value.value)}});
    }
    all.push_back({{"id", i + 1},
                   {"name", watchpoints[i].name},
                   {"watch_condition",
                    {{"id", watchpoints[i].condition.info->id},
                     {"abbr", watchpoints[i].condition.info->abbreviation},
                     {"params", params}}},
                   {"tensors", watchpoints[i].tensors.size()}});
  }
  return all;
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
    std::vector<std::string> reasons;
    for (const std::string_view message : error_messages(hit.error_code)) reasons.emplace_back(message);
    add(hit.watchpoint, joined(reasons, " "), hit.tensor);
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

Json json_of(const Catalog& catalog, std::span<const Watchpoint> watchpoints, const WatchReport& report) {
  Json gaps = Json::array();
  for (const WatchGap& gap : report.gaps) {
    const Where at = where(catalog, gap.tensor);
    gaps.push_back({{"id", gap.watchpoint + 1},
                    {"op_name", at.op->op_name},
                    {"rank", at.rank->rank},
                    {"graph", at.step->id.graph},
                    {"step", at.step->id.number},
                    {"side", side_of(*at.tensor)},
                    {"slot", at.tensor->slot},
                    {"reason", gap.reason}});
  }
  return {{"watch_points", watchpoints_json(watchpoints)},
          {"hits", hits_json(catalog, watchpoints, report)},
          {"not_judged", gaps},
          {"notes", report.notes},
          {"tensors", report.tensors},
          {"not_read", report.not_read},
          {"files_read", report.files},
          {"bytes_read", report.bytes},
          {"outdated", false}};
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

Json conditions_json() {
  Json all = Json::array();
  for (const ConditionInfo& condition : all_conditions()) {
    Json parameters = Json::array();
    for (const ConditionParameter& parameter : condition.parameters) {
      const bool needs_range = parameter.needs_range;
      parameters.push_back(
          {{"name", parameter.name},
           {"type", "FLOAT64"},
           {"support_disable", parameter.kind == ConditionParameter::Kind::check},
           {"default_value", parameter.fallback ? Json(*parameter.fallback) : Json()},
           {"param_type", word_of(parameter.kind)},
           {"required_params", needs_range ? Json{"range_start_inclusive", "range_end_inclusive"} : Json()},
           {"values", limits_text(parameter)}});
    }
    all.push_back({{"id", condition.id},
                   {"abbr", condition.abbreviation},
                   {"target", word_of(condition.target)},
                   {"backend", static_cast<int>(condition.check)},
                   {"parameters", parameters},
                   {"summary", condition.summary}});
  }
  return all;
}

}  // namespace sonde
