// TensorDifference: the distance of two tensors of two dumps, by the best data that both have: values, else statistics,
// else checksums.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ground/base/parallel.h"
#include "ground/stats/pair.h"
#include "read/catalog/catalog.h"
#include "sonde/dtype.h"
#include "sonde/tensor.h"

namespace sonde {

enum class ComparedBy : std::uint8_t { nothing, values, statistics, checksum };
std::string_view word_of(ComparedBy by);  // "values"; "" for nothing

struct TensorDifference {
  ComparedBy by = ComparedBy::nothing;
  std::string problem;      // the reason why nothing can be compared, or the part that cannot be read
  bool unreadable = false;  // `problem` concerns a file
  bool same_shape = true;   // apart from dimensions of 1
  // if not empty: the golden tensor, with its axes in this order, has the target's layout
  std::vector<std::size_t> axes;
  bool equal = false;  // no element differs; by checksum: the only result

  DType dtype = DType::undefined, golden_dtype = DType::undefined;
  Dims shape, golden_shape;
  // By values, all of these. By statistics, lower bounds.
  double rms_error = 0, max_error = 0, mean_error = 0;
  double rms = 0, max_size = 0;  // of the golden tensor: root mean square, largest absolute value
  double deviation = 0;          // of the golden tensor: standard deviation
  double cosine = 1;
  std::uint64_t count = 0, mismatches = 0;
  std::uint64_t non_finite = 0, golden_non_finite = 0, different_non_finite = 0;
  std::uint64_t worst_index = 0;
  double worst_value = 0, worst_golden = 0;
  double text_digits = 0;  // half a unit of the last digit of the statistics, relative
  PairSums sums;           // by values
  KnownStatistics statistics, golden_statistics;

  bool comparable() const { return by != ComparedBy::nothing && same_shape; }
  double relative() const;  // rms_error / rms; 0 if both are 0
};

// A tensor of a dump.
struct TensorOf {
  const CatalogRank* rank = nullptr;
  const CatalogTensor* tensor = nullptr;
};

struct DifferenceOptions {
  bool all_sums = false;  // PairOptions::all_sums
  bool any_axes = true;   // if shapes differ, try the layouts that frameworks use
};

TensorDifference difference_of(const TensorOf& target, const TensorOf& golden, const DifferenceOptions& options,
                               const ForEach& for_each);

// Of elements whose sums are known.
TensorDifference difference_of_sums(const TensorOf& target, const TensorOf& golden, const PairSums& sums);

// Of elements that are in memory; both have the same number.
TensorDifference difference_of_values(const TensorView& target, const TensorView& golden);

// The same, with `axes` prescribed: "is the golden weight transposed?".
TensorDifference difference_along(const TensorOf& target, const TensorOf& golden, const std::vector<std::size_t>& axes,
                                  const ForEach& for_each);

// The differences of many pairs; each pair of files is compared once. Results are the same for any number of threads.
class Differences {
 public:
  Differences(const Threads& threads, DifferenceOptions options);
  ~Differences();

  // Announces pairs: run() compares them all, small tensors in parallel, large ones cut into pieces.
  void want(const TensorOf& target, const TensorOf& golden);
  void run();
  // The result for a pair; compares it now if it was not announced. Valid as long as this object. Both tensors may
  // belong to one dump.
  const TensorDifference& of(const TensorOf& target, const TensorOf& golden);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The shapes without their dimensions of 1.
std::vector<std::int64_t> squeezed(std::span<const std::int64_t> shape);

}  // namespace sonde
