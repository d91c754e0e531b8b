// Watchpoints: conditions checked on the tensors of a dump, all in one pass over its files.
//
//   std::vector<Watchpoint> watchpoints(1);
//   watchpoints[0].condition = *parse_condition("tensor_overflow");
//   watchpoints[0].tensors = select_watched(catalog, {});
//   const WatchReport report = check_watchpoints(catalog, watchpoints);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ask/watch/watch_conditions.h"
#include "read/catalog/catalog.h"

namespace sonde {

// A tensor of a catalog, by its indices: catalog.ranks[rank].steps[step].ops[op].tensors[tensor].
struct TensorPlace {
  std::uint32_t rank = 0, step = 0, op = 0, tensor = 0;
  friend auto operator<=>(const TensorPlace&, const TensorPlace&) = default;
};

struct Watchpoint {
  std::string name;  // for people; may be empty
  WatchCondition condition;
  std::vector<TensorPlace> tensors;  // in any order; each counts once
  bool only_origins = false;         // of zeros, the places where they begin: see zero_origins.h
};

// The tensors to watch; an empty field chooses all.
struct WatchSelection {
  NodeCategory category = NodeCategory::tensor;
  enum class Sides : std::uint8_t { outputs, inputs, both } sides = Sides::outputs;
  std::function<bool(const CatalogRank&, const CatalogStep&, const CatalogOp&)> takes;
  std::function<bool(const TensorPlace&)> takes_tensor;
};
// Of "output", "input" and "both"; nullopt: another word.
std::optional<WatchSelection::Sides> sides_of_word(std::string_view word);
// In the order of the catalog; tensors without recorded data are left out.
std::vector<TensorPlace> select_watched(const Catalog& catalog, const WatchSelection& selection);

// The debugger's recommendation: those of its nine watchpoints that have a node to watch and a step to watch it in.
std::vector<Watchpoint> recommended_watchpoints(const Catalog& catalog, const WatchSelection& selection);

// The recommended ones if `recommended`; then those of the conditions, each on the tensors of its own category. `notes`
// gets the conditions that have nothing to watch. Fails with `invalid_argument` if the selection has another category
// than a condition.
Result<std::vector<Watchpoint>> make_watchpoints(const Catalog& catalog, std::span<const WatchCondition> conditions,
                                                 bool recommended, const WatchSelection& selection,
                                                 std::vector<std::string>& notes);

// The reasons why a tensor could not be judged, with the debugger's numbers.
enum WatchError : std::uint32_t {
  kWatchNan = 1,
  kWatchInf = 2,
  kWatchNoPrevious = 4,
  kWatchTooLarge = 8,
  kWatchNoHistory = 16,
  kWatchNoValue = 32,
};
// "Tensor contains NaN." and so on, in the order of the bits.
std::vector<std::string_view> error_messages(std::uint32_t code);
// "nan", "inf", "no_prev_tensor", "out_of_mem", "no_history", "no_value"
std::vector<std::string_view> error_words(std::uint32_t code);

struct WatchParameter {
  const ConditionParameter* parameter = nullptr;
  double value = 0;
  std::optional<double> actual;             // empty: there is nothing to compare with it, or it was not computed
  std::optional<double> at_least, at_most;  // where bounds of a value that is not known decide
  bool hit = false;
};

// A hit; or, with `hit` false, a tensor on which the condition could not be checked, and the reason. A hit may have an
// error code too: kWatchNoHistory if the previous step is only assumed.
struct WatchHit {
  std::uint32_t watchpoint = 0;  // index
  TensorPlace tensor;
  bool hit = false;
  std::uint32_t error_code = 0;
  std::vector<WatchParameter> parameters;  // those of the condition, in its order
  std::optional<std::uint64_t> previous_step;
  std::optional<std::uint64_t> nan_count, inf_count;  // if known
  DType dtype = DType::undefined;                     // from the dump, otherwise from its file
  std::optional<Dims> shape;
  std::uint64_t timestamp_us = 0;  // when the tensor was written; 0: unknown
  std::string found;               // of conditions without parameters: what the operator did
};

// "The setting for watchpoint is max_gt = 1. The actual value of the tensor is max_gt = 2.", for each check that fired.
// The Python debugger combines the checks in one such pair of sentences and writes numbers as Python does, like its
// original (python/sonde/debugger/conditions.py).
std::string detail_of(const WatchHit& hit);

// Of a tensor on which the condition could not be checked: the messages of its error code.
std::string reason_of(const WatchHit& hit);

// A tensor that was not judged at all. The debugger would skip it without a message.
struct WatchGap {
  std::uint32_t watchpoint = 0;
  TensorPlace tensor;
  std::string reason;  // "complex64 has no order"
};

struct WatchReport {
  std::vector<WatchHit> hits;  // by time, then by their order in the dump, then by watchpoint
  std::vector<WatchGap> gaps;  // in the order of the catalog
  std::vector<std::string> notes;
  std::vector<CatalogProblem> problems;  // files that could not be read
  std::uint64_t tensors = 0;             // watched ones
  std::uint64_t not_read = 0;  // of these: the facts in the dump sufficed, or there was nothing to read or compare
  std::uint64_t files = 0, bytes = 0;  // tensors read from files; their bytes in memory
};

struct WatchOptions {
  unsigned threads = 0;            // 0: one for each processor
  std::uint64_t most_bytes = 0;    // of a tensor and the one before it; larger ones are kWatchTooLarge. 0: no limit
  bool error_on_no_value = false;  // kWatchNoValue for tensors whose values were not saved, instead of a gap
  std::function<void()> progress;  // called from any thread after each tensor that was read
};

// The report does not depend on the number of threads.
WatchReport check_watchpoints(const Catalog& catalog, std::span<const Watchpoint> watchpoints,
                              const WatchOptions& options = {});

}  // namespace sonde
