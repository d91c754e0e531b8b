#include "ask/first_bad/counted.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ground/base/shape.h"
#include "read/measure/slot_values.h"

namespace sonde {
namespace {

constexpr std::int64_t kMostRead = 4'000'000;  // elements: the page reads as many

// ", rest -0.61 … 0.32"
std::string rest_text(const CatalogRank& rank, const CatalogTensor& tensor) {
  const std::optional<SlotValues> values = SlotValues::open(rank, tensor);
  if (!values || values->elements() > kMostRead) return "";
  std::optional<double> smallest, largest;
  for (const double value : values->values()) {
    if (!std::isfinite(value)) continue;
    smallest = std::min(smallest.value_or(value), value);
    largest = std::max(largest.value_or(value), value);
  }
  return smallest ? fmt::format(", rest {:.3g} … {:.3g}", *smallest, *largest) : "";
}

}  // namespace

std::string counted_text(const CatalogRank& rank, const CatalogTensor& tensor,
                         const std::optional<KnownStatistics>& statistics) {
  if (!statistics || !tensor.has_shape) return "";
  const std::uint64_t all = element_count(tensor.shape);
  std::string text;
  std::uint64_t bad = 0;
  const auto add = [&](std::uint64_t count, std::string_view what) {
    if (count == 0) return;
    text += bad == 0 ? fmt::format("{} of {} {}", count, all, what) : fmt::format(", {} {}", count, what);
    bad += count;
  };
  add(statistics->nan_count.value_or(0), "NaN");
  add(statistics->infinity_count(1).value_or(0), "+inf");
  add(statistics->infinity_count(-1).value_or(0), "-inf");
  if (bad == 0) return "";
  return bad < all ? text + rest_text(rank, tensor) : text;
}

}  // namespace sonde
