#include "server/served_dump.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>

#include "layout/side_names.h"
#include "report/catalog_text.h"
#include "writer/live_run.h"

namespace sonde::server {
namespace {

constexpr std::chrono::milliseconds kLook(500);
constexpr int kShareOfTime = 9;  // rests nine times as long as it read
constexpr int kFollowNice = 10;  // a training may run beside it

void rest(const std::stop_token& stop, std::chrono::steady_clock::duration time) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any woken;
  woken.wait_for(lock, stop, time, [] { return false; });
}

Json json_of(const FirstNan& nan, unsigned dump) {
  return {{"dump", dump},
          {"rank", rank_text(nan.rank, nan.dump)},
          {"graph", nan.step.graph},
          {"step", nan.step.number},
          {"op_name", nan.op_name},
          {"side", nan.is_input ? "input" : "output"},
          {"slot", nan.slot}};
}

// The infinities that first-bad named: those of its findings matter, the others are placed and absorbed.
Judgement judgement_of(const Json& first_bad) {
  Judgement judgement;
  const auto take = [&](const Json& tensor, const Json& place, const std::string& steps, State state) {
    const std::string rank = rank_text(place.at("rank").get<std::uint32_t>(), place.at("dump").get<std::string>());
    judgement
        .infinities[{rank, place.at("graph").get<std::uint32_t>(), tensor.at("op_name").get<std::string>(),
                     tensor.at("side") == "input", tensor.at("slot").get<std::uint32_t>()}]
        .push_back({StepSet::parse(steps), state});
  };
  for (const Json& healthy : first_bad.value("healthy", Json::array())) {
    for (const Json& place : healthy.at("places")) {
      take(healthy.at("tensor"), place, place.at("steps").get<std::string>(), State::healthy_infinity);
    }
  }
  for (const Json& finding : first_bad.value("findings", Json::array())) {
    take(finding.at("tensor"), finding, std::to_string(finding.at("step").get<std::uint64_t>()), State::infinity);
  }
  return judgement;
}

}  // namespace

void ServedDump::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { follow(stop); });
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

std::shared_ptr<Snapshot> ServedDump::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

std::string ServedDump::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

Json ServedDump::finding() const {
  const std::lock_guard lock(mutex_);
  return finding_;
}

std::string ServedDump::look_at_end() const {
  const std::shared_ptr<Snapshot> shown = snapshot();
  if (!shown) return "unknown";
  std::string end = "unknown";
  for (const CatalogRank& rank : shown->frame().ranks) {
    if (!rank.has_journal || rank.runs.empty()) continue;
    if (is_recording(own_directory_in(rank.metadata))) return "live";
    const CatalogRun& run = rank.runs.back();
    const bool has_failed = !failure_of(run).empty();
    if (!run.finished && !has_failed) end = "killed";
    if (end == "killed") continue;
    if (has_failed) end = "stopped";
    if (end == "unknown") end = "finished";
  }
  return end;
}

bool ServedDump::read() {
  const auto progress = [this](std::string_view work, std::uint64_t done, std::uint64_t all) {
    const std::lock_guard lock(mutex_);
    progress_ = {{"work", work}, {"done", done}, {"all", all}};
  };
  std::uint64_t next = 0;
  {
    const std::lock_guard lock(mutex_);
    next = generation_ + 1;
    if (!snapshot_) progress_ = {{"work", "looking at the files"}, {"done", 0}, {"all", 0}};
  }
  Result<std::shared_ptr<Snapshot>> read = Snapshot::open(path_, next, progress);
  const std::lock_guard lock(mutex_);
  progress_ = nullptr;
  error_ = read ? "" : read.error().message;
  if (!read) return false;
  if (snapshot_) {  // what was judged by name still holds; numbers of tensors are other ones now
    auto judgement = std::make_shared<Judgement>(*snapshot_->judgement());
    judgement->measured.clear();
    (*read)->judge(std::move(judgement));
  }
  snapshot_ = std::move(*read);
  generation_ = next;
  return true;
}

void ServedDump::follow(const std::stop_token& stop) {
  ::setpriority(PRIO_PROCESS, 0, kFollowNice);  // of this thread, and of those that it starts
  std::string refused;                          // the state of the files that could not be read
  while (!stop.stop_requested()) {
    const auto began = Clock::now();
    const std::shared_ptr<Snapshot> shown = snapshot();
    const bool is_first = !shown;
    const std::string changed = is_first ? "everything" : shown->changed();
    if (changed.empty()) {
      refused.clear();
    } else if (changed != refused || is_first) {
      if (read()) {
        refused.clear();
        events_.add("grown", {{"dump", number_}, {"generation", snapshot()->generation()}});
      } else {
        refused = changed;
        if (is_first) events_.add("failed", {{"dump", number_}, {"error", error()}});
      }
    }
    std::string end = look_at_end();
    bool has_ended = false;
    {
      const std::lock_guard lock(mutex_);
      has_ended = end_ == "live" && end != "live";
      end_ = end;
      ++looks_;
      if (!is_first) looking_ += Clock::now() - began;
    }
    if (has_ended) events_.add("ended", {{"dump", number_}, {"ended", end}});
    rest(stop, std::max<Clock::duration>(kLook, kShareOfTime * (Clock::now() - began)));
  }
}

// With ordinary priority: what it does is little, and must not wait while all cores are busy.
void ServedDump::watch(const std::stop_token& stop) {
  NanWatch nans;
  while (!stop.stop_requested()) {
    const auto began = Clock::now();
    const std::shared_ptr<Snapshot> shown = snapshot();
    std::optional<FirstNan> found;
    if (shown && look_at_end() == "live") found = nans.look(shown->frame());
    bool is_new = false;
    {
      const std::lock_guard lock(mutex_);
      is_new = found && !first_nan_;
      if (is_new) first_nan_ = found;
      looking_ += Clock::now() - began;
    }
    if (is_new) events_.add("nan", json_of(*found, number_));
    rest(stop,
         kLook);  // a look takes as long as what was appended needs: a small part of the time in which it was written
  }
}

std::string ServedDump::state() const {
  const std::lock_guard lock(mutex_);
  if (!snapshot_) return error_.empty() ? "indexing" : "failed";
  return end_ == "live" ? "live" : "ready";
}

Json ServedDump::status() const {
  const std::string now = state();
  const std::shared_ptr<Snapshot> shown = snapshot();
  bool values = false, statistics = false, flow = false;
  if (shown) {
    for (const CatalogRank& rank : shown->frame().ranks) flow |= rank.has_journal || rank.has_host_data_flow;
    values = shown->content().values;
    statistics = shown->content().statistics;
  }
  const std::lock_guard lock(mutex_);
  std::filesystem::path named = path_.has_filename() ? path_ : path_.parent_path();
  return {{"dump", number_},
          {"role", role_},
          {"name", named.filename().string()},
          {"path", path_.string()},
          {"state", now},
          {"error", error_},
          {"progress", progress_},
          {"index", !snapshot_              ? "none"
                    : snapshot_->is_saved() ? "saved"
                                            : "memory"},
          {"generation", generation_},
          {"ended", end_},
          {"first_nan", first_nan_ ? json_of(*first_nan_, number_) : Json()},
          {"looks", looks_},
          {"looking_seconds", std::chrono::duration<double>(looking_).count()},
          {"has_values", values},
          {"has_statistics", statistics},
          {"has_data_flow", flow}};
}

void ServedDump::judge(const Json& first_bad) {
  auto judgement = std::make_shared<Judgement>(judgement_of(first_bad));
  const std::lock_guard lock(mutex_);
  finding_ = first_bad;
  if (!snapshot_) return;
  judgement->measured = snapshot_->judgement()->measured;
  snapshot_->judge(std::move(judgement));
}

void ServedDump::add_measured(const Snapshot& of, std::unordered_map<std::uint64_t, KnownStatistics> measured) {
  const std::lock_guard lock(mutex_);
  if (snapshot_.get() != &of) return;
  auto judgement = std::make_shared<Judgement>(*snapshot_->judgement());
  judgement->measured.merge(measured);
  snapshot_->judge(std::move(judgement));
}

}  // namespace sonde::server
