#include "ask/watch/watch_facts.h"

#include <algorithm>

#include "ground/base/shape.h"

namespace sonde {
namespace {

void set_overflow(const std::optional<bool>& recorded, bool by_values, WatchFacts& facts) {
  facts.overflowed = recorded;
  if (!by_values) {
    facts.overflowed = recorded.value_or(false);
  } else if (facts.has_nan.value_or(false) || facts.has_inf.value_or(false)) {
    facts.overflowed = true;
  } else if (facts.has_nan && facts.has_inf) {
    facts.overflowed = false;
  }
}

// msprobe computes in the tensor's own type.
double rounding_of(DType type) { return type == DType::bfloat16 ? 0x1p-5 : type == DType::float16 ? 0x1p-8 : 1e-5; }

bool is_same_size(const CatalogTensor& a, const CatalogTensor& b) {
  return a.has_shape && b.has_shape && a.shape == b.shape && a.dtype == b.dtype;
}

// From the statistics of the dump.
WatchFacts facts_of_dump(const Catalog& catalog, const TensorPlace& place) {
  const CatalogTensor& tensor = tensor_of(catalog, place);
  const CatalogRank& rank = rank_of(catalog, place);
  WatchFacts facts = facts_of(*tensor.statistics, rank.has_journal);
  if (!facts.known.count && tensor.has_shape) facts.known.count = element_count(tensor.shape.values());
  if (rank.kind == DumpKind::msprobe) facts.known.rounding = std::max(facts.known.rounding, rounding_of(tensor.dtype));
  return facts;
}

void add_previous(const Catalog& catalog, const TensorPlace& place, const CatalogTensor& now, WatchFacts& facts) {
  const CatalogTensor& before = tensor_of(catalog, place);
  if (!is_same_size(now, before)) return;
  facts.is_as_before = (!now.md5.empty() && now.md5 == before.md5) || (!now.sha1.empty() && now.sha1 == before.sha1);
  if (before.statistics && before.statistics->all_finite()) facts.previous = facts_of_dump(catalog, place).known;
}

}  // namespace

WatchFacts known_facts(const Catalog& catalog, const WatchItem& item) {
  const CatalogTensor& tensor = tensor_of(catalog, item.place);
  WatchFacts facts;
  if (tensor.statistics) facts = facts_of_dump(catalog, item.place);
  if (item.previous.place) add_previous(catalog, *item.previous.place, tensor, facts);
  set_overflow(item.overflowed, item.by_values, facts);
  return facts;
}

// The facts from new statistics.
WatchFacts statistics_facts(const WatchItem& item, const KnownStatistics& statistics) {
  WatchFacts facts = facts_of(statistics, true);
  facts.known.rounding = 0;
  set_overflow(item.overflowed, item.by_values, facts);
  return facts;
}

WatchFacts read_facts(const WatchItem& item) {
  if (item.statistics) return statistics_facts(item, *item.statistics);
  WatchFacts facts = facts_of(*item.values, item.ranges);
  facts.tolerances = item.tolerances;
  if (item.pair) facts.pair = &*item.pair;
  set_overflow(item.overflowed, item.by_values, facts);
  return facts;
}

}  // namespace sonde
