#include "process_groups.h"

#include <exception>
#include <iterator>
#include <numeric>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "setup.h"

namespace sonde_torch {
namespace {

using c10d::ProcessGroup;
using c10d::ReduceOp;

constexpr const char* kReductions[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};

template <typename T>
const T* object_as(const c10::IValue& value) {
  if (!value.isCustomClass()) return nullptr;
  return dynamic_cast<const T*>(value.toObjectRef().getSlot(0).toCapsule().get());
}

std::vector<std::int64_t> ranks_of(ProcessGroup& group) {
  if (is_python(group)) return {};
  const auto& known = group.getDefaultBackend()->getBackendOptions()->global_ranks_in_group;
  std::vector<std::int64_t> ranks(known.begin(), known.end());
  if (ranks.empty()) {  // the group of all ranks
    ranks.resize(static_cast<std::size_t>(group.getSize()));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  return ranks;
}

// By the names of arguments: of functional collectives it is the group's.
ProcessGroup* group_among(const OpInfo& info, c10::ArrayRef<const c10::IValue> values) {
  for (std::size_t i = 0; i < info.arguments.size() && i < values.size(); ++i) {
    if (const auto* group = object_as<ProcessGroup>(values[i])) return const_cast<ProcessGroup*>(group);
    if (info.arguments[i].name == "group_name" && values[i].isString()) {
      return c10d::resolve_process_group(std::string(values[i].toStringView())).get();
    }
  }
  return nullptr;
}

// A template, since PyTorch from 2.15 on does not have the question: there each backend counts.
template <class Group>
std::uint64_t calls_of(Group& group) {
  if (is_python(group)) return 0;
  if constexpr (requires { group.backendSupportsSequenceNumbers(group.getBackendType()); }) {
    if (!group.backendSupportsSequenceNumbers(group.getBackendType())) return 0;
  }
  return group.getSequenceNumberForGroup();
}

// 1 + the first rank of the group, which can write for all; 0: every rank writes its own.
std::uint32_t writer_of_results(const OpInfo& info, sonde_graph graph, ProcessGroup& group) {
  if (!info.equal_on_all || api().shares_results(graph) == 0) return 0;
  const std::vector<std::int64_t> ranks = ranks_of(group);
  return ranks.size() < 2 ? 0 : static_cast<std::uint32_t>(ranks.front()) + 1;
}

// Only collectives of all ranks have numbers.
bool is_between_two(const OpInfo& info) { return info.op_type == "send" || info.op_type.rfind("recv", 0) == 0; }

}  // namespace

std::optional<std::string> name_of_object(const c10::IValue& value) {
  if (const auto* group = object_as<ProcessGroup>(value)) {
    return is_python(*group) ? std::nullopt : std::optional(group->getGroupName());
  }
  const auto* reduction = object_as<ReduceOp>(value);
  const auto number = reduction == nullptr ? std::size(kReductions) : static_cast<std::size_t>(reduction->op_);
  return number < std::size(kReductions) ? std::optional<std::string>(kReductions[number]) : std::nullopt;
}

std::vector<std::int64_t> group_ranks(const c10::IValue& value, bool is_name) {
  try {
    if (is_name && value.isString()) {
      return ranks_of(*c10d::resolve_process_group(std::string(value.toStringView())));
    }
    if (const auto* group = object_as<ProcessGroup>(value)) return ranks_of(*const_cast<ProcessGroup*>(group));
  } catch (const std::exception&) {  // the group is gone, or its backend does not say
  }
  return {};
}

GroupCall begin_call(const OpInfo& info, sonde_graph graph, c10::ArrayRef<const c10::IValue> values) {
  try {
    ProcessGroup* const group = is_between_two(info) ? nullptr : group_among(info, values);
    if (group != nullptr) return {group, writer_of_results(info, graph, *group), calls_of(*group) + 1};
  } catch (const std::exception&) {  // the group is gone, or its backend does not count
  }
  return {};
}

std::uint64_t number_of_call(const GroupCall& call) {
  if (call.group == nullptr) return 0;
  try {
    return calls_of(*static_cast<ProcessGroup*>(call.group)) >= call.number ? call.number : 0;
  } catch (const std::exception&) {
    return 0;
  }
}

}  // namespace sonde_torch
