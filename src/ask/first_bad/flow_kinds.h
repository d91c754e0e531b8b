// The kinds of bad values, and the words for their origins and ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "read/measure/health.h"

namespace sonde {

enum class BadKind : std::uint8_t { nan = 0, inf = 1 };
inline constexpr BadKind kBadKinds[] = {BadKind::nan, BadKind::inf};
inline std::size_t at(BadKind kind) { return static_cast<std::size_t>(kind); }
inline bool has(const Health& health, BadKind kind) { return kind == BadKind::nan ? health.nan : health.inf(); }

// The worst end of a value; larger is worse.
enum class End : std::uint8_t {
  absorbed,  // every reader gives finite results
  unknown,   // the dump lacks the results of its readers
  unread,    // it has no reader in the dump, or only the program itself: a number, a check whether it is finite
  decides,   // NaN goes into a comparison or an index that other ops read
  scaler,    // a gradient, and the loss scaler skipped the optimizer
  matters,   // a gradient, a parameter, optimizer state, or the loss
};
std::string_view word_of(End end);

enum class RootKind : std::uint8_t {
  created,      // finite inputs, computed
  placed,       // finite inputs, and an op that writes a value chosen by the program: masked_fill, where, full
  external,     // nothing in the dump made it: input data, a parameter, a constant, an earlier step
  overwritten,  // the op that made it recorded other values than its reader
  converted,    // from placed or external infinities the op made NaN, or infinities of the other sign
};

// Sets of them.
constexpr std::uint8_t bit(RootKind kind) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(kind)); }
inline constexpr std::uint8_t kHarmless = bit(RootKind::placed) | bit(RootKind::external);
inline bool is_harmless(std::uint8_t flags) { return flags != 0 && (flags & ~kHarmless) == 0; }

}  // namespace sonde
