// Ops of the step before that wrote a parameter that differs in this one.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "ask/unsharded/causes.h"

namespace sonde {

inline constexpr const char* kLeftSo =
    "the step before left it so: an op there whose result is within tolerance may be to blame";
inline constexpr const char* kLeftByUnseenStep = "a step before, which is not compared, left it so: it may be rounding";
inline constexpr const char* kUpdateUnseen = "its update has no counterpart: the values that it read may differ, too";

// The op of the optimizer that wrote it, if that had no counterpart (of a flat parameter, of another optimizer).
std::optional<ShardCause> update_before(const WholeStep& step, std::uint32_t golden, const CompareInput& input,
                                        const Joined& joined);
// The op of the program's own that wrote it last, where the golden run's optimizer did.
std::optional<ShardCause> writer_before(const WholeStep& step, std::uint32_t golden, const CompareInput& input,
                                        const Joined& joined);

// Nothing is known of the step before: it is not compared.
bool is_step_before_unseen(const WholeStep& step);
// Parameters whose gradient is nothing but rounding: an optimizer that divides by the size of gradients leaves any values
// in them and in their states, in each step.
std::set<std::string> parameters_of_noise(const WholeStep& step);

// The rank reads it just as an op of the step before wrote it.
bool was_left_so(const RankStep& rank, const CompareInput& read);

// The sequence numbers of the ops that made what the step behind this one reads.
std::set<std::uint64_t> read_by_step_behind(const CompareSide& side);

// A state that an op of the program has written in this step, before the optimizer reads it.
std::optional<ShardCause> writer_between(const WholeStep& step, std::uint32_t golden, const CompareInput& input,
                                         const Joined& joined);

}  // namespace sonde
