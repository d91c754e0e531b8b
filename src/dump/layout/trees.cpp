#include "dump/layout/trees.h"

#include <fmt/format.h>

#include <algorithm>

#include "dump/layout/side_names.h"
#include "ground/base/parse_number.h"

namespace sonde {
namespace {

constexpr TreeLevel kNet = {{"", Field::net, "NET"}};
constexpr TreeLevel kModel = {{"", Field::model, "MODEL"}};
constexpr TreeLevel kRank = {{"rank_", Field::rank, "N"}};
constexpr TreeLevel kWorldRank = {{"worldsize", Field::world_size, "W"}, {"_global_rank", Field::rank, "R"}};
constexpr TreeLevel kDevice = {{"", Field::device, "DEVICE"}};
constexpr TreeLevel kNamedDevice = {{"device_", Field::device, "N"}};
constexpr TreeLevel kTime = {{"", Field::time, "TIME"}};
constexpr TreeLevel kGraph = {{"", Field::graph, "GRAPH"}};
constexpr TreeLevel kNamedGraph = {{"graph_", Field::graph, "GRAPH"}};
constexpr TreeLevel kNetGraph = {{"", Field::net, "NET"}, {"_graph_", Field::graph, "GRAPH"}};
constexpr TreeLevel kGraphFromOne = {{"", Field::graph_from_one, "N"}};
constexpr TreeLevel kNamedGraphFromOne = {{"graph_", Field::graph_from_one, "N"}};
constexpr TreeLevel kStep = {{"", Field::step, "STEP"}};
constexpr TreeLevel kIteration = {{"iteration_", Field::step, "STEP"}};
constexpr TreeLevel kConstants = {{kConstantsDirectory}};
constexpr TreeLevel kZero = {{"0"}};

using enum LayoutKind;
// A path is tried in this order: the most specific names first.
constexpr std::array<Tree, 12> kTrees = {{
    {mindspore_1_2, mindspore_1_2, TreeCase::usual, {kNet, kNamedDevice}, {kIteration}},
    // That version counts the steps of all graphs together. Sonde does not, so that evaluation has a place of its own.
    {mindspore_1_2, mindspore_1_2, TreeCase::later_graphs, {kNet, kNamedDevice}, {kNamedGraph, kIteration}},
    {mindspore_1_2_async, mindspore_1_2_async, TreeCase::usual, {kNamedDevice}, {kNetGraph, kGraph, kStep}},
    // TorchAir counts graphs from 1, and calls the model after the graph.
    {torchair, torchair, TreeCase::usual, {kWorldRank, kTime, kDevice}, {kNamedGraphFromOne, kGraphFromOne, kStep}},
    // The step comes first: all devices share the directory of the plan, and only their metadata are apart.
    {o0, o0, TreeCase::usual, {}, {kStep, kTime, kDevice, kGraph}},
    // The path already contains the step; GE's own number for it stays 0.
    {o2, o2, TreeCase::usual, {}, {kStep, kTime, kDevice, kNet, kGraph, kZero}},
    {mindspore_2_0, mindspore_2_7, TreeCase::usual, {kRank}, {kNet, kGraph, kStep}},
    // Up to 2.5: data from outside that a graph's first recorded step reads.
    {mindspore_2_0, mindspore_2_5, TreeCase::constants, {kRank}, {kNet, kGraph, kConstants}},
    {ge, ge, TreeCase::usual, {kTime, kDevice}, {kNet, kGraph, kStep}},
    {acl, acl, TreeCase::usual, {kTime, kDevice}, {kModel, kGraph, kStep}},
    // A single operator: one outside every module.
    {acl, acl, TreeCase::no_model, {kTime, kDevice}, {}},
    {acl, acl, TreeCase::exceptions, {TreeLevel{{"extra-info"}}, TreeLevel{{"data-dump"}}, kDevice}, {}},
}};

std::string text_of(Field field, const TreeValues& values) {
  switch (field) {
    case Field::none:
      return "";
    case Field::net:
      return values.net;
    case Field::model:
      return values.model;
    case Field::rank:
      return std::to_string(values.rank.value_or(0));
    case Field::world_size:
      return std::to_string(values.world_size.value_or(1));
    case Field::device:
      return std::to_string(values.device.value_or(0));
    case Field::time:
      return values.time;
    case Field::graph:
      return std::to_string(values.graph.value_or(0));
    case Field::graph_from_one:
      return std::to_string(values.graph.value_or(0) + 1);
    case Field::step:
      return std::to_string(values.step.value_or(0));
  }
  return "";
}

// Two directories of a path must give the same value.
bool set(std::string_view text, std::string& value) {
  if (text.empty() || (!value.empty() && value != text)) return false;
  value = text;
  return true;
}

template <typename Number>
bool set(std::string_view text, std::optional<Number>& value, Number from = 0) {
  Number number = 0;
  if (!parse_number(text, number) || number < from) return false;
  number -= from;
  if (value && *value != number) return false;
  value = number;
  return true;
}

bool set_field(Field field, std::string_view text, TreeValues& values) {
  switch (field) {
    case Field::none:
      return text.empty();
    case Field::net:
      return set(text, values.net);
    case Field::model:
      return set(text, values.model);
    case Field::rank:
      return set(text, values.rank);
    case Field::world_size:
      return set(text, values.world_size);
    case Field::device:
      return set(text, values.device);
    case Field::time:
      return is_time(text) && set(text, values.time);
    case Field::graph:
      return set(text, values.graph);
    case Field::graph_from_one:
      return set(text, values.graph, 1U);
    case Field::step:
      return set(text, values.step);
  }
  return false;
}

bool read_level(const TreeLevel& level, std::string_view name, TreeValues& values) {
  if (!name.starts_with(level.first.text)) return false;
  name.remove_prefix(level.first.text.size());
  if (level.second.field == Field::none) return set_field(level.first.field, name, values);
  const std::size_t second = name.rfind(level.second.text);
  if (second == std::string_view::npos) return false;
  const bool fits = set_field(level.first.field, name.substr(0, second), values);
  return set_field(level.second.field, name.substr(second + level.second.text.size()), values) && fits;
}

}  // namespace

std::span<const Tree> trees() { return kTrees; }

const Tree& tree_of(LayoutKind layout, TreeCase which) {
  const auto is_it = [&](const Tree& tree) {
    return tree.which == which && tree.first <= layout && layout <= tree.last;
  };
  const auto found = std::ranges::find_if(kTrees, is_it);
  return found != kTrees.end() ? *found : tree_of(layout);  // every layout has its usual place
}

Levels all_levels(const Tree& tree) {
  Levels all = tree.rank;
  std::copy_n(tree.step.begin(), count_of(tree.step), all.begin() + static_cast<std::ptrdiff_t>(count_of(tree.rank)));
  return all;
}

std::size_t count_of(const Levels& levels) {
  const auto is_none = [](const TreeLevel& level) {
    return level.first.text.empty() && level.first.field == Field::none;
  };
  return static_cast<std::size_t>(std::ranges::find_if(levels, is_none) - levels.begin());
}

std::string path_of(const Levels& levels, const TreeValues& values) {
  std::string path;
  for (const TreeLevel& level : std::span(levels).first(count_of(levels))) {
    if (!path.empty()) path += '/';
    for (const TreeLevel::Part& part : {level.first, level.second})
      path.append(part.text) += text_of(part.field, values);
  }
  return path;
}

std::string path_in_words(const Levels& levels, std::string_view net_name) {
  std::string path;
  for (const TreeLevel& level : std::span(levels).first(count_of(levels))) {
    if (!path.empty()) path += '/';
    for (const TreeLevel::Part& part : {level.first, level.second}) {
      path.append(part.text).append(part.field == Field::net ? net_name : part.word);
    }
  }
  return path;
}

bool read_path(const Levels& levels, std::span<const std::string> names, TreeValues& values) {
  const std::size_t count = count_of(levels);
  bool fits = true;
  for (std::size_t i = 0; i < count && i < names.size(); ++i) fits = read_level(levels[i], names[i], values) && fits;
  return fits;
}

bool is_time(std::string_view name) {
  std::uint64_t ignored = 0;
  return name.size() == 14 && parse_number(name, ignored) && (name.starts_with("19") || name.starts_with("20"));
}

bool rank_number(std::string_view name, std::uint32_t& rank) {
  for (const TreeLevel& level : {kRank, kNamedDevice, kWorldRank}) {
    TreeValues values;
    read_level(level, name, values);
    if (const auto number = values.rank ? values.rank : values.device) {
      rank = *number;
      return true;
    }
  }
  return false;
}

bool device_number(std::string_view name, std::uint32_t& device) {
  TreeValues values;
  if (!read_level(kNamedDevice, name, values)) return false;
  device = *values.device;
  return true;
}

bool is_rank_above_times(std::string_view name) {
  TreeValues values;
  read_level(kWorldRank, name, values);
  return values.rank.has_value();
}

std::string rank_name(std::uint32_t rank) { return fmt::format("{}{}", kRank.first.text, rank); }
std::string device_name(std::uint32_t device) { return fmt::format("{}{}", kNamedDevice.first.text, device); }

}  // namespace sonde
