// Snapshot: a dump as it was at one moment. A dump that changes gets a new one (served_dump.h); answers keep theirs. The
// snapshots of a dump that grows share its tables: while one is used, they are held (hold()).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "face/server/facts.h"
#include "ground/base/mutex.h"
#include "read/catalog/catalog.h"
#include "read/catalog/step_graph.h"
#include "read/index/index.h"
#include "read/index/sqlite.h"
#include "sonde/result.h"

namespace sonde::server {

// A step with all of its ops, and its data flow. Nothing of it changes.
class StepPart {
 public:
  using Load = std::function<Result<Catalog>()>;
  StepPart(Catalog catalog, std::size_t rank, std::size_t step, Load load)
      : catalog_(std::move(catalog)), rank_(rank), step_(step), load_(std::move(load)) {}

  const CatalogRank& rank() const { return catalog_.ranks[rank_]; }
  const CatalogStep& step() const { return rank().steps[step_]; }

  // Made when it is needed: a dump without data flow gets it from equal values, whose files must be read.
  const StepGraph& graph();
  // The index in step().ops of a node of graph(), and the node of an op; empty: it is a parameter.
  std::size_t op_of(std::uint32_t node) const { return op_of_node_[node]; }
  std::optional<std::uint32_t> node_of(std::size_t op) const;

 private:
  Catalog catalog_;
  std::size_t rank_, step_;
  Load load_;
  std::once_flag once_;
  std::optional<Catalog> measured_;  // what `graph_` points to, if values had to be read
  StepGraph graph_;
  std::vector<std::size_t> op_of_node_;
};

class Snapshot {
 public:
  // `is_recorded`: by a run that goes on, so that only what is new is read later, where that is possible.
  static Result<std::shared_ptr<Snapshot>> open(const std::filesystem::path& dump, std::uint64_t generation,
                                                const IndexProgress& progress, bool is_recorded = false);

  bool grows() const { return grows_; }
  // The tables do not grow meanwhile. A snapshot that is not the last one any more when it is held must not be used.
  std::shared_lock<std::shared_mutex> hold() const { return std::shared_lock(tables_->growth); }
  // Reads what is new. Null: nothing. Fails where the dump must be read anew. The tables are locked until `lock` is
  // released: the caller shows the new snapshot before.
  Result<std::shared_ptr<Snapshot>> grow(std::uint64_t generation, std::unique_lock<std::shared_mutex>& lock);
  // The same for the last time; null too if the dump must be read anew.
  std::shared_ptr<Snapshot> settle(std::uint64_t generation, std::unique_lock<std::shared_mutex>& lock);

  std::uint64_t generation() const { return generation_; }
  const Catalog& frame() const { return frame_; }  // ranks, runs and steps, without ops
  bool is_saved() const { return tables_->index.is_saved(); }
  std::string changed() const { return tables_->index.changed(); }  // as Index::changed

  struct Content {
    bool values = false, statistics = false;  // some tensor has a file, or statistics
  };
  const Content& content();  // looked up once

  // The class of every tensor and op; read once.
  Result<std::shared_ptr<const Facts>> facts();
  // Made again after a job judged infinities or measured tensors.
  void judge(std::shared_ptr<const Judgement> judgement);
  std::shared_ptr<const Judgement> judgement() const;
  std::uint64_t judged() const { return judged_; }  // how often

  // The rows of the last queries (rows.h); null: not kept, or of other facts.
  std::shared_ptr<const std::vector<std::uint32_t>> kept_rows(const std::string& key, const Facts& facts);
  void keep_rows(const std::string& key, const Facts& facts, std::shared_ptr<const std::vector<std::uint32_t>> rows);

  // The program's files by the number that an op has (OpFact::source_file).
  Result<std::map<std::uint32_t, std::string>> source_files();

  // The step with its ops. `rank` and `step`: indices in frame(). The last few are kept.
  Result<std::shared_ptr<StepPart>> step(std::size_t rank, std::size_t step);

  // The same, for a caller that changes it.
  Result<Catalog> load_step(std::size_t rank, std::size_t step);

  // Calls `ask` with the tables of the index; one caller at a time.
  template <typename Ask>
  auto with_database(const Ask& ask) {
    const Lock lock(tables_->mutex);
    return ask(tables_->index.database());
  }

 private:
  struct Tables {
    explicit Tables(Index of) : index(std::move(of)) {}
    Index index;
    Mutex mutex;               // one question at a time
    std::shared_mutex growth;  // held by questions, locked while the tables grow
  };
  static Result<std::shared_ptr<Snapshot>> of(std::shared_ptr<Tables> tables, std::uint64_t generation);
  // Both mutexes are held.
  Result<std::shared_ptr<Snapshot>> next(std::uint64_t generation) REQUIRES(facts_mutex_);
  Snapshot(std::shared_ptr<Tables> tables, Catalog frame, std::uint64_t generation)
      : tables_(std::move(tables)),
        frame_(std::move(frame)),
        generation_(generation),
        grows_(tables_->index.grows()),
        ops_over_(tables_->index.ops_over()) {}

  std::shared_ptr<Tables> tables_;
  std::once_flag content_once_;
  Content content_;
  Catalog frame_;
  std::uint64_t generation_;
  bool grows_;
  std::uint64_t ops_over_;                // those with smaller ids are in the next snapshot too
  std::shared_ptr<const Facts> earlier_;  // of a snapshot before, and the ops that are the same
  std::uint64_t earlier_ops_ = 0;
  bool knows_content_ = false;      // under the tables' mutex
  std::uint64_t content_from_ = 0;  // the ops before were looked at
  struct KeptRows {
    std::string key;
    std::weak_ptr<const Facts> facts;
    std::shared_ptr<const std::vector<std::uint32_t>> rows;
  };
  Mutex rows_mutex_;
  std::list<KeptRows> rows_ GUARDED_BY(rows_mutex_);  // newest first
  Mutex steps_mutex_;
  using KeptStep = std::pair<std::pair<std::size_t, std::size_t>, std::shared_ptr<StepPart>>;
  std::list<KeptStep> steps_ GUARDED_BY(steps_mutex_);  // newest first
  mutable Mutex facts_mutex_;
  std::shared_ptr<const Facts> facts_ GUARDED_BY(facts_mutex_);
  std::atomic<std::uint64_t> judged_ = 0;
  std::shared_ptr<const Judgement> judgement_ GUARDED_BY(facts_mutex_) = std::make_shared<Judgement>();
};

}  // namespace sonde::server
