#include "ask/unsharded/sites.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "ground/base/text.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

bool is_wrapper(std::string_view name) {
  constexpr std::array<std::string_view, 5> kWrappers = {"module", "_fsdp_wrapped_module", "_orig_mod",
                                                         "_checkpoint_wrapped_module", "_flat_param"};
  return std::ranges::find(kWrappers, name) != kWrappers.end();
}

std::string_view last_component(std::string_view scope) { return scope.substr(scope.rfind('/') + 1); }

// `linear-DTensor`: the ops that `linear` on a wrapper of that class is made of.
bool is_of_wrapper(std::string_view component) {
  return component.find('-') != std::string_view::npos && component.ends_with("Tensor");
}

CallSite without_place(CallSite site) {
  site.place.file.clear();
  site.place.line = 0;
  return site;
}

std::string module_of(std::string_view scope) {
  std::string module;
  for (const std::string_view component : fields_in(scope, '/')) {
    const std::string_view name = component.substr(0, component.find('-'));
    const bool is_root = component == "Default" || component == "Gradients" || name == "network";
    if (is_root || component.empty() || component.starts_with("Grad_") || is_of_wrapper(component)) continue;
    if (is_wrapper(name)) continue;
    if (!module.empty()) module += '/';
    module += name;
  }
  return module;
}

SiteKind kind_of_phase(Phase phase) {
  return phase == Phase::backward    ? SiteKind::backward
         : phase == Phase::optimizer ? SiteKind::optimizer
                                     : SiteKind::forward;
}

bool begins_with_state(std::string_view name, std::string_view parameter) {
  return name.size() > parameter.size() && name.ends_with(parameter) && name[name.size() - parameter.size() - 1] == '.';
}

// Names that the forward pass and the optimizer read, without gradients and states.
std::vector<std::string> parameters_of(const CompareSide& side) {
  std::vector<std::string> names;
  for (const CompareOp& op : side.ops) {
    if (phase_of(*op.op) == Phase::optimizer) continue;
    for (const CompareInput& input : op.inputs) {
      const TensorName& name = input.tensor->parameter;
      if (name.is_parameter() && !name.ends_with(".grad")) names.push_back(without_wrappers(name, '.'));
    }
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// The host throws its results away.
bool is_trial(const CompareOp& op) {
  return std::ranges::any_of(op.outputs,
                             [](const CatalogTensor* output) { return output->skipped.reason == NotRead::trial; });
}

// One of the ops that an op of another type on a wrapper is made of.
bool is_part(const CompareOp& op) {
  const std::string_view component = last_component(op.scope);
  if (!is_of_wrapper(component) || kind_of_phase(phase_of(*op.op)) == SiteKind::backward) return false;
  return bare_type(component.substr(0, component.rfind('-'))) != bare_type(op.op->op_type);
}

// Autograd keeps a parameter's first gradient by `detach` or `clone`, and adds those of further micro-batches to it. It adds
// up the gradients of a value that is read twice, too, under the same name and line: these are other calls.
std::vector<bool> accumulations_of(const CompareSide& side) {
  std::vector<bool> accumulates(side.ops.size());
  for (std::uint32_t i = 0; i < side.ops.size(); ++i) {
    const CompareOp& op = side.ops[i];
    const bool adds = op.in_place && is_addition(shared_type(op.op->op_type));
    if (!adds || phase_of(*op.op) != Phase::backward || op.inputs.empty()) continue;
    const std::uint32_t from = op.inputs.front().from;
    const auto keeps = [&] {
      const std::string type = bare_type(side.ops[from].op->op_type);
      return phase_of(*side.ops[from].op) != Phase::backward || type == "detach" || type == "clone";
    };
    accumulates[i] = from == kNoOp || (from < i && accumulates[from]) || keeps();
  }
  return accumulates;
}

// Ops that follow each other in one scope of a wrapper, as far as one reads what another made.
std::vector<std::uint32_t> groups_of(const CompareSide& side) {
  std::vector<std::uint32_t> group(side.ops.size());
  std::iota(group.begin(), group.end(), 0U);
  const auto root = [&](std::uint32_t op) {
    while (group[op] != op) op = group[op];
    return op;
  };
  std::uint32_t begin = 0;  // of the run of ops in one scope
  for (std::uint32_t i = 0; i < side.ops.size(); ++i) {
    const CompareOp& op = side.ops[i];
    if (i > 0 && op.scope != side.ops[i - 1].scope) begin = i;
    if (!is_part(op)) continue;
    for (const CompareInput& input : op.inputs) {
      if (input.from != kNoOp && input.from >= begin && input.from < i) group[root(i)] = root(input.from);
    }
  }
  for (std::uint32_t i = 0; i < group.size(); ++i) group[i] = root(i);
  return group;
}

}  // namespace

std::string without_wrappers(std::string_view name, char separator) {
  std::string out;
  for (const std::string_view part : fields_in(name, separator)) {
    if (is_wrapper(part)) continue;
    if (!out.empty()) out += separator;
    out += part;
  }
  return out;
}

std::string parameter_of(std::string_view name, const std::vector<std::string>& known) {
  std::string plain = without_wrappers(name, '.');
  if (plain.ends_with(".grad")) plain.resize(plain.size() - 5);
  if (std::ranges::binary_search(known, plain)) return plain;
  const auto of_state = std::ranges::find_if(known, [&](const auto& one) { return begins_with_state(plain, one); });
  return of_state == known.end() ? plain : *of_state;
}

// That an op of the optimizer concerns: it reads it, or what an op before has computed for it alone.
std::string SiteCalls::updated_parameter(const CompareOp& op, const std::vector<std::string>& known) const {
  for (const CompareInput& input : op.inputs) {
    if (input.tensor->parameter.is_parameter()) return parameter_of(input.tensor->parameter, known);
  }
  std::set<std::string> found;
  for (const CompareInput& input : op.inputs) {
    if (input.from == kNoOp) continue;
    const CallSite& made_at = addresses_[input.from].site;
    if (!made_at.parameter.empty()) found.insert(made_at.parameter);
  }
  return found.size() == 1 ? *found.begin() : std::string();
}

SiteCalls::SiteCalls(const CompareSide& side) : addresses_(side.ops.size()) {
  const std::vector<std::string> parameters = parameters_of(side);
  const std::vector<std::uint32_t> group = groups_of(side);
  const std::vector<bool> accumulates = accumulations_of(side);
  std::map<std::uint32_t, SiteCall> calls;  // by the number of the group
  for (std::uint32_t i = 0; i < side.ops.size(); ++i) {
    if (!is_trial(side.ops[i])) calls[group[i]].ops.push_back(i);
  }
  for (auto& [number, call] : calls) {
    const CompareOp& op = side.ops[call.last()];
    const Phase phase = phase_of(*op.op);
    CallSite site;
    site.place = {kind_of_phase(phase), std::string(last_component(op.op->source_file)), op.op->line};
    site.module = site.place.kind == SiteKind::optimizer ? "" : module_of(op.scope);
    const std::string_view component = last_component(op.scope);
    const bool is_group = is_of_wrapper(component) && site.place.kind != SiteKind::backward;
    site.type = bare_type(is_group ? component.substr(0, component.rfind('-')) : op.op->op_type);
    site.accumulates = accumulates[call.last()];
    if (site.place.kind == SiteKind::optimizer) site.parameter = updated_parameter(op, parameters);
    std::vector<SiteCall>& there = calls_[site];
    for (const std::uint32_t index : call.ops) addresses_[index] = {site, there.size()};
    there.push_back(call);
  }
}

SiteCalls::Works SiteCalls::works() const {
  Works works;
  for (const auto& [site, there] : calls_) works.emplace(site.place, site.type);
  return works;
}

// Sites outside of modules that differ in their places alone are the same if both programs have as many of them: then they
// follow each other in the same order. If one has more (FSDP casts what the model reads), those are the same whose lines
// are by what else they do. Modules may be implemented in other ways: WholeStep finds their ops by values.
void SiteCalls::take_places_of(const SiteCalls& whole, const Works& shared) {
  const auto own_places = [&](const SiteCalls& calls, const SiteCalls& others) {
    std::map<CallSite, std::vector<CodePlace>> places;  // by the site without its place
    for (const auto& [site, there] : calls.calls_) {
      if (!site.module.empty() || others.at(site) != nullptr || shared.contains({site.place, site.type})) continue;
      places[without_place(site)].push_back(site.place);
    }
    return places;
  };
  const std::map<CallSite, std::vector<CodePlace>> from = own_places(*this, whole), to = own_places(whole, *this);
  std::map<CodePlace, std::set<CodePlace>> lines;  // of this program: those of the other
  for (const auto& [kind, places] : from) {
    const auto others = to.find(kind);
    if (others == to.end() || others->second.size() != places.size()) continue;
    for (std::size_t i = 0; i < places.size(); ++i) {
      move_site(kind, places[i], others->second[i]);
      lines[places[i]].insert(others->second[i]);
    }
  }
  for (const auto& [kind, places] : from) {
    const auto others = to.find(kind);
    if (others == to.end() || others->second.size() == places.size()) continue;
    for (const CodePlace& place : places) {
      const auto line = lines.find(place);
      if (line == lines.end() || line->second.size() != 1) continue;
      const CodePlace& there = *line->second.begin();
      if (std::ranges::find(others->second, there) != others->second.end()) move_site(kind, place, there);
    }
  }
}

void SiteCalls::move_site(CallSite site, const CodePlace& from, const CodePlace& to) {
  site.place = to;
  if (calls_.contains(site)) return;
  site.place = from;
  auto moved = calls_.extract(site);
  moved.key().place = to;
  for (const SiteCall& call : moved.mapped()) {
    for (const std::uint32_t op : call.ops) addresses_[op].site = moved.key();
  }
  calls_.insert(std::move(moved));
}

const std::vector<SiteCall>* SiteCalls::at(const CallSite& site) const {
  const auto found = calls_.find(site);
  return found == calls_.end() ? nullptr : &found->second;
}

std::vector<const CompareInput*> inputs_of(const CompareSide& side, const SiteCall& call) {
  std::vector<const CompareInput*> inputs;
  for (const std::uint32_t index : call.ops) {
    for (const CompareInput& input : side.ops[index].inputs) {
      if (std::ranges::find(call.ops, input.from) == call.ops.end()) inputs.push_back(&input);
    }
  }
  return inputs;
}

}  // namespace sonde
