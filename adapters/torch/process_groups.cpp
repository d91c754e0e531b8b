#include "process_groups.h"

#include <exception>
#include <iterator>
#include <numeric>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

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

}  // namespace sonde_torch
