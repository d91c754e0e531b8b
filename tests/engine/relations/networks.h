// Values of small networks, computed by hand, and the comparison of two implementations of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ask/relations/relations.h"
#include "compare/program.h"
#include "sonde/answers.h"

namespace sonde {

// Numbers between -1 and 1 that look like chance, the same each time.
inline Values numbers(std::size_t count, std::uint32_t seed) {
  Values values;
  std::uint32_t state = seed * 2654435761U + 1;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    values.push_back(static_cast<float>(state >> 8) / 8388608.0F - 1.0F);
  }
  return values;
}

// Rows of x times the rows of w.
inline Values linear(const Values& x, const Values& w, std::size_t width) {
  Values y;
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    for (std::size_t out = 0; out < w.size() / width; ++out) {
      double sum = 0;
      for (std::size_t i = 0; i < width; ++i) {
        sum += static_cast<double>(x[row * width + i]) * static_cast<double>(w[out * width + i]);
      }
      y.push_back(static_cast<float>(sum));
    }
  }
  return y;
}

inline Values transposed(const Values& x, std::size_t rows) {
  const std::size_t columns = x.size() / rows;
  Values y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i % columns * rows + i / columns] = x[i];
  return y;
}

inline Values each(Values values, float (*function)(float)) {
  for (float& value : values) value = function(value);
  return values;
}

inline Values both(Values a, const Values& b, float (*function)(float, float)) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = function(a[i], b[i % b.size()]);
  return a;
}

inline Values joined(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline float tanh_of(float x) { return std::tanh(x); }
inline float logistic(float x) { return 1 / (1 + std::exp(-x)); }
inline float square(float x) { return x * x; }
inline float sum(float a, float b) { return a + b; }
inline float product(float a, float b) { return a * b; }

inline DumpComparison related(const Program& target, const Program& golden) {
  Result<DumpComparison> comparison = compare_programs(target.catalog(), golden.catalog(), {});
  EXPECT_TRUE(comparison) << comparison.error().message;
  EXPECT_FALSE(comparison->correspondence.empty()) << "they were compared as one program";
  return std::move(*comparison);
}

// "matmul: its result corresponds to nothing …"; "clean" if nothing was found and all was compared.
inline std::string answer(const DumpComparison& comparison) {
  if (comparison.findings.empty()) return comparison.left_out.empty() ? "clean" : comparison.left_out.front();
  const CompareFinding& first = comparison.findings.front();
  std::string text(first.culprit->op_type);
  if (first.kind == FindingKind::parameter) text = first.name;
  return text + (first.uncertain ? " (uncertain): " : ": ") + first.what;
}

// How the named tensor of the target, or the first result of this type of operator, corresponds.
inline std::string relation_of(const DumpComparison& comparison, std::string_view name) {
  for (const RelatedTensor& one : comparison.relations) {
    const bool is_it = one.op == nullptr ? std::string_view(one.tensor->parameter) == name : one.op->op_type == name;
    if (is_it) return std::string(word_of(one.relation)) + ": " + one.golden;
  }
  return "it is not there";
}

}  // namespace sonde
