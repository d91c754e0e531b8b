#include "dump/summary/summary_cell.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>

namespace sonde {
namespace {

// A finite number beyond the range of a float must not become an infinity.
float finite_as_float(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::isfinite(value) ? std::clamp(value, -kMost, kMost) : value);
}

std::uint32_t count_of(std::uint64_t count) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

SummaryCell cell_of(const Statistics& statistics) {
  SummaryCell cell;
  cell.offset = 0;
  cell.count = count_of(statistics.count);
  std::size_t next = 0;
  for_each_count([&](std::uint64_t count) { cell.counts[next++] = count_of(count); }, statistics);
  if (statistics.count == 0) return cell;
  cell.max = finite_as_float(value_of(statistics, Category::max));
  cell.min = finite_as_float(value_of(statistics, Category::min));
  cell.avg = finite_as_float(value_of(statistics, Category::avg));
  cell.l2norm = finite_as_float(value_of(statistics, Category::l2norm));
  return cell;
}

KnownStatistics known(const SummaryCell& cell) {
  KnownStatistics known;
  known.count = cell.count;
  std::size_t next = 0;
  for_each_count([&](auto& count) { count = cell.counts[next++]; }, known);
  if (cell.count == 0) return known;
  known.max = cell.max;
  known.min = cell.min;
  known.avg = cell.avg;
  known.l2norm = cell.l2norm;
  return known;
}

bool is_worse(const SummaryCell& a, const SummaryCell& b) {
  const auto badness = [](const SummaryCell& cell) {
    return std::tuple(cell.is_read(), cell.is_bad(), std::isnan(cell.l2norm) ? 0.0F : cell.l2norm);
  };
  return badness(a) > badness(b);
}

}  // namespace sonde
