// The result that an operator would give of other inputs than those that were recorded.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ask/relations/recomputed.h"
#include "relations/networks.h"

namespace sonde {

// An operator of this type with two results: of the inputs that were recorded, and of others.
struct CaseOfOp {
  std::string type;
  std::vector<Values> inputs;
  std::vector<std::string> shapes;
  Values result;
  std::string shape;
  std::vector<Values> others;
  Values expected;
  std::vector<Attribute> attributes = {};
};

// The result that is computed again from the other inputs; empty: the operator is not known.
inline std::vector<double> again(const CaseOfOp& one) {
  Program program;
  std::vector<Program::Ref> inputs;
  for (std::size_t i = 0; i < one.inputs.size(); ++i)
    inputs.push_back(Program::parameter("data-" + std::to_string(i), one.inputs[i], one.shapes[i]));
  program.add(one.type, inputs, one.result, one.shape);
  if (!one.attributes.empty()) program.call_with_all(one.attributes);
  const Catalog& catalog = program.catalog();
  OpFamilies families;
  Pool pool(catalog, {}, families);
  pool.read(Threads(1));
  Recomputed known(pool);
  const KnownFunction& function = known.function_of(0, 0);
  if (!function.apply) return {};
  std::vector<Dense> others;
  for (std::size_t i = 0; i < one.others.size(); ++i)
    others.push_back({known.inputs_of(0)[i]->shape, {one.others[i].begin(), one.others[i].end()}});
  DenseInputs read;
  for (const Dense& other : others) read.push_back(&other);
  const std::optional<Dense> result = function.apply(read);
  return result ? result->values : std::vector<double>{};
}

inline void expect_known(const CaseOfOp& one) {
  const std::vector<double> found = again(one);
  ASSERT_EQ(found.size(), one.expected.size()) << one.type;
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], one.expected[i], 1e-4) << one.type;
}

}  // namespace sonde
