// The tables of a saved index. See docs/catalog.md; index_writer.cpp fills them, index_reader.cpp reads them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "contract/served_answers.h"
#include "read/catalog/catalog.h"

namespace sonde {

inline constexpr std::int64_t kIndexApplication = 0x536E6449;  // "SndI", in the header of the file
inline constexpr std::int64_t kIndexVersion = 11;              // of the schema; another one is not read

// Executed before the rows are written, and after: an index of a full table is made faster.
std::string index_tables();
std::string index_lookups();  // and views, which are for people

// Those of a part of the tensors. Where no tensor belongs to it, the index is made before the rows: made afterwards, it
// would take a look at each of them.
struct PartialLookup {
  const char* sql;
  bool (*has)(const CatalogTensor&);
};
extern const std::array<PartialLookup, 3> kPartialLookups;

// tensors.flags
enum TensorFlag : std::uint32_t {
  kIsWanted = 1U << 0U,
  kHasShape = 1U << 1U,
  kHasConstant = 1U << 2U,
  kConstantIsNegativeZero = 1U << 3U,
  kHasStatistics = 1U << 4U,
  kSourceIsLikely = 1U << 5U,
  // Four bits each for max, min, avg, l2norm: SQLite does not keep a NaN, which becomes null, or the sign of a zero.
  kFirstKnown = 1U << 8U,
  kFirstNegativeZero = 1U << 12U,
};

// ops.flags
enum OpFlag : std::uint32_t { kIsParameter = 1U << 0U, kHasFailed = 1U << 1U, kIsModule = 1U << 2U };

// Of ops.phase or ranks.kind: the value that has this word; the first one if none has.
template <typename Enum>
Enum value_of_word(std::string_view word) {
  const auto& words = Words<Enum>::list;
  const auto found = std::ranges::find(words, word);
  return static_cast<Enum>(found == std::end(words) ? 0 : found - std::begin(words));
}

}  // namespace sonde
