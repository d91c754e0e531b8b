#include "read/index/index.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <thread>

#include "dump/layout/side_names.h"
#include "ground/base/clock.h"
#include "ground/files/brought_files.h"
#include "ground/files/files.h"
#include "read/catalog/read_progress.h"
#include "read/catalog/replicas.h"
#include "read/index/growing_index.h"
#include "read/index/index_file.h"
#include "read/index/index_reader.h"
#include "read/index/index_writer.h"
#include "read/index/rank_indices.h"
#include "read/index/sealed_file.h"
#include "read/index/sqlite.h"
#include "read/index/tree_snapshot.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Opening a dump that takes longer saves an index; measured in benchmarks/README.md, "A million files".
constexpr double kSlowSeconds = 0.5;
// A dump that has been unchanged for less time counts as still being written: a change within the same tick of the file
// system's clock would not show. The time is longer if the dump was not watched while it was read, since that clock may
// be another machine's, and longest if a run has not closed the dump.
constexpr std::int64_t kRestUs = 2'000'000;
constexpr std::int64_t kRestUnwatchedUs = 10'000'000;
constexpr std::int64_t kRestUnfinishedUs = 60'000'000;

double seconds_since(Clock::time_point began) { return std::chrono::duration<double>(Clock::now() - began).count(); }

Result<fs::path> real_path(const fs::path& dump) {
  std::error_code error;
  fs::path real = fs::canonical(dump, error);
  if (!error) return real;
  const bool is_missing = error == std::errc::no_such_file_or_directory;
  return Error{is_missing ? ErrorCode::not_found : ErrorCode::io,
               "cannot open dump '" + dump.string() + "': " + error.message()};
}

bool is_below(const fs::path& path, const fs::path& root) {
  const auto [at, ignored] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return at == root.end();
}

// The paths outside of its directory that a catalog may have read, or searched for.
std::vector<fs::path> places_outside(const Catalog& catalog, const fs::path& root) {
  std::vector<fs::path> places;
  const auto add = [&](const fs::path& place) {
    if (!is_below(place, root)) places.push_back(place);
  };
  for (const CatalogRank& rank : catalog.ranks) {
    for (const fs::path& place : {rank.directory, rank.metadata}) {
      add(place / kGraphsDirectory);
      add(place / kOrderDirectory);
    }
    if (rank.has_journal) add(own_directory_in(rank.metadata));
    fs::path above = rank.directory;
    for (int level = 0; level < 4 && above.has_relative_path(); ++level, above = above.parent_path()) {
      add(above / kMetadataDirectory);
    }
  }
  for (fs::path above = root.parent_path(); above.has_relative_path(); above = above.parent_path()) {
    add(above / kMetadataDirectory);
  }
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

auto shown(const IndexProgress& progress, std::string_view work) {
  return [&progress, work](std::uint64_t done, std::uint64_t all) {
    if (progress) progress(work, done, all);
  };
}

bool is_unfinished(const Catalog& catalog) {
  return std::ranges::any_of(catalog.ranks, [](const CatalogRank& rank) {
    return std::ranges::any_of(rank.runs, [](const CatalogRun& run) { return !run.finished; });
  });
}

// The time from the last change of the dump to `at_us`, in microseconds; negative when it was changed later.
std::int64_t rest_us(const TreeSnapshot& snapshot, std::uint64_t at_us) {
  return static_cast<std::int64_t>(at_us) - snapshot.newest_mtime_ns / 1000;
}

Error still_written(const fs::path& dump) {
  return Error{ErrorCode::busy, "'" + dump.string() + "' is still being written; an index of it would be out of date"};
}

bool has_lost_its_dump(const fs::path& index) {
  std::error_code error;
  Result<Database> database = Database::open(index);
  if (!database) return false;
  Result<Statement> row = database->prepare("SELECT value FROM meta WHERE key='dump'");
  return row && row->next() && !fs::exists(std::string(row->text(0)), error) && !error;
}

// The ranks of a dump go together, so one of them shows it; a file that a killed builder left does not.
bool have_lost_their_dump(const fs::path& ranks) {
  std::error_code error;
  for (fs::directory_iterator at(ranks, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".sqlite") return has_lost_its_dump(at->path());
  }
  return false;
}

// Removes files that killed builders left behind.
void remove_left(const fs::path& directory) {
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const bool is_left = at->path().extension() == ".partial";
    if (is_left && now - at->last_write_time(ignored) > std::chrono::hours(24)) fs::remove(at->path(), ignored);
  }
}

// The same, and indexes of dumps that no longer exist.
void clean(const fs::path& directory) {
  remove_left(directory);
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const fs::path& file = at->path();
    if (file.extension() == ".sqlite") {
      if (has_lost_its_dump(file)) fs::remove(file, ignored);
    } else if (file.extension() == ".ranks") {
      if (have_lost_their_dump(file))
        fs::remove_all(file, ignored);
      else
        remove_left(file);
    }
  }
}

// Written under another name, then renamed: if two processes build at once, both succeed, and one index stays.
Status save(const Catalog& catalog, const fs::path& root, const TreeSnapshot& snapshot, const fs::path& file,
            const StepsWritten& written = {}) {
  if (Status status = make_directories(file.parent_path()); !status) return status;
  std::string aside = (file.parent_path() / (file.filename().string().substr(0, 200) + ".XXXXXX.partial")).string();
  const Fd made(::mkostemps(aside.data(), 8, O_CLOEXEC));
  if (!made) return io_error("make a file in", file.parent_path(), errno);
  Status status = write_index(catalog, root, snapshot, aside, written);
  if (!status) return status;
  if (::rename(aside.c_str(), file.c_str()) == 0) return {};
  const Error error = io_error("write", file, errno);
  std::error_code ignored;
  fs::remove(aside, ignored);
  return error;
}

// Called after a slow read. Errors are ignored: the catalog is there.
void save_if_at_rest(const Catalog& catalog, const fs::path& root, std::uint64_t began_us) {
  const fs::path file = index_file_of(root);
  if (file.empty() || is_brought(root)) return;  // it has the size of every file
  const Result<TreeSnapshot> snapshot = TreeSnapshot::take(root, places_outside(catalog, root));
  const std::int64_t rest = is_unfinished(catalog) ? kRestUnfinishedUs : kRestUnwatchedUs;
  if (!snapshot || rest_us(*snapshot, began_us) < rest) return;
  clean(file.parent_path());
  const Status ignored = save(catalog, root, *snapshot, file);
}

}  // namespace

bool indices_are_off() {
  const char* const value = std::getenv("SONDE_INDEX");
  return value != nullptr && std::string_view(value) == "off";
}

struct Index::State {
  std::optional<Database> own_database;
  fs::path dump;                     // as given
  fs::path root;                     // its real path
  std::vector<SourceState> sources;  // as they were; none while it grows
  bool is_saved = true;
  std::optional<GrowingIndex> growing = std::nullopt;

  Database& database() { return growing ? growing->database() : *own_database; }
};

Index::Index(std::unique_ptr<State> state) : state_(std::move(state)) {}
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;
Index::~Index() = default;

Result<Index> Index::open(const fs::path& dump, const fs::path& given_file) {
  const Result<fs::path> root = real_path(dump);
  if (!root) return root.error();
  const fs::path file = given_file.empty() ? index_file_of(*root) : given_file;
  if (file.empty()) return Error{ErrorCode::not_found, "there is no directory for indexes: HOME is not set"};
  Result<Database> database = Database::open_sealed(file);
  if (!database) return database.error();
  if (Status right = check_index(*database, file, *root); !right) return right.error();
  Result<std::vector<SourceState>> sources = read_sources(*database);
  if (!sources) return sources.error();
  if (const std::string changed = changed_source(*root, *sources); !changed.empty()) {
    return Error{ErrorCode::busy, "'" + file.string() + "' is out of date: " + changed};
  }
  return Index(std::make_unique<State>(State{std::move(*database), dump, *root, std::move(*sources)}));
}

Result<Index> Index::open_or_make(const fs::path& dump, const IndexProgress& progress) {
  const Result<fs::path> root = real_path(dump);
  if (!root) return root.error();
  // It is used for long: damage shows at once, and not when a page of it is read.
  if (!indices_are_off() && check_seal(index_file_of(*root))) {
    if (Result<Index> saved = open(dump)) return saved;
  }
  const auto began = Clock::now();
  const std::uint64_t began_us = now_us();
  // Before it is read: what changes meanwhile is seen as a change.
  Result<TreeSnapshot> before = TreeSnapshot::take(*root, {});
  if (!before) return before.error();
  const ReadProgress reading = shown(progress, "reading step");
  Result<Catalog> catalog = open_catalog(dump, reading);
  if (!catalog) return catalog.error();
  if (!indices_are_off() && seconds_since(began) >= kSlowSeconds) {
    save_if_at_rest(*catalog, *root, began_us);
    if (Result<Index> saved = open(dump)) return saved;
  }
  Result<Database> database = make_index(*catalog, *root, *before, shown(progress, "indexing step"));
  if (!database) return database.error();
  return Index(std::make_unique<State>(State{std::move(*database), dump, *root, std::move(before->sources), false}));
}

Result<Index> Index::open_growing(const fs::path& dump, const IndexProgress& progress) {
  const Result<fs::path> root = real_path(dump);
  if (!root) return root.error();
  Result<GrowingIndex> growing = GrowingIndex::open(dump, shown(progress, "reading the journal, MB"));
  if (!growing) return growing.error();
  return Index(std::make_unique<State>(State{std::nullopt, dump, *root, {}, false, std::move(*growing)}));
}

Result<bool> Index::grow() { return state_->growing->grow(); }
bool Index::grows() const { return state_->growing && state_->sources.empty(); }
std::uint64_t Index::ops_over() const { return state_->growing ? state_->growing->ops_over() : 0; }

bool Index::settle() {
  Result<TreeSnapshot> snapshot = TreeSnapshot::take(state_->root, {});
  if (!snapshot || !state_->growing->grow() || !state_->growing->has_finished()) return false;
  state_->sources = std::move(snapshot->sources);
  return true;
}

Database& Index::database() { return state_->database(); }
bool Index::is_saved() const { return state_->is_saved; }

std::string Index::changed() const { return changed_source(state_->root, state_->sources); }

Result<Catalog> Index::load(const CatalogQuery& query) {
  Result<Catalog> catalog = read_index(state_->database(), query);
  if (catalog) catalog->path = state_->dump;
  return catalog;
}

namespace {

// The dump, or the part of one, that an index is made of.
struct Subject {
  fs::path shown;     // in messages
  fs::path identity;  // which the index names
  fs::path root;      // whose files it depends on
  fs::path file;
  std::function<Result<Catalog>()> read;
};

std::uint64_t recorded_tensors(const Catalog& catalog) {
  std::uint64_t tensors = 0;
  for (const CatalogRank& rank : catalog.ranks) {
    for (const CatalogStep& step : rank.steps) {
      for (const CatalogOp& op : step.ops) {
        tensors += static_cast<std::uint64_t>(std::ranges::count_if(op.tensors, &CatalogTensor::recorded));
      }
    }
  }
  return tensors;
}

Result<IndexReport> build(const Subject& subject, const IndexProgress& progress) {
  IndexReport report;
  report.file = subject.file;
  if (report.file.empty()) {
    return Error{ErrorCode::not_found, "there is no directory for indexes: HOME is not set; give a file with --out"};
  }
  auto began = Clock::now();
  const std::uint64_t began_us = now_us();
  Result<Catalog> catalog = subject.read();
  if (!catalog) return catalog.error();
  report.read_seconds = seconds_since(began);
  const std::vector<fs::path> outside = places_outside(*catalog, subject.root);
  Result<TreeSnapshot> snapshot = TreeSnapshot::take(subject.root, outside);
  if (!snapshot) return snapshot.error();
  if (is_unfinished(*catalog) && rest_us(*snapshot, began_us) < kRestUnfinishedUs) return still_written(subject.shown);
  if (rest_us(*snapshot, began_us) < kRestUs) {  // it may have changed while it was read
    std::this_thread::sleep_for(
        std::chrono::microseconds(std::clamp(kRestUs - rest_us(*snapshot, now_us()), std::int64_t{0}, kRestUs)));
    const std::uint64_t again_us = now_us();
    catalog = subject.read();
    if (!catalog) return catalog.error();
    snapshot = TreeSnapshot::take(subject.root, outside);
    if (!snapshot) return snapshot.error();
    if (rest_us(*snapshot, again_us) < kRestUs) return still_written(subject.shown);
  }
  began = Clock::now();
  if (Status status = save(*catalog, subject.identity, *snapshot, report.file, shown(progress, "writing step"));
      !status)
    return status.error();
  report.write_seconds = seconds_since(began);
  report.files = snapshot->files;
  report.tensors = recorded_tensors(*catalog);
  std::error_code ignored;
  report.bytes = fs::file_size(report.file, ignored);
  return report;
}

}  // namespace

Result<IndexReport> build_index(const fs::path& dump, const fs::path& given_file, const IndexProgress& progress) {
  const ReadProgress reading = shown(progress, "reading step");
  const Result<fs::path> root = real_path(dump);
  if (!root) return root.error();
  const fs::path file = given_file.empty() ? index_file_of(*root) : given_file;
  if (given_file.empty() && !file.empty()) clean(file.parent_path());
  return build({dump, *root, *root, file, [&] { return open_catalog(*root, reading); }}, progress);
}

Result<IndexReport> build_rank_index(const RankToIndex& rank) {
  const JournalPlace& place = rank.place;
  return build({place.directory, place.metadata, place.directory, rank.file, [&] { return Result(open_rank(place)); }},
               {});
}

namespace {

Result<Catalog> open_without_notes(const fs::path& path, const CatalogQuery& query) {
  if (indices_are_off()) return open_catalog(path);
  if (Result<Index> index = Index::open(path)) {
    if (Result<Catalog> catalog = index->load(query)) return catalog;
  }
  if (Result<RankIndices> ranks = RankIndices::open(path)) {
    if (Result<Catalog> catalog = ranks->load(query)) return catalog;
  }
  const auto began = Clock::now();
  const std::uint64_t began_us = now_us();
  Result<Catalog> catalog = open_catalog(path);
  if (!catalog || seconds_since(began) < kSlowSeconds) return catalog;
  if (const Result<fs::path> root = real_path(path)) save_if_at_rest(*catalog, *root, began_us);
  return catalog;
}

}  // namespace

Result<Catalog> open_catalog(const fs::path& path, const CatalogQuery& query) {
  Result<Catalog> catalog = open_without_notes(path, query);
  // The copies that are missing now, and not when an index was made.
  if (catalog && query.with_values) note_missing_replicas(*catalog);
  return catalog;
}

}  // namespace sonde
