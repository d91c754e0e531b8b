#include "plan/config/dump_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "contract/setting_keys.h"
#include "ground/base/text.h"
#include "plan/config/nearest.h"
#include "plan/config/op_types.h"
#include "plan/config/seen_names.h"

namespace sonde {
namespace {

constexpr std::string_view kDataType = "Data";

bool is_separator(char c) { return c == '/' || c == '-' || c == '.' || c == '\\' || c == ' '; }

bool same_with_underscores(std::string_view a, std::string_view b) {
  const auto folded = [](char c) { return is_separator(c) ? '_' : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return folded(x) == folded(y); });
}

bool is_type(std::string_view entry, std::string_view op_type) {
  if (is_alias(entry, op_type) || same_ignoring_case(entry, op_type)) return true;
  return op_type.ends_with('_') && !op_type.ends_with("__") &&
         same_ignoring_case(entry, op_type.substr(0, op_type.size() - 1));
}

// The module called first of all: "network-AlexNet" of "network-AlexNet/conv1-Conv2d". Empty outside every module.
std::string_view model_of(std::string_view scope) {
  const std::string_view first = scope.substr(0, scope.find('/'));
  return first.starts_with("network") ? first : std::string_view();
}

// 1 for "network-…", 2 for "network1-…".
std::uint64_t number_of_model(std::string_view model) {
  model.remove_prefix(std::string_view("network").size());
  const std::string_view digits = model.substr(0, model.find('-'));
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number + 1;
}

}  // namespace

bool names_op(std::string_view entry, std::string_view op_name, std::string_view op_type) {
  if (entry == op_name || is_type(entry, op_type) || is_name_in_files(entry, op_name)) return true;
  return entry.find('-') == entry.npos && same_with_underscores(entry, op_name);
}

bool names_model(std::string_view name, std::string_view scope) {
  const std::string_view model = model_of(scope);
  if (model.empty()) return false;
  const std::size_t dash = model.find('-');
  return name == model || (dash != model.npos && name == model.substr(dash + 1)) ||
         name == fmt::format("graph_{}", number_of_model(model));
}

DumpList::DumpList(const Plan& plan)
    : all_(plan.acl.single_ops && plan.acl.dump_list.empty()),
      single_ops_(plan.acl.single_ops),
      anywhere_(plan.acl.anywhere || plan.acl.scene == Scene::watcher),  // the op that overwrites memory may be outside
      quantised_(plan.acl.quantised),
      watcher_(plan.acl.scene == Scene::watcher),
      sides_(plan.input_output) {
  // An overflow dump looks at every operator; it has no list.
  if (plan.op_debug_mode == 3 && plan.acl.dump_list.empty()) all_ = true;
  for (std::size_t i = 0; i < plan.acl.dump_list.size(); ++i) {
    const DumpListEntry& from = plan.acl.dump_list[i];
    const auto key = [&](std::string_view member) { return fmt::format("dump_list[{}].{}", i, member); };
    Entry& to = entries_.emplace_back();
    to.model = {key(keys::model_name), from.model_name};
    to.everything = from.layer.empty() && from.opname_range.empty();
    for (const std::string& name : from.layer)
      to.layers.push_back({from.layer_key.empty() ? key(keys::layer) : from.layer_key, name});
    for (const std::string& name : from.watcher_nodes) to.watched.push_back({key(keys::watcher_nodes), name});
    for (const OpRange& range : from.opname_range) {
      Range& fresh = to.ranges.emplace_back();
      fresh.begin = {key(keys::opname_range), range.begin};
      fresh.end = {key(keys::opname_range), range.end};
    }
    for (const BlacklistEntry& black : from.opname_blacklist) {
      to.by_name.push_back({{key(keys::opname_blacklist), black.name}, black.slots});
    }
    for (const BlacklistEntry& black : from.optype_blacklist) {
      to.by_type.push_back({{key(keys::optype_blacklist), black.name}, black.slots});
    }
    in_order_ = in_order_ || !to.ranges.empty();
  }
}

void DumpList::begin_step(std::uint32_t graph) {
  for (Entry& entry : entries_) {
    for (Range& range : entry.ranges) range.places[graph] = Place::before;
  }
}

// Whether the entry applies to the model of `op`.
bool DumpList::applies(Entry& entry, const Selector::AskedOp& op) const {
  if (entry.model.text.empty()) return anywhere_ || !model_of(op.scope).empty();
  if (!names_model(entry.model.text, op.scope)) return false;
  ++entry.model.hits;
  return true;
}

// From `begin` to `end`, both included. An op in another order ends the range for this step.
bool DumpList::advance(Range& range, const Selector::AskedOp& op) {
  Place& place = range.places[op.graph];
  const bool begins = names_op(range.begin.text, op.op_name, op.op_type);
  const bool ends = names_op(range.end.text, op.op_name, op.op_type);
  range.begin.hits += begins ? 1 : 0;
  range.end.hits += ends ? 1 : 0;
  switch (place) {
    case Place::before:
      if (begins) place = ends ? Place::after : Place::inside;
      if (ends && !begins) place = Place::broken;
      return begins;
    case Place::inside:
      if (ends) place = Place::after;
      return true;
    case Place::after:
      if (begins) place = Place::broken;
      return false;
    case Place::broken:
      return false;
  }
  return false;
}

bool DumpList::takes(Entry& entry, const Selector::AskedOp& op) {
  bool taken = entry.everything;
  for (Name& layer : entry.layers) {
    if (!names_op(layer.text, op.op_name, op.op_type)) continue;
    ++layer.hits;
    taken = true;
  }
  for (Range& range : entry.ranges) taken = advance(range, op) || taken;  // every range follows every op
  return taken;
}

// The outputs of watched ops, after themselves and after each op of `layer` (no layer: after every op).
Selector::Wanted DumpList::watch(const Selector::AskedOp& op) {
  Selector::Wanted wanted;
  for (Entry& entry : entries_) {
    if (!applies(entry, op)) continue;
    for (Name& watched : entry.watched) {
      if (!names_op(watched.text, op.op_name, op.op_type)) continue;
      ++watched.hits;
      wanted.watched = true;
    }
    wanted.checks = takes(entry, op) || wanted.checks;
  }
  wanted.outputs = wanted.watched;
  if (wanted.watched || is_collective(op.op_type)) wanted.checks = false;
  return wanted;
}

const std::vector<SlotName>* DumpList::exceptions(const Selector::AskedOp& op) {
  const auto find = [&](std::vector<Blacklist>& list, bool by_name) -> const std::vector<SlotName>* {
    for (Blacklist& black : list) {
      const std::string& text = black.name.text;
      if (!(by_name ? names_op(text, op.op_name, {}) : is_type(text, op.op_type))) continue;
      ++black.name.hits;
      return &black.slots;
    }
    return nullptr;
  };
  for (Entry& entry : entries_) {
    if (!applies(entry, op)) continue;
    if (const auto* slots = find(entry.by_name, true)) return slots;
    if (const auto* slots = find(entry.by_type, false)) return slots;
  }
  return nullptr;
}

// All that is called a node of the type Data in GE's graphs: parameters, buffers, data from outside.
bool DumpList::names_parameter(std::string_view name) const {
  if (!takes_parameters()) return false;
  return std::ranges::any_of(entries_, [&](const Entry& entry) {
    return std::ranges::any_of(entry.layers, [&](const Name& layer) { return names_op(layer.text, name, kDataType); });
  });
}

bool DumpList::takes_parameter_by_name(std::string_view name, std::string_view scope) {
  remember(seen_names_, name);
  bool taken = false;
  for (Entry& entry : entries_) {
    if (!applies(entry, {.op_name = name, .op_type = kDataType, .scope = scope})) continue;
    for (Name& layer : entry.layers) {
      if (!names_op(layer.text, name, kDataType)) continue;
      ++layer.hits;
      taken = true;
    }
  }
  return taken;
}

bool DumpList::names(const Selector::AskedOp& op, std::string_view replaced_by) {
  bool named = false;
  const auto look = [&](Name& name) {
    if (!names_op(name.text, op.op_name, op.op_type)) return;
    if (!replaced_by.empty()) name.replaced.add(op.op_type, replaced_by);
    named = true;
  };
  for (Entry& entry : entries_) {
    if (!applies(entry, op)) continue;
    std::ranges::for_each(entry.layers, look);
    std::ranges::for_each(entry.watched, look);
    for (Range& range : entry.ranges) {
      look(range.begin);
      look(range.end);
    }
  }
  return named;
}

std::vector<std::uint32_t> DumpList::numbers_named() const {
  std::vector<std::uint32_t> numbers;
  const auto remember = [&](const Name& name) {
    remember_number(numbers, "0");
    remember_number(numbers, name.text);
  };
  for (const Entry& entry : entries_) {
    std::ranges::for_each(entry.layers, remember);
    std::ranges::for_each(entry.watched, remember);
    for (const Range& range : entry.ranges) {
      remember(range.begin);
      remember(range.end);
    }
  }
  return numbers;
}

Selector::Wanted DumpList::decide(const Selector::AskedOp& op) {
  remember(seen_names_, op.op_name);
  remember(seen_types_, op.op_type);
  remember(seen_models_, model_of(op.scope));
  if (watcher_) return watch(op);
  // TorchAir: ops marked by a scope are recorded in addition to those that the options name.
  bool taken = all_ || (single_ops_ && model_of(op.scope).empty()) || (anywhere_ && op.flagged);
  for (Entry& entry : entries_) {
    if (applies(entry, op)) taken = takes(entry, op) || taken;  // every entry counts what it matches
  }
  const bool quantises = quantised_ && is_quantisation(op.op_type);
  if (!taken && !quantises) return {};
  return {.inputs = quantises || sides_ != Sides::outputs,
          .outputs = taken && sides_ != Sides::inputs,
          .except = exceptions(op)};
}

std::vector<Selector::UnusedEntry> DumpList::unused() const {
  std::vector<Selector::UnusedEntry> result;
  const auto add_unused = [&](const Name& name, const std::set<std::string, std::less<>>& seen) {
    if (name.hits > 0 || name.text.empty()) return;
    Selector::UnusedEntry& entry =
        result.emplace_back(Selector::UnusedEntry{name.key, name.text, {}, name.replaced.text()});
    if (result.size() > kMostSuggestedFor || !entry.instead.empty()) return;
    const std::vector<std::string_view> candidates(seen.begin(), seen.end());
    entry.nearest = nearest(name.text, candidates, kSuggestions);
  };
  const auto add_unused_op = [&](const Name& name) {
    const bool is_name = name.text.find('/') != name.text.npos || name.text.find("op") != name.text.npos;
    add_unused(name, is_name ? seen_names_ : seen_types_);
  };
  for (const Entry& entry : entries_) {
    add_unused(entry.model, seen_models_);
    if (!entry.model.text.empty() && entry.model.hits == 0) continue;  // nothing else of it could match
    for (const Name& name : entry.layers) add_unused_op(name);
    for (const Name& name : entry.watched) add_unused_op(name);
    for (const Range& range : entry.ranges) {
      add_unused_op(range.begin);
      add_unused_op(range.end);
    }
    for (const Blacklist& black : entry.by_name) add_unused_op(black.name);
    for (const Blacklist& black : entry.by_type) add_unused(black.name, seen_types_);
  }
  return result;
}

}  // namespace sonde
