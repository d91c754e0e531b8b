// Combines two rule files: -f with -q, -f with -cf.
#include <algorithm>
#include <unordered_set>

#include "guests/msaccucmp/rules.h"

namespace sonde::msaccucmp {
namespace {

// The golden operators of all operators that `name` became in the quantised model.
void add_origins(const Rules& quantised, const std::string& name, std::vector<std::string>& origins) {
  const Group* group = quantised.group_of(name);
  if (group == nullptr) return;
  for (const std::size_t i : group->ops) {
    for (const std::string& origin : quantised.ops[i].origins) {
      if (std::ranges::find(origins, origin) == origins.end()) origins.push_back(origin);
    }
  }
}

OriginOutput laid_as(OriginOutput output, const OriginOutput& offline) {
  if (!offline.format.empty()) {
    output.format = offline.format;
    output.shape = offline.shape;
  }
  return output;
}

void add_outputs(const Rules& quantised, const OriginOutput& offline, std::vector<OriginOutput>& outputs) {
  const Group* group = offline.name.empty() ? nullptr : quantised.group_of(offline.name);
  if (group == nullptr) return;
  for (const std::size_t i : group->ops) {
    const RuleOp& op = quantised.ops[i];
    if (!offline.index) {
      for (const OriginOutput& output : op.outputs) outputs.push_back(laid_as(output, offline));
    } else if (op.name == offline.name) {
      const auto index = static_cast<std::size_t>(*offline.index);
      outputs.push_back(index < op.outputs.size() ? laid_as(op.outputs[index], offline) : OriginOutput{});
    }
  }
}

// The groups again, after their operators' origins have changed.
void regroup(Rules& rules, const std::vector<std::size_t>& order) {
  rules.groups.clear();
  rules.group_by_key.clear();
  for (const std::size_t i : order) {
    RuleOp& op = rules.ops[i];
    std::string key = op.name;
    if (op.origins.size() > 1) {
      key = "\x01";
      for (const std::string& origin : op.origins) key += origin;
    } else if (op.origins.size() == 1 && !op.origins[0].empty()) {
      key = op.origins[0];
    }
    rules.key_by_op[op.name] = key;
    const auto [place, is_new] = rules.group_by_key.try_emplace(key, rules.groups.size());
    if (is_new) rules.groups.push_back({key, {}});
    op.index = static_cast<std::int64_t>(place->second);
    rules.groups[place->second].ops.push_back(i);
  }
}

using OpByOrigin = std::unordered_map<std::string, std::string>;

// Finds the unfused model's operator that has this output of this golden operator, and the slot of its own output.
void find_unfused_output(const Rules& unfused, const std::string& op_name, OriginOutput& output) {
  const Group* group = unfused.group_of(op_name);
  if (group == nullptr) return;
  for (const std::size_t i : group->ops) {
    const std::vector<OriginOutput>& outputs = unfused.ops[i].outputs;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (outputs[k].name == output.name && outputs[k].index == output.index) {
        output.index = static_cast<std::int64_t>(k);
        return;
      }
    }
  }
}

void point_at_unfused(RuleOp& op, const Rules& unfused, const OpByOrigin& by_origin) {
  if (op.origins != std::vector<std::string>{""}) {
    std::vector<std::string> names;
    for (const std::string& origin : op.origins) {
      const auto known = by_origin.find(origin);
      if (known != by_origin.end() && std::ranges::find(names, known->second) == names.end()) {
        names.push_back(known->second);
      }
    }
    op.origins = std::move(names);
  }
  for (OriginOutput& output : op.outputs) {
    const auto known = by_origin.find(output.name);
    if (output.name.empty() || known == by_origin.end()) continue;
    find_unfused_output(unfused, known->second, output);
    output.name = known->second;
  }
}

}  // namespace

Rules before_quantisation(Rules offline, const Rules& quantised) {
  std::vector<std::size_t> order;
  for (const Group& group : offline.groups) order.insert(order.end(), group.ops.begin(), group.ops.end());
  for (const std::size_t i : order) {
    RuleOp& op = offline.ops[i];
    std::vector<std::string> origins;
    for (const std::string& origin : op.origins) add_origins(quantised, origin, origins);
    if (!origins.empty()) op.origins = std::move(origins);
    std::vector<OriginOutput> outputs;
    for (const OriginOutput& output : op.outputs) add_outputs(quantised, output, outputs);
    if (!outputs.empty()) op.outputs = std::move(outputs);
  }
  regroup(offline, order);
  return offline;
}

Rules against_unfused(const Rules& fused, const Rules& unfused) {
  OpByOrigin by_origin;
  for (const std::size_t i : unfused.in_sequence) {
    for (const std::string& origin : unfused.ops[i].origins) by_origin[origin] = unfused.ops[i].name;
  }
  // From the last operator to the first, each golden operator and each unfused one is given to one group only.
  Rules merged;
  std::unordered_set<std::string> seen_groups, seen_origins, seen_unfused;
  for (auto name = fused.op_names.rbegin(); name != fused.op_names.rend(); ++name) {
    const Group* group = fused.group_of(*name);
    if (group == nullptr || !seen_groups.insert(group->key).second) continue;
    merged.key_by_op[*name] = group->key;
    for (const std::size_t i : group->ops) {
      RuleOp op = fused.ops[i];
      const std::string first = op.origins.empty() ? "" : op.origins[0];
      if (!seen_origins.insert(first).second) continue;
      if (const auto known = by_origin.find(first);
          known != by_origin.end() && !seen_unfused.insert(known->second).second) {
        continue;
      }
      point_at_unfused(op, unfused, by_origin);
      const auto [place, is_new] = merged.group_by_key.try_emplace(group->key, merged.groups.size());
      if (is_new) merged.groups.push_back({group->key, {}});
      merged.groups[place->second].ops.push_back(merged.ops.size());
      merged.in_sequence.push_back(merged.ops.size());
      merged.ops.push_back(std::move(op));
    }
  }
  std::ranges::reverse(merged.in_sequence);
  return merged;
}

}  // namespace sonde::msaccucmp
