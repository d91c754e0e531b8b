// A run made in memory for tests of the analyses: ops that read each other, with statistics and no files.
//
//   MadeRun run;
//   const Made scores = run.op("matmul", {run.parameter("x")});
//   const Made masked = run.op("masked_fill", {scores}, {.negative_inf = 3});
//   run.op("softmax", {masked});
#pragma once

#include <string>
#include <vector>

#include "read/catalog/catalog.h"

namespace sonde {

// The non-finite values among eight elements; the others are between -1 and 1.
struct Bad {
  std::uint64_t nan = 0, positive_inf = 0, negative_inf = 0;
};

// An output of an op, or a tensor from outside.
struct Made {
  std::uint64_t sequence = kNoSequence;
  std::string name;  // of a tensor from outside
  Bad bad;
};

class MadeRun {
 public:
  MadeRun() { next_step(); }

  void next_step();
  void phase(Phase phase) { phase_ = phase; }
  // The next op has no recorded inputs, or no recorded outputs.
  Made op(const std::string& type, const std::vector<Made>& inputs = {}, Bad bad = {});
  // The op reads its input with other values than the ones that its producer recorded.
  Made op_reading(const std::string& type, Made input, Bad read, Bad bad = {});
  // The output is a single number: a loss.
  Made loss(const std::string& type, const std::vector<Made>& inputs, Bad bad = {});
  Made outside(const std::string& name, Bad bad = {}) { return {kNoSequence, name, bad}; }

  CatalogTensor& last_output() { return op_().tensors.back(); }
  CatalogTensor& last_input(std::size_t slot) { return op_().tensors[slot]; }
  Catalog& catalog() { return catalog_; }
  CatalogRank& rank() { return catalog_.ranks.front(); }

 private:
  CatalogOp& op_() { return rank().steps.back().ops.back(); }

  Catalog catalog_;
  Phase phase_ = Phase::forward;
  std::uint64_t sequence_ = 0;
  std::uint64_t content_ = 0;
};

}  // namespace sonde
