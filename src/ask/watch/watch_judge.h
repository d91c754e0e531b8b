// Decides whether a condition fires, from known facts about a tensor. Opens no file.
#pragma once

#include <optional>
#include <span>

#include "ask/watch/watch_bounds.h"
#include "ask/watch/watch_values.h"
#include "ask/watch/watchpoints.h"

namespace sonde {

// The facts about a tensor that conditions use; an empty one is not known (yet).
struct WatchFacts {
  std::optional<bool> has_nan, has_inf, overflowed;
  std::optional<std::uint64_t> count, zero_count;
  std::optional<double> max, min, mean, abs_mean, sd;
  KnownNumbers known;  // the bounds of what is not known follow from it; `rounding`: a table has six digits
  const ValueSummary* values = nullptr;  // and the ranges its `inside` belongs to
  std::span<const ValueRange> ranges;
  const PairSummary* pair = nullptr;  // and the tolerances its `all_close` belongs to
  std::span<const Tolerance> tolerances;
  std::optional<KnownNumbers> previous;  // of the step before, with as many elements
  bool is_as_before = false;             // checksums say that no element has changed
};
// `exact`: not from a table of six digits.
WatchFacts facts_of(const KnownStatistics& statistics, bool exact);
WatchFacts facts_of(const ValueSummary& values, std::span<const ValueRange> ranges);

// The range to read for these conditions.
std::optional<ValueRange> range_of(const WatchCondition& condition);
Tolerance tolerance_of(const WatchCondition& condition);

struct Judgement {
  enum class Kind { quiet, hit, error, unknown } kind = Kind::quiet;
  std::uint32_t error_code = 0;
  std::vector<WatchParameter> parameters;
};
// `unknown`: facts are missing, or too coarse to place a value on one side of a threshold. With `final_word` the
// present facts must suffice: only missing facts make the result unknown.
Judgement judge(const WatchCondition& condition, const WatchFacts& facts, bool final_word);

}  // namespace sonde
