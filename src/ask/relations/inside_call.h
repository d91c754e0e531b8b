// One operator of a pool, into which is looked: its inputs as numbers, and the values inside of it that are added.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ask/relations/pool.h"
#include "read/measure/values.h"
#include "read/operators/op_attributes.h"

namespace sonde {

inline constexpr std::int64_t kMostElements = 1 << 22;  // of an operator that is looked into

struct Dense {
  std::vector<std::int64_t> shape;
  std::vector<double> values;

  std::int64_t size(std::size_t from_the_end) const { return shape[shape.size() - from_the_end]; }
};

inline std::vector<double> mapped(const std::vector<double>& values, const auto& function) {
  std::vector<double> result(values.size());
  std::ranges::transform(values, result.begin(), function);
  return result;
}

// One operator of the pool, with its inputs by slot.
class Call {
 public:
  Call(Pool& pool, std::uint32_t op) : pool_(pool), op_(op) {}

  std::optional<Dense> input(std::uint32_t slot) const {
    const PoolOp& own = pool_.ops[op_];
    for (std::size_t i = 0; i < own.inputs.size(); ++i) {
      if (own.slots[i] == slot) return load(own.inputs[i]);
    }
    return std::nullopt;
  }
  std::optional<Dense> output() const {
    const PoolOp& own = pool_.ops[op_];
    return own.outputs.empty() ? std::nullopt : load(own.outputs[0]);
  }

  double number(std::string_view name, double otherwise) const {
    return number_in(pool_.catalog_op(op_), name).value_or(otherwise);
  }
  bool is_set(std::string_view name) const { return number(name, 0) != 0; }
  std::int64_t count(std::string_view name) const {
    const Attribute* found = attribute_of(pool_.catalog_op(op_), name);
    return found == nullptr ? 0 : static_cast<std::int64_t>(found->integers.size());
  }

  void add(std::vector<std::int64_t> shape, std::vector<double> values) const {
    pool_.add_computed(op_, std::move(shape), std::move(values));
  }

 private:
  std::optional<Dense> load(std::uint32_t tensor) const {
    const PoolValues values = pool_.values_of(tensor);
    if (!values || values.view().elements() > kMostElements) return std::nullopt;
    const TensorView whole = values.view();
    return Dense{{whole.shape.begin(), whole.shape.end()}, all_values(whole)};
  }

  Pool& pool_;
  const std::uint32_t op_;
};

}  // namespace sonde
