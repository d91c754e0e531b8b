// A tensor that several processes have in parts, or several calls of one module: the parts are joined to the tensor
// that one process has. The golden tensor's shape shows which ways are possible, and its values show which one is right.
// The golden tensor may have parts, too: then each way to join them is tried.
//
//   TensorParts parts(ranks, calls);
//   parts.set(rank, call, {catalog_rank, tensor});
//   const Joined joined = join(parts, golden, {.tolerance = 1e-5});
//   if (joined.fits) ... joined.words: "concatenated along 0"
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "read/measure/tensor_difference.h"

namespace sonde {

// For each rank and call: the part; without a tensor where that rank has none.
class TensorParts {
 public:
  TensorParts(std::size_t ranks, std::size_t calls) : ranks_(ranks), calls_(calls), parts_(ranks * calls) {}

  void set(std::size_t rank, std::size_t call, TensorOf part) { parts_[rank * calls_ + call] = part; }
  const TensorOf& at(std::size_t rank, std::size_t call) const { return parts_[rank * calls_ + call]; }
  std::size_t ranks() const { return ranks_; }
  std::size_t calls() const { return calls_; }
  TensorParts of_rank(std::size_t rank) const;
  const TensorOf* first() const;  // null: no rank has one
  bool is_one() const { return parts_.size() == 1; }
  bool any_without_values() const;
  bool any_unrecorded() const;  // a rank has it without values

 private:
  std::size_t ranks_, calls_;
  std::vector<TensorOf> parts_;
};

struct JoinLimits {
  double tolerance = 0;               // of the root mean square of the error, relative
  double least = 0;                   // error that is always allowed: numbers below the type's smallest normal one
  double spacing = 0;                 // of a half type, if both have it: no error may be common to many rows; else 0
  double least_step = 0;              // of the type: between numbers below its smallest normal one
  bool by_statistics_too = false;     // that is also judged where only statistics are there
  bool are_norms = false;             // of parts: the squares are added up
  bool golden_sums = true;            // of golden parts by statistics: the mean alone is known
  std::vector<double> factors = {1};  // the joined tensor may be so many times the golden one
};

struct Joined {
  bool possible = false;                 // the shapes allow it
  bool fits = false;                     // the values are the golden ones
  bool is_sum = false;                   // the parts are added up
  bool golden_is_sum = false;            // as are those that the golden ranks have
  bool is_of_squares = false;            // the parts are norms, whose squares are added up
  bool is_cut = false;                   // they are put one behind the other
  double factor = 1;                     // the joined tensor is so many times the golden one
  double tolerance = 0;                  // as in the limits
  std::string problem;                   // a part's file that cannot be read
  std::string words;                     // "the same on all ranks", "concatenated along 0", "added up"
  TensorDifference difference;           // of the way that comes nearest
  std::vector<std::size_t> other_ranks;  // of those that do not fit, where the others do

  // Of a sum of parts, of either side, statistics show the mean alone.
  bool is_known_by_mean() const {
    return possible && (is_sum || golden_is_sum) && difference.by == ComparedBy::statistics;
  }
};

Joined join(const TensorParts& parts, const TensorParts& golden, const JoinLimits& limits);

}  // namespace sonde
