#include "guests/msaccucmp/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "ground/files/mapped_file.h"
#include "guests/msaccucmp/directory.h"
#include "plan/config/diagnostics.h"
#include "plan/config/json.h"

namespace sonde::msaccucmp {
namespace {

using JsonKind = JsonValue::Kind;

// A rule file of a large model has tens of megabytes.
constexpr JsonLimits kLimits = {.bytes = std::size_t{1} << 30, .depth = 64, .values = std::size_t{1} << 26};

// The reason why a rule file is invalid, with the place in it. Only thrown inside this file.
struct RuleError {
  Failure failure;
};

[[noreturn]] void fail(std::size_t line, std::string_view what) {
  throw RuleError{{Code::cannot_parse_json, fmt::format("line {}: {}", line, what)}};
}

const JsonValue& member(const JsonValue& object, std::string_view key, JsonKind kind, std::string_view expected) {
  const JsonMember* found = object.find(key);
  if (found == nullptr) fail(object.line, fmt::format("there is no '{}'", key));
  if (!found->value.is(kind))
    fail(found->value.line, fmt::format("'{}' is {}, not {}", key, spelled(found->value), expected));
  return found->value;
}
const JsonValue& array(const JsonValue& object, std::string_view key) {
  return member(object, key, JsonKind::array, "an array");
}
const std::string& string(const JsonValue& object, std::string_view key) {
  return member(object, key, JsonKind::string, "a string").text;
}

std::int64_t integer(const JsonValue& value, std::string_view key) {
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(value.text.data(), value.text.data() + value.text.size(), number);
  const bool is_whole = value.is(JsonKind::unsigned_integer) || value.is(JsonKind::negative_integer);
  if (!is_whole || problem != std::errc() || end != value.text.data() + value.text.size()) {
    fail(value.line, fmt::format("'{}' is {}, not an integer", key, spelled(value)));
  }
  return number;
}

// The `value` of the first attribute with this key.
const JsonValue* attribute(const JsonValue& attributes, std::string_view key) {
  for (const JsonValue& item : attributes.items) {
    if (string(item, "key") != key) continue;
    const JsonMember* value = item.find("value");
    if (value == nullptr) fail(item.line, fmt::format("the attribute '{}' has no 'value'", key));
    return &value->value;
  }
  return nullptr;
}

std::string text_attribute(const JsonValue& attributes, std::string_view key) {
  const JsonValue* value = attribute(attributes, key);
  return value == nullptr ? "" : string(*value, "s");
}

// The `list` of an attribute, and in it the array `kind`; null if that is missing.
const JsonValue* list_attribute(const JsonValue& value, std::string_view kind) {
  const JsonMember* list = value.find("list");
  if (list == nullptr) fail(value.line, "there is no 'list'");
  return list->value.find(kind) == nullptr ? nullptr : &array(list->value, kind);
}

OriginOutput parse_origin(const JsonValue& attributes, std::int64_t position) {
  OriginOutput origin;
  origin.name = text_attribute(attributes, "_datadump_origin_name");
  const JsonValue* index = attribute(attributes, "_datadump_origin_output_index");
  if (index != nullptr) {
    const JsonMember* number = index->find("i");
    if (number == nullptr) fail(index->line, "'_datadump_origin_output_index' has no 'i'");
    origin.index = integer(number->value, "_datadump_origin_output_index");
  } else {
    origin.index = position;
  }
  origin.format = text_attribute(attributes, "_datadump_origin_format");
  if (origin.format.empty()) origin.format = text_attribute(attributes, "origin_format");
  if (const JsonValue* shape = attribute(attributes, "origin_shape"); shape != nullptr) {
    const JsonValue* sizes = list_attribute(*shape, "i");
    if (sizes != nullptr) {
      for (const JsonValue& size : sizes->items) origin.shape.push_back(integer(size, "origin_shape"));
    }
  }
  return origin;
}

std::vector<OriginOutput> parse_outputs(const JsonValue& op) {
  std::vector<OriginOutput> outputs;
  const JsonMember* list = op.find("output_desc");
  if (list == nullptr) return outputs;
  for (std::size_t i = 0; i < list->value.items.size(); ++i) {
    const JsonValue& item = list->value.items[i];
    const JsonMember* attributes = item.find("attr");
    if (attributes == nullptr) continue;
    OriginOutput origin = parse_origin(attributes->value, static_cast<std::int64_t>(i));
    if (const JsonMember* dtype = item.find("dtype"); dtype != nullptr) origin.dtype = dtype->value.text;
    outputs.push_back(std::move(origin));
  }
  return outputs;
}

// Outputs without an origin come from `name`.
void name_outputs(std::vector<OriginOutput>& outputs, const std::string& name) {
  if (outputs.empty()) outputs.push_back({name, std::nullopt, "", {}, ""});
  for (OriginOutput& output : outputs) {
    if (output.name.empty()) output.name = name;
  }
}

std::string group_key(const RuleOp& op, const std::string& l1_group) {
  if (!l1_group.empty()) return l1_group;
  if (op.origins.empty() || (op.origins.size() == 1 && op.origins[0].empty())) return op.name;
  if (op.origins.size() == 1) return op.origins[0];
  return fmt::format("\x01{}", fmt::join(op.origins, ""));  // no other key begins like that
}

RuleOp parse_op(const JsonValue& object) {
  RuleOp op;
  op.name = without_slices(string(object, "name"));
  op.type = string(object, "type");
  if (object.find("input") != nullptr) {
    for (const JsonValue& input : array(object, "input").items) {
      const bool is_control_edge = input.text.ends_with(":-1");
      if (!input.text.empty() && !is_control_edge) op.inputs.push_back(without_slices(input.text));
    }
  }
  op.outputs = parse_outputs(object);
  static const JsonValue kNone = {};
  const JsonValue& attributes = object.find("attr") == nullptr ? kNone : array(object, "attr");
  if (const JsonValue* multi = attribute(attributes, "_datadump_is_multiop"); multi != nullptr) {
    op.is_multi = member(*multi, "b", JsonKind::boolean, "true or false").boolean;
  }
  op.l1_group = text_attribute(attributes, "_L1_fusion_sub_graph_no");
  const JsonValue* origins = attribute(attributes, "_datadump_original_op_names");
  if (origins == nullptr) {
    op.origins = {op.name};
    name_outputs(op.outputs, op.name);
  } else if (const JsonValue* names = list_attribute(*origins, "s"); names == nullptr) {
    op.origins = {""};
  } else {
    for (const JsonValue& name : names->items) op.origins.push_back(name.text);
  }
  if (const JsonMember* id = object.find("id"); id != nullptr) op.sequence = integer(id->value, "id");
  return op;
}

void put_key(Rules& rules, const std::string& op_name, const std::string& key) {
  if (rules.key_by_op.insert_or_assign(op_name, key).second) rules.op_names.push_back(op_name);
}

// Puts an operator into its group: a new one, or after the others in it.
void join_group(Rules& rules, RuleOp op, const std::string& key) {
  const auto [place, is_new] = rules.group_by_key.try_emplace(key, rules.groups.size());
  if (is_new) rules.groups.push_back({key, {}});
  Group& group = rules.groups[place->second];
  op.index = static_cast<std::int64_t>(place->second);
  const bool is_known =
      std::ranges::any_of(group.ops, [&](std::size_t other) { return rules.ops[other].name == op.name; });
  if (is_known) return;
  group.ops.push_back(rules.ops.size());
  rules.in_sequence.push_back(rules.ops.size());
  rules.ops.push_back(std::move(op));
}

// A group of one operator named after its only golden one: its outputs are that one's.
void name_renamed(Rules& rules) {
  for (const Group& group : rules.groups) {
    RuleOp& op = rules.ops[group.ops[0]];
    if (group.ops.size() == 1 && op.origins.size() == 1 && rules.key_by_op[op.name] == op.origins[0]) {
      name_outputs(op.outputs, op.origins[0]);
    }
  }
}

// --- operators between a quantising and a dequantising one -----------------------------------------------------------

enum class Place { outside, inside, quantises, dequantises };

bool names_one_of(const RuleOp& op, std::initializer_list<std::string_view> markers) {
  const std::string origins = fmt::format("{}", fmt::join(op.origins, ""));
  return std::ranges::any_of(markers, [&](std::string_view marker) {
    return op.name.find(marker) != std::string::npos || origins.find(marker) != std::string::npos;
  });
}

using Places = std::unordered_map<std::string, std::vector<Place>>;

bool reads_quantised(const RuleOp& op, const Places& places) {
  for (const std::string& input : op.inputs) {
    const std::size_t colon = input.rfind(':');
    if (colon == std::string::npos) continue;
    std::size_t index = 0;
    const char* end = input.data() + input.size();
    const auto [stop, problem] = std::from_chars(input.data() + colon + 1, end, index);
    if (problem != std::errc() || stop != end) continue;
    const auto outputs = places.find(input.substr(0, colon));
    if (outputs == places.end() || index >= outputs->second.size()) continue;
    if (outputs->second[index] == Place::quantises || outputs->second[index] == Place::inside) return true;
  }
  return false;
}

void leave_out_quantised(Rules& rules) {
  Places places;
  for (const std::size_t i : rules.in_sequence) {
    RuleOp& op = rules.ops[i];
    const bool quantises =
        names_one_of(op, {"_quant_layer", "/AscendQuant", "/AscendWeightQuant", ".quant", ".weight_quant"});
    const bool dequantises = names_one_of(
        op, {"_dequant_layer", "_anti_quant_layer", "/AscendDequant", "/AntiQuant", ".dequant", ".anti_quant"});
    const bool is_inside = reads_quantised(op, places);
    std::vector<Place>& outputs = places[op.name];
    outputs.clear();
    for (const OriginOutput& output : op.outputs) {
      Place place = is_inside ? Place::inside : Place::outside;
      if (quantises && output.dtype == "DT_INT8") place = Place::quantises;
      if (dequantises && output.dtype == "DT_FLOAT16") place = Place::dequantises;
      outputs.push_back(place);
    }
    const bool all_dequantise = std::ranges::all_of(outputs, [](Place p) { return p == Place::dequantises; });
    op.is_left_out = is_inside && !all_dequantise;
  }
}

std::optional<JsonValue> parse_json_text(std::string_view text, std::string& problem) {
  Diagnostics diagnostics;
  std::optional<JsonValue> root = parse_json(text, diagnostics, kLimits);
  for (const Diagnostic& diagnostic : diagnostics.take()) {
    if (problem.empty()) problem = fmt::format("line {}: {}", diagnostic.line, diagnostic.message);
  }
  return root;
}

}  // namespace

bool RuleOp::is_inner() const {
  return is_multi && std::ranges::all_of(outputs, [](const OriginOutput& output) { return output.name.empty(); });
}

std::string RuleOp::origins_text() const { return fmt::format("{}", fmt::join(origins, ",")); }

Relation Rules::relation(const Group& group) const {
  const RuleOp& first = ops[group.ops[0]];
  if (group.ops.size() == 1) return first.origins.size() > 1 ? Relation::many_to_one : Relation::one_to_one;
  if (!first.l1_group.empty()) return Relation::l1_fusion;
  return first.origins.size() == 1 ? Relation::one_to_many : Relation::many_to_many;
}

const Group* Rules::group_of(std::string_view op_name) const {
  const auto key = key_by_op.find(std::string(op_name));
  if (key == key_by_op.end()) return nullptr;
  const auto group = group_by_key.find(key->second);
  return group == group_by_key.end() ? nullptr : &groups[group->second];
}

const RuleOp* Rules::find(std::string_view op_name) const {
  const Group* group = group_of(op_name);
  if (group == nullptr) return nullptr;
  const auto op = std::ranges::find_if(group->ops, [&](std::size_t i) { return ops[i].name == op_name; });
  return op == group->ops.end() ? nullptr : &ops[*op];
}

std::pair<std::string, std::string> Rules::names(const Group& group) const {
  // Groups the operators by origin.
  std::vector<std::pair<std::string, std::vector<std::string>>> by_origin;
  for (const std::size_t i : group.ops) {
    const std::string origins = ops[i].origins_text();
    auto known = std::ranges::find_if(by_origin, [&](const auto& entry) { return entry.first == origins; });
    if (known == by_origin.end()) known = by_origin.insert(by_origin.end(), {origins, {}});
    known->second.push_back(ops[i].name);
  }
  std::string left, right;
  for (std::size_t i = 0; i < by_origin.size(); ++i) {
    left += fmt::format("{}{}", i == 0 ? "" : ",", fmt::join(by_origin[i].second, ","));
    right += fmt::format("{}{}", i == 0 ? "" : ",", by_origin[i].first);
  }
  return {left, right};
}

Outcome<Rules> parse_rules(std::string_view text, const std::string& name) {
  std::string problem;
  const std::optional<JsonValue> root = parse_json_text(text, problem);
  if (!root) return Failure{Code::cannot_parse_json, fmt::format("'{}', {}", name, problem)};
  Rules rules;
  try {
    for (const JsonValue& graph : array(*root, "graph").items) {
      for (const JsonValue& object : array(graph, "op").items) {
        RuleOp op = parse_op(object);
        if (op.type == "Data" && !op.name.empty()) rules.data_nodes.push_back(string(object, "name"));
        const std::string key = group_key(op, op.l1_group);
        put_key(rules, op.name, key);
        join_group(rules, std::move(op), key);
      }
      name_renamed(rules);
    }
  } catch (const RuleError& error) {
    return Failure{error.failure.status, fmt::format("'{}', {}", name, error.failure.reason)};
  }
  std::ranges::stable_sort(rules.in_sequence, {}, [&](std::size_t i) { return rules.ops[i].sequence; });
  leave_out_quantised(rules);
  return rules;
}

Outcome<Rules> read_rules(const std::filesystem::path& file) {
  const Result<MappedFile> mapped = MappedFile::open(file);
  if (!mapped) {
    std::error_code problem;
    const bool exists = std::filesystem::is_regular_file(file, problem);
    return Failure{exists ? Code::cannot_parse_json : Code::invalid_path, mapped.error().message};
  }
  return parse_rules(mapped->text(), file.string());
}

Outcome<std::vector<std::string>> graph_names(const std::filesystem::path& file) {
  const Result<MappedFile> mapped = MappedFile::open(file);
  if (!mapped) return Failure{Code::cannot_open, mapped.error().message};
  std::string problem;
  const std::optional<JsonValue> root = parse_json_text(mapped->text(), problem);
  if (!root) return Failure{Code::cannot_parse_json, fmt::format("'{}', {}", file.string(), problem)};
  std::vector<std::string> names;
  try {
    for (const JsonValue& graph : array(*root, "graph").items) names.push_back(string(graph, "name"));
  } catch (const RuleError& error) {
    return Failure{error.failure.status, fmt::format("'{}', {}", file.string(), error.failure.reason)};
  }
  return names;
}

}  // namespace sonde::msaccucmp
