#include "ask/first_bad/counted.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ground/base/shape.h"
#include "read/measure/slot_values.h"

namespace sonde {
namespace {

constexpr std::int64_t kMostRead = 4'000'000;  // elements: the page reads as many

void find_range(const CatalogRank& rank, const CatalogTensor& tensor, CountedBad& counted) {
  const std::optional<SlotValues> values = SlotValues::open(rank, tensor);
  if (!values || values->elements() > kMostRead) return;
  for (const double value : values->values()) {
    if (!std::isfinite(value)) continue;
    counted.finite_min = std::min(counted.finite_min.value_or(value), value);
    counted.finite_max = std::max(counted.finite_max.value_or(value), value);
  }
}

}  // namespace

CountedBad count_bad(const CatalogRank& rank, const CatalogTensor& tensor,
                     const std::optional<KnownStatistics>& statistics) {
  CountedBad counted;
  if (!statistics || !tensor.has_shape) return counted;
  const std::uint64_t all = element_count(tensor.shape);
  std::string& text = counted.text;
  std::uint64_t bad = 0;
  const auto add = [&](std::uint64_t count, std::string_view what) {
    if (count == 0) return;
    text += bad == 0 ? fmt::format("{} of {} {}", count, all, what) : fmt::format(", {} {}", count, what);
    bad += count;
  };
  add(statistics->nan_count.value_or(0), "NaN");
  add(statistics->infinity_count(1).value_or(0), "+inf");
  add(statistics->infinity_count(-1).value_or(0), "-inf");
  if (bad == 0 || bad >= all) return counted;
  find_range(rank, tensor, counted);
  if (counted.finite_min) text += fmt::format(", rest {:.3g} … {:.3g}", *counted.finite_min, *counted.finite_max);
  return counted;
}

}  // namespace sonde
