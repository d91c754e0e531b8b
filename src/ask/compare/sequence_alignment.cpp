#include "ask/compare/sequence_alignment.h"

#include <algorithm>
#include <cstddef>

namespace sonde {

IndexPairs longest_rising(const IndexPairs& pairs) {
  std::vector<std::size_t> tails, before(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto at =
        std::ranges::lower_bound(tails, pairs[i].second, {}, [&](std::size_t p) { return pairs[p].second; });
    before[i] = at == tails.begin() ? pairs.size() : *(at - 1);
    if (at == tails.end()) {
      tails.push_back(i);
    } else {
      *at = i;
    }
  }
  IndexPairs rising;
  for (std::size_t i = tails.empty() ? pairs.size() : tails.back(); i < pairs.size(); i = before[i]) {
    rising.push_back(pairs[i]);
  }
  std::ranges::reverse(rising);
  return rising;
}

IndexPairs best_alignment(const std::vector<std::uint32_t>& rows, const std::vector<std::uint32_t>& columns,
                          const std::function<float(std::uint32_t, std::uint32_t)>& likeness) {
  constexpr std::size_t kMostCells = 1 << 22;
  if (rows.size() * columns.size() > kMostCells) return {};
  const std::size_t width = columns.size() + 1;
  std::vector<float> best(width * (rows.size() + 1), 0);
  std::vector<std::uint8_t> step(best.size(), 0);
  for (std::size_t i = 1; i <= rows.size(); ++i) {
    for (std::size_t j = 1; j < width; ++j) {
      const float alike = likeness(rows[i - 1], columns[j - 1]);
      const float both = alike > 0 ? best[(i - 1) * width + j - 1] + alike : -1;
      const float up = best[(i - 1) * width + j], back = best[i * width + j - 1];
      const float most = std::max({both, up, back});
      best[i * width + j] = most;
      step[i * width + j] = most == both ? 0 : most == up ? 1 : 2;
    }
  }
  IndexPairs pairs;
  for (std::size_t i = rows.size(), j = columns.size(); i > 0 && j > 0;) {
    switch (step[i * width + j]) {
      case 0:
        --i;
        --j;
        pairs.emplace_back(rows[i], columns[j]);
        break;
      case 1:
        --i;
        break;
      default:
        --j;
    }
  }
  return pairs;
}

}  // namespace sonde
