#include "plan/config/nearest.h"

#include <algorithm>
#include <utility>

#include "ground/base/text.h"

namespace sonde {
namespace {

constexpr std::size_t kCompared = 256;  // the end of a name is more specific than its scope

std::string lowered_tail(std::string_view text) {
  if (text.size() > kCompared) text.remove_prefix(text.size() - kCompared);
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

std::size_t distance_for_suggestions(std::string_view name, std::string_view candidate) {
  const std::string a = lowered_tail(name);
  const std::string b = lowered_tail(candidate);
  const std::size_t edits = edit_distance(a, b);
  const bool contained = (a.size() >= 3 && b.find(a) != b.npos) || (b.size() >= 3 && a.find(b) != a.npos);
  return contained ? std::min<std::size_t>(edits, 1) : edits;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_back(b.size() + 1), back(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) back[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({back[j] + 1, row[j - 1] + 1, back[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
        row[j] = std::min(row[j], two_back[j - 2] + 1);
      }
    }
    std::swap(two_back, back);
    std::swap(back, row);
  }
  return back[b.size()];
}

std::vector<std::string> nearest(std::string_view name, std::span<const std::string_view> candidates,
                                 std::size_t most) {
  std::vector<std::pair<std::size_t, std::size_t>> order;  // distance, index
  order.reserve(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    order.emplace_back(distance_for_suggestions(name, candidates[i]), i);
  }
  most = std::min(most, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most), order.end());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < most; ++i) names.emplace_back(candidates[order[i].second]);
  return names;
}

bool is_close(std::string_view name, std::string_view candidate) {
  return distance_for_suggestions(name, candidate) <= std::max<std::size_t>(1, name.size() / 3);
}

}  // namespace sonde
