#include "ask/compare/common_names.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "ground/model/gradient_name.h"
#include "read/measure/tensor_difference.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

using Names = std::set<std::string_view>;

std::uint64_t number_of(std::string_view name) { return std::hash<std::string_view>()(name) | 1; }

// A tensor from outside, and all inputs that are it.
struct Outside {
  const CatalogTensor* tensor = nullptr;
  std::vector<CompareInput*> inputs;
  std::uint64_t number = 0;

  void set(std::uint64_t to) {
    number = to;
    for (CompareInput* input : inputs) input->outside = to;
  }
};

// In the order in which they are first read. Numbers in the program's calls are not among them.
std::vector<Outside> data_of(CompareSide& side) {
  std::vector<Outside> all;
  std::map<std::pair<std::string_view, std::uint64_t>, std::size_t> known;
  for (CompareOp& op : side.ops) {
    for (CompareInput& input : op.inputs) {
      if (input.from != kNoOp || input.tensor->constant || input.tensor->parameter.is_parameter()) continue;
      const bool can_recur = !input.name.empty() || input.tensor->content != 0;
      std::size_t at = all.size();
      if (can_recur)
        at = known.try_emplace({input.name, input.name.empty() ? input.tensor->content : 0}, at).first->second;
      if (at == all.size()) all.push_back({.tensor = input.tensor, .inputs = {}, .number = 0});
      all[at].inputs.push_back(&input);
    }
  }
  return all;
}

void pair_data(std::vector<Outside>& target, std::vector<Outside>& golden, const SameValues& same_values) {
  constexpr std::size_t kMost = 256;  // of each side: every pair may be looked at
  const auto pair_where = [&](const auto& fits) {
    for (std::size_t i = 0; i < std::min(target.size(), kMost); ++i) {
      if (target[i].number != 0) continue;
      for (std::size_t j = 0; j < std::min(golden.size(), kMost); ++j) {
        if (golden[j].number != 0 || !fits(*target[i].tensor, *golden[j].tensor)) continue;
        const std::uint64_t number = 0x9E3779B97F4A7C15ULL * (j + 1);  // unlike those of names, and not 0
        target[i].set(number);
        golden[j].set(number);
        break;
      }
    }
  };
  const auto same_name = [](const CatalogTensor& a, const CatalogTensor& b) {
    return !a.parameter.empty() && a.parameter == b.parameter;
  };
  pair_where([&](const CatalogTensor& a, const CatalogTensor& b) { return same_name(a, b) && same_values(a, b); });
  pair_where(same_values);
  pair_where(same_name);
}

Names names_of(const CompareSide& side) {
  Names names;
  for (const CompareOp& op : side.ops) {
    for (const CompareInput& input : op.inputs) {
      if (input.tensor->parameter.is_parameter()) names.insert(input.name);
    }
  }
  return names;
}

// Parameters that the forward pass reads: their gradients and states are named after them.
Names names_of_parameters(const CompareSide& side) {
  Names names;
  for (const CompareOp& op : side.ops) {
    const Phase phase = phase_of(*op.op);
    if (phase == Phase::optimizer || phase == Phase::backward) continue;
    for (const CompareInput& input : op.inputs) {
      if (input.from == kNoOp && input.tensor->parameter.is_parameter()) names.insert(input.name);
    }
  }
  return names;
}

// `fc.weight` of `exp_avg.fc.weight` and of `fc.weight.grad`; empty: of no parameter.
std::string_view parameter_in(std::string_view name, const Names& parameters) {
  if (parameters.contains(name)) return name;
  name = without_gradient(name);
  while (!parameters.contains(name)) {
    const std::size_t dot = name.find('.');
    if (dot == std::string_view::npos) return {};
    name.remove_prefix(dot + 1);
  }
  return name;
}

// Pairs of names that matched ops read in one place, with the number of such places.
class Votes {
 public:
  Votes(const CompareSide& target, const CompareSide& golden, const SameValues& same_values)
      : same_values_(same_values), mine_(names_of(target)), theirs_(names_of(golden)) {}

  void add(const CompareOp& target, const CompareOp& golden) {
    for (const CompareInput& a : target.inputs) {
      if (a.from != kNoOp || !a.tensor->parameter.is_parameter()) continue;
      for (const CompareInput& b : golden.inputs) {
        if (b.from != kNoOp || !b.tensor->parameter.is_parameter() || a.tensor->slot != b.tensor->slot) continue;
        add(a, b);
      }
    }
  }

  // Parameters that no matched ops read and whose name only one side has: those with the same values, in the order in
  // which they are read. A module of the library, and cells by hand.
  void add_by_value(const CompareSide& target, const CompareSide& golden) {
    constexpr std::size_t kMost = 256;  // of each side: every pair may be looked at
    Names voted_mine, voted_theirs;
    for (const auto& [names, votes] : votes_) {
      voted_mine.insert(names.first);
      voted_theirs.insert(names.second);
    }
    const auto left = alone(target, theirs_, voted_mine), right = alone(golden, mine_, voted_theirs);
    if (left.size() > kMost || right.size() > kMost) return;
    std::vector<bool> taken(right.size(), false);
    for (const CompareInput* a : left) {
      for (std::size_t j = 0; j < right.size(); ++j) {
        const CompareInput& b = *right[j];
        if (taken[j] || !a->tensor->has_shape || a->tensor->shape != b.tensor->shape) continue;
        if (!same_values_(*a->tensor, *b.tensor)) continue;
        ++votes_[{a->name, b.name}];
        taken[j] = true;
        break;
      }
    }
  }

  // One golden name for each of the target's, and none twice.
  std::map<std::string_view, std::string_view> winners() const {
    std::vector<std::pair<int, std::pair<std::string_view, std::string_view>>> order;
    for (const auto& [names, votes] : votes_) order.push_back({-votes, names});
    std::ranges::sort(order);
    std::map<std::string_view, std::string_view> renamed;
    Names taken;
    for (const auto& [votes, names] : order) {
      const auto& [mine, theirs] = names;
      if (renamed.contains(mine) || taken.contains(theirs)) continue;
      renamed[mine] = theirs;
      taken.insert(theirs);
    }
    // A name that another parameter of the target has, and keeps, is not free.
    while (std::erase_if(renamed, [&](const auto& one) {
             const auto kept = renamed.find(one.second);
             return mine_.contains(one.second) && kept == renamed.end();
           }) > 0) {
    }
    std::erase_if(renamed, [](const auto& one) { return one.first == one.second; });
    return renamed;
  }

 private:
  // In the order in which they are read before the optimizer.
  static std::vector<const CompareInput*> alone(const CompareSide& side, const Names& others, Names& voted) {
    std::vector<const CompareInput*> found;
    for (const CompareOp& op : side.ops) {
      if (phase_of(*op.op) == Phase::optimizer || phase_of(*op.op) == Phase::backward) continue;
      for (const CompareInput& input : op.inputs) {
        if (input.from != kNoOp || !input.is_read || !input.tensor->parameter.is_parameter() ||
            others.contains(input.name))
          continue;
        if (voted.insert(input.name).second) found.push_back(&input);
      }
    }
    return found;
  }

  void add(const CompareInput& a, const CompareInput& b) {
    constexpr int kByValue = 16;  // more than by place
    if (a.name == b.name) {
      votes_[{a.name, b.name}] += kByValue;
      return;
    }
    const bool both_new = !theirs_.contains(a.name) && !mine_.contains(b.name);
    if (a.tensor->has_shape && b.tensor->has_shape && squeezed(a.tensor->shape) != squeezed(b.tensor->shape)) {
      std::vector<std::int64_t> left = squeezed(a.tensor->shape), right = squeezed(b.tensor->shape);
      std::ranges::sort(left);
      std::ranges::sort(right);
      if (left != right || !both_new) return;  // one may be the transposed other
    }
    if (both_new) {
      ++votes_[{a.name, b.name}];
    } else if (same_values_(*a.tensor, *b.tensor)) {
      votes_[{a.name, b.name}] += kByValue;
    }
  }

  const SameValues& same_values_;
  Names mine_, theirs_;
  std::map<std::pair<std::string_view, std::string_view>, int> votes_;
};

// The names of the target's parameters, gradients and states, and those of the golden dump.
std::map<std::string_view, std::string_view> all_renamed(
    const CompareSide& target, const CompareSide& golden,
    const std::map<std::string_view, std::string_view>& parameters) {
  const Names mine = names_of_parameters(target), theirs = names_of(golden);
  std::map<std::string_view, std::string_view> renamed;
  for (const std::string_view name : names_of(target)) {
    const std::string_view parameter = parameter_in(name, mine);
    const auto to = parameters.find(parameter);
    if (parameter.empty() || to == parameters.end()) continue;
    const auto at = static_cast<std::size_t>(parameter.data() - name.data());
    std::string full(name.substr(0, at));
    full += to->second;
    full += name.substr(at + parameter.size());
    const auto known = theirs.find(full);
    if (known != theirs.end()) renamed[name] = *known;
  }
  return renamed;
}

}  // namespace

void number_outside(CompareSide& target, CompareSide& golden, const SameValues& same_values) {
  for (CompareSide* side : {&target, &golden}) {
    for (CompareOp& op : side->ops) {
      for (CompareInput& input : op.inputs) {
        if (input.from == kNoOp && input.tensor->parameter.is_parameter()) input.outside = number_of(input.name);
      }
    }
  }
  std::vector<Outside> mine = data_of(target), theirs = data_of(golden);
  pair_data(mine, theirs, same_values);
}

bool rename_parameters(CompareSide& target, const CompareSide& golden, const std::vector<OpMatch>& matches,
                       const SameValues& same_values) {
  Votes votes(target, golden, same_values);
  for (std::uint32_t t = 0; t < matches.size(); ++t) {
    const std::uint32_t g = matches[t].golden;
    if (g == kNoOp || phase_of(*target.ops[t].op) == Phase::optimizer) continue;
    if (OpFamilies::same(*target.ops[t].family, *golden.ops[g].family)) votes.add(target.ops[t], golden.ops[g]);
  }
  votes.add_by_value(target, golden);
  const std::map<std::string_view, std::string_view> renamed = all_renamed(target, golden, votes.winners());
  if (renamed.empty()) return false;
  const auto name = [&](std::string_view old) {
    const auto at = renamed.find(old);
    return at == renamed.end() ? old : at->second;
  };
  for (CompareOp& op : target.ops) {
    for (CompareInput& input : op.inputs) {
      input.name = name(input.name);
      if (input.from == kNoOp && input.tensor->parameter.is_parameter()) input.outside = number_of(input.name);
    }
    for (std::string_view& state : op.states) state = name(state);
  }
  std::map<std::string_view, StateWriter> written;
  for (const auto& [old, writer] : target.written) written[name(old)] = writer;
  target.written = std::move(written);
  std::set<std::string_view> may_be_written;
  for (const std::string_view old : target.may_be_written) may_be_written.insert(name(old));
  target.may_be_written = std::move(may_be_written);
  return true;
}

std::vector<std::uint64_t> updated_parameters(const CompareSide& side) {
  const Names parameters = names_of_parameters(side);
  std::vector<std::uint64_t> all(side.ops.size(), 0);
  for (std::size_t i = 0; i < side.ops.size(); ++i) {
    const CompareOp& op = side.ops[i];
    if (phase_of(*op.op) != Phase::optimizer) continue;
    std::set<std::uint64_t> found;
    for (const CompareInput& input : op.inputs) {
      const std::string_view parameter = input.name.empty() ? input.name : parameter_in(input.name, parameters);
      if (!parameter.empty()) {
        found.insert(number_of(parameter));
      } else if (input.from != kNoOp && all[input.from] != 0) {
        found.insert(all[input.from]);
      }
    }
    if (found.size() == 1) all[i] = *found.begin();
  }
  return all;
}

}  // namespace sonde
