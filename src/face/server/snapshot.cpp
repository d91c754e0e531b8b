#include "face/server/snapshot.h"

#include <algorithm>

#include "read/measure/find_flow.h"

namespace sonde::server {
namespace {

constexpr std::size_t kStepsKept = 4;
constexpr std::size_t kQueriesKept = 4;

}  // namespace

const StepGraph& StepPart::graph() {
  std::call_once(once_, [this] {
    Catalog* of = &catalog_;
    if (!rank().has_journal && !rank().has_host_data_flow) {
      if (Result<Catalog> loaded = load_()) of = &measured_.emplace(std::move(*loaded));
      if (measured_) find_flow(of->ranks[rank_], of->ranks[rank_].steps[step_]);
    }
    const CatalogStep& with_flow = of->ranks[rank_].steps[step_];
    graph_ = graph_of(of->ranks[rank_], with_flow);
    for (const CatalogOp* op : graph_.ops) op_of_node_.push_back(static_cast<std::size_t>(op - with_flow.ops.data()));
  });
  return graph_;
}

std::optional<std::uint32_t> StepPart::node_of(std::size_t op) const {
  const auto found = std::ranges::lower_bound(op_of_node_, op);  // nodes are in the order of the ops
  if (found == op_of_node_.end() || *found != op) return std::nullopt;
  return static_cast<std::uint32_t>(found - op_of_node_.begin());
}

Result<std::shared_ptr<Snapshot>> Snapshot::open(const std::filesystem::path& dump, std::uint64_t generation,
                                                 const IndexProgress& progress, bool is_recorded) {
  if (is_recorded) {
    if (Result<Index> growing = Index::open_growing(dump, progress)) {
      return of(std::make_shared<Tables>(std::move(*growing)), generation);
    }
  }
  Result<Index> index = Index::open_or_make(dump, progress);
  if (!index) return index.error();
  return of(std::make_shared<Tables>(std::move(*index)), generation);
}

Result<std::shared_ptr<Snapshot>> Snapshot::of(std::shared_ptr<Tables> tables, std::uint64_t generation) {
  CatalogQuery query;
  query.with_ops = false;
  Result<Catalog> frame = tables->index.load(query);
  if (!frame) return frame.error();
  return std::shared_ptr<Snapshot>(new Snapshot(std::move(tables), std::move(*frame), generation));
}

Result<std::shared_ptr<Snapshot>> Snapshot::grow(std::uint64_t generation, std::unique_lock<std::shared_mutex>& lock) {
  lock = std::unique_lock(tables_->growth);
  const Lock facts(facts_mutex_);  // in the order in which a question takes both
  const Lock tables(tables_->mutex);
  const Result<bool> grown = tables_->index.grow();
  if (!grown) return grown.error();
  if (!*grown) return std::shared_ptr<Snapshot>();
  return next(generation);
}

std::shared_ptr<Snapshot> Snapshot::settle(std::uint64_t generation, std::unique_lock<std::shared_mutex>& lock) {
  lock = std::unique_lock(tables_->growth);
  const Lock facts(facts_mutex_);  // in the order in which a question takes both
  const Lock tables(tables_->mutex);
  if (!tables_->index.settle()) return nullptr;
  Result<std::shared_ptr<Snapshot>> last = next(generation);
  return last ? std::move(*last) : nullptr;
}

Result<std::shared_ptr<Snapshot>> Snapshot::next(std::uint64_t generation) {
  Result<std::shared_ptr<Snapshot>> made = of(tables_, generation);
  if (!made) return made;
  Snapshot& next = **made;
  const Lock lock(next.facts_mutex_);  // nobody else has it yet
  next.earlier_ = facts_ ? facts_ : earlier_;
  next.earlier_ops_ = facts_ ? ops_over_ : earlier_ops_;
  next.content_ = content_;
  next.content_from_ = knows_content_ ? ops_over_ : content_from_;
  auto judgement = std::make_shared<Judgement>(*judgement_);
  std::erase_if(judgement->measured, [&](const auto& tensor) { return tensor.first >= tensor_key(ops_over_, 0); });
  next.judgement_ = std::move(judgement);
  next.judged_ = judged_.load();
  return made;
}

const Snapshot::Content& Snapshot::content() {
  std::call_once(content_once_, [this] {
    with_database([this](Database& database) {
      const auto any = [&](const char* sql) {
        Result<Statement> row = database.prepare(sql);
        if (row) row->set(0, content_from_);
        return row && row->next();
      };
      content_.values |= any("SELECT 1 FROM tensors WHERE op_id>=? AND directory IS NOT NULL LIMIT 1");
      content_.statistics |= any("SELECT 1 FROM tensors WHERE op_id>=? AND max IS NOT NULL LIMIT 1");
      knows_content_ = true;
    });
  });
  return content_;
}

Result<std::shared_ptr<const Facts>> Snapshot::facts() {
  const Lock lock(facts_mutex_);
  if (facts_) return facts_;
  const Judgement& judgement = *judgement_;
  Result<std::shared_ptr<const Facts>> read = with_database(
      [&](Database& database) { return Facts::read(database, frame_, judgement, earlier_.get(), earlier_ops_); });
  if (read) facts_ = *read;
  earlier_.reset();
  return read;
}

void Snapshot::judge(std::shared_ptr<const Judgement> judgement) {
  const Lock lock(facts_mutex_);
  const bool is_measured = judgement->measured.size() != judgement_->measured.size();
  judgement_ = std::move(judgement);
  ++judged_;
  // Only infinities are judged: of a dump without any the facts hold.
  if (!is_measured && facts_ && !facts_->has_infinities()) return;
  facts_.reset();
  earlier_.reset();
  const Lock rows_lock(rows_mutex_);
  rows_.clear();
}

std::shared_ptr<const Judgement> Snapshot::judgement() const {
  const Lock lock(facts_mutex_);
  return judgement_;
}

std::shared_ptr<const std::vector<std::uint32_t>> Snapshot::kept_rows(const std::string& key, const Facts& facts) {
  const Lock lock(rows_mutex_);
  const auto found = std::ranges::find_if(
      rows_, [&](const KeptRows& kept) { return kept.key == key && kept.facts.lock().get() == &facts; });
  return found == rows_.end() ? nullptr : found->rows;
}

void Snapshot::keep_rows(const std::string& key, const Facts& facts,
                         std::shared_ptr<const std::vector<std::uint32_t>> rows) {
  const Lock lock(rows_mutex_);
  std::erase_if(rows_, [&](const KeptRows& kept) { return kept.facts.lock().get() != &facts || kept.key == key; });
  rows_.push_front({key, facts.weak_from_this(), std::move(rows)});
  if (rows_.size() > kQueriesKept) rows_.pop_back();
}

Result<std::map<std::uint32_t, std::string>> Snapshot::source_files() {
  std::map<std::uint32_t, std::string> files;
  const Status read = with_database([&](Database& database) -> Status {
    Result<Statement> row =
        database.prepare("SELECT DISTINCT source_file, text FROM ops JOIN texts ON texts.id=source_file");
    if (!row) return row.error();
    while (row->next()) files.emplace(static_cast<std::uint32_t>(row->number(0) + 1), row->text(1));
    return row->failed() ? Status(database.error("cannot read it")) : Status();
  });
  if (!read) return read.error();
  return files;
}

Result<Catalog> Snapshot::load_step(std::size_t rank, std::size_t step) {
  const StepId id = frame_.ranks.at(rank).steps.at(step).id;
  CatalogQuery query;
  query.rank = frame_.ranks[rank].rank;
  query.graph = id.graph;
  query.steps = [number = id.number](std::uint64_t asked) { return asked == number; };
  const Lock lock(tables_->mutex);
  return tables_->index.load(query);
}

Result<std::shared_ptr<StepPart>> Snapshot::step(std::size_t rank, std::size_t step) {
  const Lock lock(steps_mutex_);
  const std::pair<std::size_t, std::size_t> place = {rank, step};
  const auto kept = std::ranges::find_if(steps_, [&](const auto& entry) { return entry.first == place; });
  if (kept != steps_.end()) {
    steps_.splice(steps_.begin(), steps_, kept);
    return steps_.front().second;
  }
  Result<Catalog> catalog = load_step(rank, step);
  if (!catalog) return catalog.error();
  const StepPart::Load again = [this, rank, step] { return load_step(rank, step); };
  steps_.emplace_front(place, std::make_shared<StepPart>(std::move(*catalog), rank, step, again));
  if (steps_.size() > kStepsKept) steps_.pop_back();
  return steps_.front().second;
}

}  // namespace sonde::server
