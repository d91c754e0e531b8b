#include "plan/config/selector.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ground/base/text.h"
#include "plan/config/dump_list.h"
#include "plan/config/nearest.h"
#include "plan/config/op_types.h"
#include "plan/config/pattern.h"
#include "plan/config/seen_names.h"

namespace sonde {
namespace {

constexpr std::string_view kRegexPrefix = "name-regex(";

// "Default/conv1-Conv2d/conv2d-op0" -> "conv2d-op0".
std::string_view last_part(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return slash == name.npos ? name : name.substr(slash + 1);
}

// … -> "conv2d": what a type entry is looked for in.
std::string_view type_part(std::string_view name) {
  name = last_part(name);
  return name.substr(0, name.rfind('-'));
}

// Up to 2.3 an asynchronous dump of a collective is only useful together with its inputs.
bool feeds_are_dumped(const Plan& plan) {
  if (plan.acl.in_use || plan.dump_mode != DumpMode::kernels || plan.synchronous()) return false;
  if (plan.sonde.rules == Release::v2_3) return plan.input_output != Sides::outputs;
  return plan.sonde.rules < Release::v2_3;
}

}  // namespace

EntryKind kind_of_entry(std::string_view entry, Release release) {
  if (release < Release::v2_0) return EntryKind::op_name;
  const bool is_regex = entry.starts_with(kRegexPrefix) && entry.ends_with(')');
  if (is_regex && release > Release::v2_0) return EntryKind::regex;
  if (entry.find('/') != entry.npos || entry.find("-op") != entry.npos) return EntryKind::op_name;
  return EntryKind::op_type;
}

bool is_name_in_files(std::string_view entry, std::string_view op_name) {
  const auto is_written = [](char in_file, char in_name) {
    const bool separates = in_name == '/' || in_name == '\\' || in_name == '.' || in_name == ' ';
    return in_file == (separates ? '_' : in_name);
  };
  if (std::equal(entry.begin(), entry.end(), op_name.begin(), op_name.end(), is_written)) return true;
  for (const char c : op_name) {
    const std::string_view written = c == '/' ? std::string_view("--") : std::string_view(&c, 1);
    if (!entry.starts_with(written)) return false;
    entry.remove_prefix(written.size());
  }
  return entry.empty();
}

std::string_view expression_of(std::string_view entry) {
  entry.remove_prefix(kRegexPrefix.size());
  entry.remove_suffix(1);
  return entry;
}

bool Selector::Wanted::slot(bool is_input, std::uint32_t index) const {
  return (is_input ? inputs : outputs) && !excludes(is_input, index);
}

bool Selector::Wanted::excludes(bool is_input, std::uint32_t index) const {
  if (except == nullptr) return false;
  return std::any_of(except->begin(), except->end(),
                     [&](const SlotName& slot) { return slot.is_input == is_input && slot.index == index; });
}

struct Selector::State {
  struct TypeEntry {
    std::string type;  // lower case
    std::size_t entry;
  };

  DumpMode mode = DumpMode::all;
  Sides sides = Sides::both;
  Release rules = Release::v2_7;
  bool exception_only = false;
  bool empty_selects_all = true;
  bool short_names = false;  // a name without its scope means one op
  bool follows_producers = false;
  std::optional<DumpList> dump_list;  // acl.json: instead of everything below
  std::vector<std::string> entries;
  std::vector<std::uint64_t> hits;    // one per entry
  std::vector<ReplacedOps> replaced;  // one per entry
  std::vector<std::uint32_t> numbers;
  std::vector<std::pair<Pattern, std::size_t>> patterns;
  std::unordered_map<std::string, std::size_t> full_names;
  std::vector<TypeEntry> types;
  std::unordered_set<std::string> producers;
  std::set<std::string, std::less<>> seen_names;
  std::set<std::string, std::less<>> seen_types;

  static constexpr std::size_t kNone = ~std::size_t{0};

  void add(const std::string& entry);
  std::size_t entry_for(std::string_view name, std::string_view op_type) const;
  bool matches(std::string_view name, std::string_view op_type);
  std::vector<std::string> suggestions(const std::string& entry) const;
};

// A plan made from a file has only patterns that compile; one made in code may not, and such an entry never matches.
void Selector::State::add(const std::string& entry) {
  const std::size_t index = entries.size();
  entries.push_back(entry);
  hits.push_back(0);
  replaced.emplace_back();
  remember_number(numbers, "0");
  remember_number(numbers, entry);
  switch (kind_of_entry(entry, rules)) {
    case EntryKind::regex:
      if (Result<Pattern> pattern = Pattern::compile(expression_of(entry))) patterns.emplace_back(*pattern, index);
      break;
    case EntryKind::op_name:
      full_names.try_emplace(entry, index);
      break;
    case EntryKind::op_type:
      types.push_back({lower_case(entry), index});
      break;
  }
}

// Patterns, then full names, then types: the first that matches. kNone: no entry does.
std::size_t Selector::State::entry_for(std::string_view name, std::string_view op_type) const {
  for (const auto& [pattern, entry] : patterns) {
    if (pattern.matches(name)) return entry;
  }
  auto same = full_names.find(std::string(name));
  if (same == full_names.end() && short_names) same = full_names.find(std::string(last_part(name)));
  if (same != full_names.end()) return same->second;
  const std::string part = lower_case(type_part(name));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (is_name_in_files(entries[i], name)) return i;
  }
  for (const TypeEntry& type : types) {
    if (part.find(type.type) != part.npos || is_alias(type.type, op_type)) return type.entry;
  }
  return kNone;
}

bool Selector::State::matches(std::string_view name, std::string_view op_type) {
  const std::size_t entry = entry_for(name, op_type);
  if (entry != kNone) ++hits[entry];
  return entry != kNone;
}

std::vector<std::string> Selector::State::suggestions(const std::string& entry) const {
  const auto& seen = kind_of_entry(entry, rules) == EntryKind::op_type ? seen_types : seen_names;
  // A path in modules never means a parameter, `conv1.bias`, though its letters may be alike.
  const bool is_path = entry.find('/') != std::string::npos;
  std::vector<std::string_view> candidates(seen.begin(), seen.end());
  std::erase_if(candidates, [&](std::string_view name) { return is_path && name.find('/') == name.npos; });
  return nearest(entry, candidates, kSuggestions);
}

Selector::Selector(const Plan& plan) : state_(std::make_unique<State>()) {
  state_->mode = plan.dump_mode;
  state_->sides = plan.input_output;
  state_->rules = plan.sonde.rules;
  state_->exception_only = plan.op_debug_mode == 4;
  state_->empty_selects_all = plan.empty_kernels_select_all();
  // In these releases files and tables contain only the short name, and no two ops have the same number.
  state_->short_names = plan.sonde.version == Release::v2_0 || plan.sonde.version == Release::v1_3;
  state_->follows_producers = feeds_are_dumped(plan);
  if (plan.acl.in_use) {
    state_->dump_list.emplace(plan);
    state_->numbers = state_->dump_list->numbers_named();
  }
  if (plan.acl.in_use || plan.dump_mode != DumpMode::kernels) return;
  for (const std::string& entry : plan.kernels) state_->add(entry);
}

Selector::~Selector() = default;
Selector::Selector(Selector&&) noexcept = default;

bool Selector::selected(const AskedOp& op) {
  if (state_->mode == DumpMode::flagged) return op.flagged;
  if (state_->mode == DumpMode::all) return true;
  if (state_->entries.empty()) return state_->empty_selects_all;
  remember(state_->seen_names, op.op_name);
  remember(state_->seen_types, op.op_type.empty() ? type_part(op.op_name) : op.op_type);
  return state_->matches(op.op_name, op.op_type);
}

Selector::Wanted Selector::decide_op(const AskedOp& op) {
  // Exception mode keeps the operator that failed, which is not known here; MindSpore on a CPU keeps none either.
  if (state_->exception_only) return {};
  if (state_->dump_list) return state_->dump_list->decide(op);
  const bool is_selected = selected(op);
  const bool feeds = state_->producers.contains(std::string(op.op_name));
  if (!is_selected && !feeds) return {};
  return {.inputs = state_->sides != Sides::outputs,
          .outputs = state_->sides != Sides::inputs,
          .producers = is_selected && state_->follows_producers && is_collective(op.op_type)};
}

bool Selector::decide_parameter(std::string_view name) {
  if (state_->dump_list) return state_->dump_list->takes_parameters();
  return state_->sides != Sides::inputs && selected({.op_name = name, .op_type = {}});
}

bool Selector::names_parameter(std::string_view name) const {
  return state_->dump_list && state_->dump_list->names_parameter(name);
}

bool Selector::decide_parameter_by_name(std::string_view name, std::string_view scope) {
  return state_->dump_list && state_->dump_list->takes_parameter_by_name(name, scope);
}

bool Selector::names(const AskedOp& op, std::string_view replaced_by) {
  if (state_->dump_list) return state_->dump_list->names(op, replaced_by);
  const std::size_t entry = state_->entry_for(op.op_name, op.op_type);
  if (entry == State::kNone) return false;
  if (!replaced_by.empty()) state_->replaced[entry].add(op.op_type, replaced_by);
  return true;
}

const std::vector<std::uint32_t>& Selector::numbers_named() const { return state_->numbers; }

bool Selector::in_order() const { return state_->dump_list && state_->dump_list->in_order(); }
bool Selector::parameters_follow_ops() const { return state_->dump_list.has_value(); }
bool Selector::follows_producers() const { return state_->follows_producers; }
void Selector::add_producer(std::string_view op_name) { state_->producers.emplace(op_name); }

void Selector::begin_step(std::uint32_t graph) {
  if (state_->dump_list) state_->dump_list->begin_step(graph);
}

std::vector<Selector::UnusedEntry> Selector::unused() const {
  if (state_->dump_list) return state_->dump_list->unused();
  std::vector<UnusedEntry> result;
  for (std::size_t i = 0; i < state_->entries.size(); ++i) {
    if (state_->hits[i] > 0) continue;
    UnusedEntry& unused = result.emplace_back();
    unused.key = "kernels";
    unused.text = state_->entries[i];
    unused.instead = state_->replaced[i].text();
    if (!unused.instead.empty()) continue;
    if (result.size() <= kMostSuggestedFor) unused.nearest = state_->suggestions(unused.text);
  }
  return result;
}

}  // namespace sonde
