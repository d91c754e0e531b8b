#include "way_before.h"

#include <cstddef>
#include <utility>

#include "ask/finding/finding.h"
#include "dump.h"
#include "read/operators/earlier_writer.h"

namespace sonde {

// Null: it cannot be read.
const Catalog* EarlierSteps::with_ops() {
  if (!comes_from_index(catalog_)) return &catalog_;
  if (!part_) {
    Result<PartialCatalog> opened = PartialCatalog::open(dump_);
    if (!opened) return nullptr;
    part_.emplace(std::move(*opened));
  }
  return &part_->catalog();
}

WayBefore EarlierSteps::way_to(const CatalogRank& rank, const CatalogStep& step, const CatalogTensor& read) {
  WayBefore before;
  const Catalog* const catalog = comes_from_before(read) ? with_ops() : nullptr;
  if (catalog == nullptr) return before;
  const auto number = static_cast<std::size_t>(&rank - catalog_.ranks.data());
  const auto place = static_cast<std::size_t>(&step - rank.steps.data());
  const CatalogRank& own = catalog->ranks[number];
  const auto step_at = [&](std::size_t at) {
    if (part_) part_->read_ops(number, at);
    return &own.steps[at];
  };
  before.ops = earlier_ops(own, way_before(own, place, read, step_at));
  if (before.ops.empty()) before.missing = no_writer_text(rank, place, read);
  return before;
}

}  // namespace sonde
