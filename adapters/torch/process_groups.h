// The objects among the arguments of collectives: groups of ranks, and how values are joined.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

#include "ops.h"

namespace sonde_torch {

// An object of torch.distributed that is written in Python: asking it would run the user's code and take the GIL.
template <typename Object>
bool is_python(const Object& object) {
  return std::strstr(typeid(object).name(), "Py") != nullptr;
}

// The name of a group, "SUM" of a reduction. Empty: another object, or one that is written in Python.
std::optional<std::string> name_of_object(const c10::IValue& value);

// The ranks of the group that one of these values is, in its order; `is_name`: it is the name of one. Empty: unknown.
// Not cheap.
std::vector<std::int64_t> group_ranks(const c10::IValue& value, bool is_name);

// A call of a collective while it runs.
struct GroupCall {
  void* group = nullptr;     // a c10d::ProcessGroup, which the call keeps alive; null: unknown
  std::uint32_t writer = 0;  // of its results, as in sonde_tensor
  std::uint64_t number = 0;  // among the collectives of the group, as its backend counts them; 0: it does not
};
// The collective `info` begins with these arguments.
GroupCall begin_call(const OpInfo& info, sonde_graph graph, c10::ArrayRef<const c10::IValue> values);
// It has returned: its number if the backend has counted it, else 0.
std::uint64_t number_of_call(const GroupCall& call);

}  // namespace sonde_torch
