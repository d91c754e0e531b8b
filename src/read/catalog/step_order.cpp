#include "read/catalog/step_order.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <tuple>
#include <vector>

namespace sonde {
namespace {

using Key = std::pair<std::uint32_t, std::uint64_t>;
using Times = std::map<Key, std::int64_t>;

// When each began, in microseconds; the first of several runs counts. A time of 0 is unknown.
Times times_of(const CatalogRank& rank) {
  Times times;
  for (const CatalogStep& step : rank.steps) {
    times.try_emplace({step.id.graph, step.id.number}, static_cast<std::int64_t>(step.started_us));
  }
  return times;
}

struct Span {
  std::int64_t first = INT64_MAX, last = 0;
};

Span span_of(const Times& times) {
  Span span;
  for (const auto& [key, time] : times) span = {std::min(span.first, time), std::max(span.last, time)};
  return span;
}

// The clock of `times` less the clock of `reference`: the median over their common steps.
std::int64_t ahead(const Times& times, const Times& reference) {
  const Span own = span_of(times), theirs = span_of(reference);
  if (own.first <= theirs.last && theirs.first <= own.last) return 0;
  std::vector<std::int64_t> apart;
  for (const auto& [key, time] : times) {
    if (const auto same = reference.find(key); same != reference.end()) apart.push_back(time - same->second);
  }
  if (apart.empty()) return 0;
  const auto middle = apart.begin() + static_cast<std::ptrdiff_t>(apart.size() / 2);
  std::ranges::nth_element(apart, middle);
  return *middle;
}

// The step of `reference` that runs with this one: that of its number, unless one of another number began much nearer.
Key partner(const Key& key, std::int64_t time, const Times& reference) {
  const auto same = reference.find(key);
  if (same == reference.end()) return key;
  auto nearest = same;
  const auto apart = [&](Times::const_iterator at) { return std::abs(time - at->second); };
  const auto is_nearer = [&](Times::const_iterator at) {
    return at->first.first == key.first && apart(at) < apart(nearest);
  };
  for (auto next = std::next(same); next != reference.end() && is_nearer(next); ++next) nearest = next;
  for (auto at = same; at != reference.begin() && is_nearer(std::prev(at)); --at) nearest = std::prev(at);
  return 2 * apart(nearest) < apart(same) ? nearest->first : key;
}

// By step of a rank. Two of its steps that would run with one, as of ranks that seldom wait for each other, or two that
// would change their order, show that times say nothing of this rank.
std::map<Key, Key> partners_of(const Times& times, std::int64_t moved, const Times& reference) {
  std::map<Key, Key> partners;
  for (const auto& [key, clock] : times) partners.emplace(key, partner(key, clock - moved, reference));
  const auto is_out_of_order = [](const auto& one, const auto& next) {
    return one.first.first == next.first.first && one.second >= next.second;
  };
  if (std::ranges::adjacent_find(partners, is_out_of_order) == partners.end()) return partners;
  for (auto& [key, with] : partners) with = key;
  return partners;
}

}  // namespace

StepOrder::StepOrder(std::span<const CatalogRank* const> ranks) {
  std::vector<std::pair<const CatalogRank*, Times>> all;
  for (const CatalogRank* rank : ranks) {
    if (Times times = times_of(*rank); !times.empty()) all.emplace_back(rank, std::move(times));
  }
  if (all.empty()) return;
  const bool knows_times = std::ranges::all_of(all, [](const auto& one) { return span_of(one.second).first > 0; });
  const Times& reference = std::ranges::max_element(all, {}, [](const auto& one) { return one.second.size(); })->second;
  Times began;
  for (const auto& [rank, times] : all) {
    const std::int64_t moved = knows_times ? ahead(times, reference) : 0;
    const std::map<Key, Key> partners = knows_times ? partners_of(times, moved, reference) : std::map<Key, Key>();
    for (const auto& [key, clock] : times) {
      const std::int64_t time = knows_times ? clock - moved : 0;
      const Key with = knows_times ? partners.at(key) : key;
      if (with != key) others_.emplace(std::pair(rank, key), with);
      const auto [at, is_new] = began.try_emplace(with, time);
      if (!is_new) at->second = std::min(at->second, time);
    }
  }
  std::vector<std::tuple<std::int64_t, std::uint64_t, std::uint32_t>> order;
  for (const auto& [key, time] : began) order.emplace_back(time, key.second, key.first);
  std::ranges::sort(order);
  for (const auto& [time, number, graph] : order) places_.try_emplace({graph, number}, places_.size());
}

std::size_t StepOrder::place_of(const CatalogRank& rank, const StepId& id) const {
  const Key key = {id.graph, id.number};
  const auto other = others_.find({&rank, key});
  const auto at = places_.find(other != others_.end() ? other->second : key);
  return at != places_.end() ? at->second : places_.size();
}

}  // namespace sonde
