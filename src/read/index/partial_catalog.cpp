#include "read/index/partial_catalog.h"

#include <utility>

namespace sonde {

PartialCatalog::PartialCatalog(Index index, Catalog catalog)
    : index_(std::make_unique<Index>(std::move(index))),
      catalog_(std::make_unique<Catalog>(std::move(catalog))),
      rows_(std::make_unique<IndexRows>(index_->database(), *catalog_->texts)) {
  catalog_->owner = rows_->owner();
}

Result<PartialCatalog> PartialCatalog::open(const std::filesystem::path& dump) {
  Result<Index> index = Index::open(dump);
  if (!index) return index.error();
  CatalogQuery query;
  query.with_ops = false;
  Result<Catalog> catalog = index->load(query);
  if (!catalog) return catalog.error();
  PartialCatalog partial(std::move(*index), std::move(*catalog));
  if (Status found = partial.find_rows(); !found) return found.error();
  if (Status ready = partial.rows_->prepare(); !ready) return ready.error();
  return partial;
}

// The steps of a rank are in the order of their ids.
Status PartialCatalog::find_rows() {
  steps_.resize(catalog_->ranks.size());
  Result<Statement> rows = index_->database().prepare("SELECT rank_id, first_op, end_op FROM steps ORDER BY id");
  if (!rows) return rows.error();
  while (rows->next()) {
    const std::uint64_t rank = rows->number(0);
    if (rank < steps_.size()) steps_[rank].push_back({rows->integer(1), rows->integer(2)});
  }
  if (rows->failed()) return index_->database().error("cannot read it");
  for (std::size_t rank = 0; rank < steps_.size(); ++rank) steps_[rank].resize(catalog_->ranks[rank].steps.size());
  return {};
}

void PartialCatalog::read_ops(std::size_t rank, std::size_t step) {
  StepRows& rows = steps_[rank][step];
  if (std::exchange(rows.is_read, true)) return;
  rows_->read_ops(rows.first_op, rows.end_op, catalog_->ranks[rank].steps[step].ops);
}

void PartialCatalog::each_output(std::size_t rank, std::size_t step,
                                 const std::function<void(const OutputSize&)>& take) {
  rows_->each_output(steps_[rank][step].first_op, steps_[rank][step].end_op, take);
}

Result<Catalog> PartialCatalog::with_makers(std::size_t rank,
                                            const std::function<bool(std::string_view op_type)>& accepts) {
  CatalogQuery query;
  query.rank = catalog_->ranks[rank].rank;
  query.ops = [&accepts](std::string_view, std::string_view op_type) { return accepts(op_type); };
  query.with_neighbours = true;
  Result<Catalog> catalog = index_->load(query);
  if (!catalog) failure_ = catalog.error();
  return catalog;
}

Status PartialCatalog::check() const { return failure_ ? rows_->check() : failure_; }

}  // namespace sonde
