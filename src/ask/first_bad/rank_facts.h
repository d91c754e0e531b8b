// RankFacts: what the search of one rank gives to the answer about all of them. It holds no part of the catalog, so it may
// come from another process (first_bad_parts.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "sonde/findings.h"

namespace sonde {

// Bad results that the program throws away.
struct ThrownAway {
  std::uint64_t results = 0, steps = 0;
  std::string first;  // the operator that made the first one, with its line
};

// A call of a collective, as far as a call on another rank needs it that meets it.
struct RankCall {
  std::string meeting;  // meeting_of()
  std::string op_name;
  std::uint64_t number = 0;  // CollectiveCall::number
  bool gave_bad = false, got_bad = false;
};

inline constexpr std::size_t kMostHealthy = 200;
inline constexpr std::size_t kMostAsides = 20;

// Where an infinity is healthy, whatever its rank and step.
using HealthySlot = std::tuple<std::string, Side, std::uint32_t>;
inline HealthySlot slot_of(const FindingTensor& tensor) { return {tensor.op_name, tensor.side, tensor.slot}; }

struct RankFacts {
  // The scope, notes, asides, expected findings, healthy infinities and problems of this rank. Of healthy
  // ones behind kMostHealthy there are names and places alone.
  FirstBad report;
  std::vector<std::uint64_t> healthy_times;  // of report.healthy: how often it was met
  std::vector<std::string> left_out;         // the recording's own words about what it did not record
  std::uint64_t tensors_not_read = 0;        // by max_overhead
  std::uint64_t trial_ops = 0;               // whose results the host threw away
  ThrownAway thrown_away;
  bool ran_in_pynative_mode = false;

  struct Found {
    std::size_t step = 0;  // of the first root, by its place in the rank
    std::string op_name;   // of the first root
    // The collectives before it, and whether it is one: bad data that came by it.
    std::uint64_t collectives_before = 0;
    bool is_collective = false;
    // The first root that the rank's own operators caused; that of a rank that went wrong in a later step than another.
    std::optional<Finding> own, own_if_later;
    std::vector<RankCall> calls;  // of that step, in order
  };
  std::optional<Found> found;
};

}  // namespace sonde
