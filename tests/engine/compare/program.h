// Program: steps of a program made by hand, op by op, as a catalog.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "ask/compare/compare.h"
#include "catalog/dump_files.h"

namespace sonde {

using Values = std::vector<float>;

// Steps of a program, op by op, with the data flow of a recorded dump.
class Program {
 public:
  Program() {
    catalog_.path = directory_.path();
    CatalogRank& rank = catalog_.ranks.emplace_back();
    rank.directory = directory_.path();
    rank.has_journal = true;
    rank.steps.emplace_back();
  }

  struct Ref {
    std::uint64_t op = kNoSequence;
    std::string name;
    Values values;
    std::string shape;
    std::uint32_t slot = 0;
  };
  static Ref parameter(const std::string& name, const Values& values, const std::string& shape) {
    return {kNoSequence, name, values, shape};
  }

  Ref add(const std::string& type, const std::vector<Ref>& inputs, const Values& output, const std::string& shape,
          const std::string& scope = "Default/net") {
    CatalogOp& op = catalog_.ranks[0].steps.back().ops.emplace_back();
    op.op_type = keep(type);
    op.sequence = ++sequence_;
    op.op_name = keep(scope + "/" + type + "-op" + std::to_string(numbers_[scope + type]++));
    for (const Ref& input : inputs) {
      CatalogTensor& tensor = add_tensor(op, true, input.values, input.shape);
      tensor.source = input.op;
      tensor.source_slot = input.slot;
      tensor.parameter = keep(input.name);
    }
    add_tensor(op, false, output, shape);
    return {op.sequence, "", output, shape};
  }

  // Adds an output to the last op.
  Ref add_output(const Values& output, const std::string& shape) {
    CatalogOp& op = last();
    const CatalogTensor& tensor = add_tensor(op, false, output, shape);
    return {op.sequence, "", output, shape, tensor.slot};
  }

  CatalogOp& last() { return catalog_.ranks[0].steps.back().ops.back(); }

  void next_step() {
    numbers_.clear();
    const std::uint64_t number = catalog_.ranks[0].steps.size();
    catalog_.ranks[0].steps.emplace_back().id.number = number;
  }

  void call_with(const Attribute& attribute) { call_with_all({attribute}); }

  void call_with_all(const std::vector<Attribute>& attributes) {
    attributes_.push_back(attributes);
    last().attributes = &attributes_.back();
  }

  // The statistics of its tensors replace the tensors.
  void forget_values() { forget_values_of(catalog_.ranks[0].steps[0]); }
  void forget_all_values() {
    for (CatalogStep& step : catalog_.ranks[0].steps) forget_values_of(step);
  }

  const Catalog& catalog() const { return catalog_; }

 private:
  void forget_values_of(CatalogStep& step) {
    for (CatalogOp& op : step.ops) {
      for (CatalogTensor& tensor : op.tensors) {
        if (!tensor.constant) forget_values_of(tensor);
      }
    }
  }

  void forget_values_of(CatalogTensor& tensor) {
    const Values& values = values_[std::string(tensor.file)];
    KnownStatistics statistics;
    double squares = 0, sum = 0;
    for (const float value : values) {
      squares += static_cast<double>(value) * static_cast<double>(value);
      sum += static_cast<double>(value);
    }
    statistics.max = *std::ranges::max_element(values);
    statistics.min = *std::ranges::min_element(values);
    statistics.avg = sum / static_cast<double>(values.size());
    statistics.l2norm = std::sqrt(squares);
    tensor.statistics = statistics;
    tensor.file = "";
  }

  std::string_view keep(const std::string& text) { return catalog_.texts->keep(text); }

  CatalogTensor& add_tensor(CatalogOp& op, bool is_input, const Values& values, const std::string& shape) {
    CatalogTensor& tensor = op.tensors.emplace_back();
    tensor.is_input = is_input;
    for (const CatalogTensor& other : op.tensors) tensor.slot += &other != &tensor && other.is_input == is_input;
    tensor.dtype = DType::float32;
    std::vector<std::int64_t> sizes;
    for (std::size_t at = 1; at < shape.size() && shape[at] != ')'; at = shape.find(',', at) + 1) {
      sizes.push_back(std::stoll(shape.substr(at)));
      if (shape.find(',', at) == std::string::npos) break;
    }
    tensor.set_shape(sizes);
    tensor.file = keep("t" + std::to_string(files_++) + ".npy");
    directory_.write(tensor.file, npy("<f4", shape, bytes_of(values)));
    values_[std::string(tensor.file)] = values;
    return tensor;
  }

  TemporaryDirectory directory_;
  Catalog catalog_;
  std::deque<std::vector<Attribute>> attributes_;
  std::uint64_t sequence_ = 0;
  std::map<std::string, int> numbers_;
  std::map<std::string, Values> values_;
  int files_ = 0;
};

inline Values times(const Values& values, float factor) {
  Values product;
  for (const float value : values) product.push_back(value * factor);
  return product;
}

inline DumpComparison compared(const Program& target, const Program& golden, const CompareOptions& options = {}) {
  Result<DumpComparison> comparison = compare_dumps(target.catalog(), golden.catalog(), options);
  EXPECT_TRUE(comparison) << comparison.error().message;
  return std::move(*comparison);
}

}  // namespace sonde
