#include "read/index/partial_catalog.h"

#include <utility>

#include "read/catalog/replicas.h"

namespace sonde {
namespace {

constexpr std::size_t kMostOpened = 64;  // indices of ranks: each takes a descriptor and some memory

}  // namespace

PartialCatalog::PartialCatalog(std::unique_ptr<Index> index, std::unique_ptr<RankIndices> ranks, Catalog catalog)
    : index_(std::move(index)),
      ranks_(std::move(ranks)),
      catalog_(std::make_unique<Catalog>(std::move(catalog))),
      owners_(std::make_shared<std::multimap<std::size_t, std::shared_ptr<const void>>>()),
      steps_(catalog_->ranks.size()) {
  catalog_->owner = owners_;
}

Result<PartialCatalog> PartialCatalog::open(const std::filesystem::path& dump) {
  CatalogQuery query;
  query.with_ops = false;
  Result<Index> index = Index::open(dump);
  if (!index) {
    Result<RankIndices> ranks = RankIndices::open(dump);
    return ranks ? of_ranks(std::move(ranks)) : index.error();
  }
  Result<Catalog> catalog = index->load(query);
  if (!catalog) return catalog.error();
  PartialCatalog partial(std::make_unique<Index>(std::move(*index)), nullptr, std::move(*catalog));
  Database& database = partial.index_->database();
  if (Status found = partial.find_steps(database, 0, partial.steps_.size()); !found) return found.error();
  if (Status ready = partial.open_rows(database, 0, partial.opened_[0]); !ready) return ready.error();
  return partial;
}

Result<PartialCatalog> PartialCatalog::open_rank(const std::filesystem::path& root, const JournalPlace& place) {
  return of_ranks(RankIndices::open_rank(root, place));
}

Result<PartialCatalog> PartialCatalog::of_ranks(Result<RankIndices> ranks) {
  if (!ranks) return ranks.error();
  CatalogQuery query;
  query.with_ops = false;
  Result<Catalog> catalog = ranks->load(query);
  if (!catalog) return catalog.error();
  return PartialCatalog(nullptr, std::make_unique<RankIndices>(std::move(*ranks)), std::move(*catalog));
}

// The steps of a rank are in the order of their ids.
Status PartialCatalog::find_steps(Database& database, std::size_t first_rank, std::size_t ranks) {
  Result<Statement> rows = database.prepare("SELECT rank_id, first_op, end_op FROM steps ORDER BY id");
  if (!rows) return rows.error();
  while (rows->next()) {
    const std::uint64_t rank = rows->number(0);
    if (rank < ranks) steps_[first_rank + rank].push_back({rows->integer(1), rows->integer(2)});
  }
  if (rows->failed()) return database.error("cannot read it");
  for (std::size_t rank = first_rank; rank < first_rank + ranks; ++rank) {
    steps_[rank].resize(catalog_->ranks[rank].steps.size());
  }
  return {};
}

Status PartialCatalog::open_rows(Database& database, std::size_t rank, Rows& opened) {
  opened.rows = std::make_unique<IndexRows>(database, *catalog_->texts);
  owners_->emplace(rank, opened.rows->owner());
  return opened.rows->prepare();
}

// Its ops stay: they have their texts in the catalog.
void PartialCatalog::close_ranks() {
  for (const auto& [rank, opened] : opened_) {
    if (Status read = opened.rows->check(); !read) failure_ = read;
  }
  opened_.clear();
}

// Null, with failure_ set, if that is not possible.
IndexRows* PartialCatalog::rows_of(std::size_t rank) {
  if (index_) return opened_[0].rows.get();
  if (const auto found = opened_.find(rank); found != opened_.end()) return found->second.rows.get();
  Result<Database> database = ranks_->open_rank_index(rank);
  if (!database) {
    failure_ = database.error();
    return nullptr;
  }
  if (opened_.size() >= kMostOpened) close_ranks();
  Rows opened;
  opened.own = std::make_unique<Database>(std::move(*database));
  Status ready = steps_[rank].empty() ? find_steps(*opened.own, rank, 1) : Status();
  if (ready) ready = open_rows(*opened.own, rank, opened);
  if (!ready) {
    failure_ = ready;
    return nullptr;
  }
  return opened_.emplace(rank, std::move(opened)).first->second.rows.get();
}

void PartialCatalog::read_ops(std::size_t rank, std::size_t step) {
  if (!steps_[rank].empty() && steps_[rank][step].is_read) return;
  IndexRows* const found = rows_of(rank);
  if (found == nullptr) return;
  StepRows& rows = steps_[rank][step];
  rows.is_read = true;
  std::vector<CatalogOp>& ops = catalog_->ranks[rank].steps[step].ops;
  found->read_ops(rows.first_op, rows.end_op, ops);
  find_replicas(catalog_->ranks[rank].directory, ops, *catalog_->texts);
}

void PartialCatalog::release(std::size_t rank) {
  std::vector<CatalogStep>& steps = catalog_->ranks[rank].steps;
  for (std::size_t step = 0; step < steps_[rank].size(); ++step) {
    steps[step].ops = {};
    steps_[rank][step].is_read = false;
  }
  if (index_) return;
  if (const auto found = opened_.find(rank); found != opened_.end()) {
    if (Status read = found->second.rows->check(); !read) failure_ = read;
    opened_.erase(found);
  }
  owners_->erase(rank);
}

void PartialCatalog::each_output(std::size_t rank, std::size_t step,
                                 const std::function<void(const OutputSize&)>& take) {
  IndexRows* const found = rows_of(rank);
  if (found != nullptr) found->each_output(steps_[rank][step].first_op, steps_[rank][step].end_op, take);
}

Result<Catalog> PartialCatalog::load_rank(std::size_t rank, const CatalogQuery& query) {
  if (rows_of(rank) == nullptr) return failure_.error();
  return ranks_->load_rank(rank, *opened_.at(rank).own, query);
}

Result<Catalog> PartialCatalog::with_makers(std::size_t rank,
                                            const std::function<bool(std::string_view op_type)>& accepts) {
  CatalogQuery query;
  query.rank = catalog_->ranks[rank].rank;
  query.ops = [&accepts](std::string_view, std::string_view op_type) { return accepts(op_type); };
  query.with_makers = true;
  Result<Catalog> catalog = index_ ? index_->load(query) : load_rank(rank, query);
  if (!catalog) {
    failure_ = catalog.error();
  } else if (ranks_) {  // it has its place among others
    std::vector<CatalogRank> ranks(rank + 1);
    ranks[rank] = std::move(catalog->ranks[0]);
    catalog->ranks = std::move(ranks);
  }
  return catalog;
}

Status PartialCatalog::check() const {
  for (const auto& [rank, opened] : opened_) {
    if (Status read = opened.rows->check(); !read) return read;
  }
  return failure_;
}

}  // namespace sonde
