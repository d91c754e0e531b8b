// The tables of a saved index. See docs/catalog.md; index_writer.cpp fills them, index_reader.cpp reads them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "read/catalog/catalog.h"

namespace sonde {

inline constexpr std::int64_t kIndexApplication = 0x536E6449;  // "SndI", in the header of the file
inline constexpr std::int64_t kIndexVersion = 8;               // of the schema; another one is not read

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

// ops.phase and ranks.kind, by their numbers.
inline constexpr std::array<std::string_view, 5> kPhases = {"forward", "backward", "optimizer", "outside", "recompute"};
inline constexpr std::array<std::string_view, 4> kDumpKinds = {"journal", "tree", "msprobe", "files"};
// The number of a name; 0 if it is none of them.
template <std::size_t Size>
std::size_t number_in(const std::array<std::string_view, Size>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? 0 : static_cast<std::size_t>(found - names.begin());
}

}  // namespace sonde
