#include "face/server/served_dump.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "dump/journal/live_run.h"
#include "dump/layout/side_names.h"
#include "face/report/catalog_text.h"
#include "ground/contract/read_json.h"
#include "ground/files/brought_files.h"
#include "read/catalog/growing_rank.h"

namespace sonde::server {
namespace {

constexpr std::chrono::milliseconds kLook(500);
constexpr int kShareOfTime = 9;  // rests nine times as long as it read
constexpr int kFollowNice = 10;  // a training may run beside it

bool is_recorded(const Catalog& journals) {
  return std::ranges::any_of(journals.ranks, [](const CatalogRank& rank) {
    return rank.has_journal && is_recording(own_directory_in(rank.metadata));
  });
}

// How the last run of each rank ended, as far as the dump says.
LastEnd end_in(const Catalog& frame) {
  LastEnd end = LastEnd::unknown;
  for (const CatalogRank& rank : frame.ranks) {
    if (!rank.has_journal || rank.runs.empty()) continue;
    const CatalogRun& last = rank.runs.back();
    end = std::max(end, end_of_run(last.finished, !failure_of(last).empty()));
  }
  return end;
}

// The infinities that first-bad named: those of its findings, of whatever rank, and of the path to the loss matter, the
// others are placed and absorbed.
Judgement judgement_of(const FirstBad& first_bad) {
  Judgement judgement;
  const auto take = [&](const FindingTensor& tensor, const auto& place, const std::string& steps, State state) {
    judgement
        .infinities[{rank_text(place.rank, place.dump), place.graph, tensor.op_name, tensor.side == Side::input,
                     tensor.slot}]
        .push_back({StepSet::parse(steps), state});
  };
  for (const HealthyInfinity& healthy : first_bad.healthy) {
    for (const HealthyPlace& place : healthy.places) take(healthy.tensor, place, place.steps, State::healthy_infinity);
  }
  for (const auto* findings : {&first_bad.findings, &first_bad.by_rank}) {
    for (const sonde::Finding& finding : *findings) {
      take(finding.tensor, finding, std::to_string(finding.step), State::infinity);
    }
  }
  for (std::size_t i = 0; i < first_bad.path.size() && !first_bad.findings.empty(); ++i) {
    sonde::Finding place = first_bad.findings.front();
    if (first_bad.goes_on && i >= first_bad.goes_on->first) {
      place.graph = first_bad.goes_on->graph;
      place.step = first_bad.goes_on->step;
    }
    FindingTensor made;
    made.op_name = first_bad.path[i];
    made.side = Side::output;
    take(made, place, std::to_string(place.step), State::infinity);
  }
  return judgement;
}

}  // namespace

void ServedDump::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { follow(stop); });
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Status ServedDump::read_once() {
  if (read()) return {};
  return Error{ErrorCode::io, error()};
}

std::shared_ptr<Snapshot> ServedDump::snapshot() const {
  const Lock lock(mutex_);
  return snapshot_;
}

std::string ServedDump::error() const {
  const Lock lock(mutex_);
  return error_;
}

ServedDump::Finding ServedDump::finding() const {
  const Lock lock(mutex_);
  return finding_;
}

void ServedDump::show(std::shared_ptr<Snapshot> next, std::uint64_t generation) {
  const Lock lock(mutex_);
  snapshot_ = std::move(next);
  generation_ = generation;
}

bool ServedDump::read() {
  const auto progress = [this](std::string_view work, std::uint64_t done, std::uint64_t all) {
    const Lock lock(mutex_);
    progress_ = {std::string(work), done, all};
  };
  std::uint64_t next = 0;
  {
    const Lock lock(mutex_);
    next = generation_ + 1;
    if (!snapshot_) progress_ = {.work = "looking at the files"};
  }
  const bool is_live = is_recorded(journals_of_dump(path_));
  Result<std::shared_ptr<Snapshot>> read = Snapshot::open(path_, next, progress, is_live);
  const Lock lock(mutex_);
  progress_.reset();
  error_ = read ? "" : read.error().message;
  if (!read) return false;
  if (snapshot_) {  // what was judged by name still holds; numbers of tensors
                    // are other ones now
    auto judgement = std::make_shared<Judgement>(*snapshot_->judgement());
    judgement->measured.clear();
    (*read)->judge(std::move(judgement));
  }
  snapshot_ = std::move(*read);
  generation_ = next;
  if (!watched_) end_ = is_live ? LastEnd::live : end_in(snapshot_->frame());
  return true;
}

// Of a run that goes on, only what is new is read. False: nothing changed.
bool ServedDump::grow(Snapshot& shown) {
  std::unique_lock<std::shared_mutex> tables;
  const std::uint64_t next = shown.generation() + 1;
  if (!is_recorded(shown.frame())) {
    std::shared_ptr<Snapshot> last = shown.settle(next, tables);
    if (!last) {
      if (tables) tables.unlock();
      return read();
    }
    show(std::move(last), next);
    return true;
  }
  Result<std::shared_ptr<Snapshot>> grown = shown.grow(next, tables);
  if (grown && !*grown) return false;
  if (grown) {
    show(std::move(*grown), next);
    return true;
  }
  tables.unlock();
  return read();
}

bool ServedDump::read_what_changed(std::string& refused) {
  const std::shared_ptr<Snapshot> shown = snapshot();
  if (shown && shown->grows()) return grow(*shown);
  const std::string changed = shown ? shown->changed() : "everything";
  const bool is_tried = shown && changed == refused;
  refused.clear();
  if (changed.empty()) return false;
  if (!is_tried && read()) return true;
  refused = changed;
  if (!is_tried) events_.add("failed", {{"dump", number_}, {"error", error()}});
  return false;
}

void ServedDump::follow(const std::stop_token& stop) {
  ::setpriority(PRIO_PROCESS, 0,
                kFollowNice);  // of this thread, and of those that it starts
  std::string refused;         // the state of the files that could not be read
  while (!stop.stop_requested()) {
    const auto began = Clock::now();
    const bool is_first = !snapshot();
    std::uint64_t ends = 0;
    {
      const Lock lock(mutex_);
      ends = ends_;
    }
    if (read_what_changed(refused)) {
      events_.add("grown", {{"dump", number_}, {"generation", snapshot()->generation()}});
    }
    const Lock lock(mutex_);
    ++looks_;
    if (!is_first) looking_ += Clock::now() - began;
    const auto rest = std::max<Clock::duration>(kLook, kShareOfTime * (Clock::now() - began));
    // A run that ended may have left more: that is read at once.
    woken_.wait_for(mutex_, stop, rest, [&]() REQUIRES(mutex_) { return ends_ != ends; });
  }
}

// With ordinary priority: what it does is little, and must not wait while all
// cores are busy.
void ServedDump::watch(const std::stop_token& stop) {
  NanWatch nans;
  bool was_live = false;
  while (!stop.stop_requested()) {
    const auto began = Clock::now();
    const std::shared_ptr<Snapshot> shown = snapshot();
    const Catalog journals = shown ? Catalog() : journals_of_dump(path_);
    const Catalog& frame = shown ? shown->frame() : journals;
    const bool is_live = is_recorded(frame);
    std::optional<FirstNan> found;
    if (is_live || was_live) found = nans.look(frame);  // once more after its end
    if (found) found->dump = number_;
    const LastEnd watched_end = is_live || !was_live ? LastEnd::live : nans.end();
    LastEnd end = LastEnd::unknown;
    bool is_new = false;
    {
      const Lock lock(mutex_);
      end = is_live || was_live ? watched_end : shown && !watched_ ? end_in(shown->frame()) : end_;
      is_new = found && !first_nan_;
      if (is_new) first_nan_ = found;
      end_ = end;
      watched_ |= is_live;
      if (was_live && !is_live) ++ends_;
      looking_ += Clock::now() - began;
    }
    if (is_new) events_.add("nan", json_of(*found));
    if (was_live && !is_live) {
      events_.add("ended", {{"dump", number_}, {"ended", word_of(end)}});
      woken_.notify_all();
    }
    was_live = is_live;
    // A look takes as long as what was appended needs: a small part of the time
    // in which it was written.
    const Lock lock(mutex_);
    woken_.wait_for(mutex_, stop, kLook, [] { return false; });
  }
}

DumpStatus ServedDump::status() const {
  DumpStatus status;
  const std::shared_ptr<Snapshot> shown = snapshot();
  if (shown) {
    for (const CatalogRank& rank : shown->frame().ranks) {
      status.has_data_flow |= rank.has_journal || rank.has_host_data_flow;
    }
    status.has_values = shown->content().values;
    status.has_statistics = shown->content().statistics;
  }
  const Lock lock(mutex_);
  status.dump = number_;
  status.role = number_ == 0 ? DumpRole::target : DumpRole::golden;
  status.name = (path_.has_filename() ? path_ : path_.parent_path()).filename().string();
  status.path = with_source_names(path_.string());
  status.error = error_;
  status.progress = progress_;
  status.generation = generation_;
  status.ended = end_;
  status.first_nan = first_nan_;
  status.looks = looks_;
  status.looking_seconds = std::chrono::duration<double>(looking_).count();
  if (!snapshot_) {
    status.state = error_.empty() ? DumpState::indexing : DumpState::failed;
    return status;
  }
  status.state = end_ == LastEnd::live ? DumpState::live : DumpState::ready;
  status.index = snapshot_->is_saved() ? IndexPlace::saved : IndexPlace::memory;
  return status;
}

void ServedDump::judge(const Json& document, std::uint64_t generation) {
  Result<Read<FirstBad>> first_bad = read_json<FirstBad>(document);
  if (!first_bad) return;  // a job is this program, whose document has these members
  auto judgement = std::make_shared<Judgement>(judgement_of(first_bad->answer));
  const Lock lock(mutex_);
  finding_ = {std::move(first_bad->answer), generation};
  if (!snapshot_) return;
  judgement->measured = snapshot_->judgement()->measured;
  snapshot_->judge(std::move(judgement));
}

void ServedDump::add_measured(const Snapshot& of, std::unordered_map<std::uint64_t, KnownStatistics> measured) {
  const Lock lock(mutex_);
  if (snapshot_.get() != &of) return;
  auto judgement = std::make_shared<Judgement>(*snapshot_->judgement());
  judgement->measured.merge(measured);
  snapshot_->judge(std::move(judgement));
}

}  // namespace sonde::server
