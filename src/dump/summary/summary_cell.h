// SummaryCell: the statistics of one tensor in one step, as a summary keeps them (docs/format.md, "Summaries").
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "ground/stats/statistics.h"
#include "sonde/dims.h"
#include "sonde/dtype.h"
#include "sonde/known_statistics.h"

namespace sonde {

// As it lies in the files.
struct SummaryCell {
  static constexpr std::uint32_t kNotRead = ~0U;

  float max = 0, min = 0, avg = 0, l2norm = 0;  // as MindSpore defines them: NaN spreads; meaningless if count == 0
  std::uint32_t count = 0;                      // counts end at the largest number of 32 bits
  std::array<std::uint32_t, 6> counts = {};     // as for_each_count() visits them: the first three are not finite
  std::uint32_t offset = kNotRead;              // its step, counted from the first one of its row

  bool is_read() const { return offset != kNotRead; }
  bool is_bad() const { return counts[0] > 0 || counts[1] > 0 || counts[2] > 0; }
};
static_assert(sizeof(SummaryCell) == 48 && std::is_trivially_copyable_v<SummaryCell>);

// With offset 0.
SummaryCell cell_of(const Statistics& statistics);
KnownStatistics known(const SummaryCell& cell);
// Whether `a` deserves a look more than `b`: it was read, it is not finite, its norm is greater.
bool is_worse(const SummaryCell& a, const SummaryCell& b);

enum class SummaryKind : std::uint8_t { output, gradient, loss };  // as in the C ABI

// A tensor that is followed from step to step.
struct SummarySeries {
  SummaryKind kind = SummaryKind::output;
  std::string name;  // of the module, `Default/network-Net/fc1-Linear`, or of the parameter, `fc1.weight.grad`
  std::string type;  // the module's class; empty for others
  DType dtype = DType::undefined;
  Dims shape;  // when it was read first
};

}  // namespace sonde
