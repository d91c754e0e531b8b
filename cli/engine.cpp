#include "engine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <span>
#include <utility>
#include <vector>

#include "child.h"
#include "dump.h"
#include "face/report/text.h"
#include "ground/base/mutex.h"
#include "ground/base/parallel.h"
#include "ground/files/brought_files.h"
#include "ground/files/files.h"
#include "python_programs.h"
#include "python_verbs.h"
#include "read/index/rank_indices.h"
#include "waiting.h"

namespace sonde {
namespace {

constexpr std::size_t kPartsOfWorker = 8;  // so that none waits long for the last one
constexpr std::size_t kMostInPart = 256;   // ranks, which are arguments of a program
constexpr int kMostTries = 2;

using Directories = std::vector<std::string>;

// The answer is that of one process, so what happens to the work is not in it.
void say_of_engine(const std::string& text) { print_notice("sonde: " + text + "\n"); }

std::string shown_ranks(std::span<const std::string> directories) {
  constexpr std::size_t kShown = 3;
  const std::string first =
      joined({directories.begin(), directories.begin() + std::min(kShown, directories.size())}, ", ");
  return directories.size() > kShown ? fmt::format("{} and {} more", first, directories.size() - kShown) : first;
}

// Processes of this program, each with some of the ranks.
class LocalEngine {
 public:
  LocalEngine(const std::filesystem::path& dump, const RankWork& work)
      : dump_(dump), work_(work), ranks_(work.ranks), waiting_(work.doing, work.ranks.size()) {}

  bool run() {
    const Threads workers;
    // The process of a part starts a program that brings files of a URL.
    const std::size_t parts = workers.count() * (is_brought(dump_) ? 1 : kPartsOfWorker);
    const std::size_t size = std::clamp<std::size_t>(ranks_.size() / parts, 1, kMostInPart);
    workers.for_each((ranks_.size() + size - 1) / size, [&](std::size_t part) {
      const std::size_t begin = part * size;
      run_part(std::span(ranks_).subspan(begin, std::min(size, ranks_.size() - begin)));
    });
    const Lock lock(mutex_);
    return all_done_;
  }

 private:
  void run_part(std::span<const std::string> ranks) {
    std::vector<std::string> command = {"/proc/self/exe"};
    command.insert(command.end(), work_.verb.begin(), work_.verb.end());
    command.insert(command.end(), {dump_.string(), "--out", work_.out.string()});
    for (const std::string& rank : ranks) command.insert(command.end(), {"--dir", rank});
    const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ChildSetting setting;
    setting.output = "/dev/null";
    for (int tries = 1;; ++tries) {
      const Result<pid_t> child = start_child(command, setting, nothing.get());
      const ChildEnd end = child ? end_of_child(*child) : ChildEnd{kCannotRun};
      const Lock lock(mutex_);
      if (end.exit_code == 0) break;
      if (end.signal != 0 && tries < kMostTries) {
        say_of_engine(fmt::format("signal {} ended the process that was {} {}; another one does", end.signal,
                                  work_.doing, shown_ranks(ranks)));
        continue;
      }
      if (!child) say_of_engine(child.error().message);
      if (end.signal != 0)
        say_of_engine(
            fmt::format("signal {} ended the process that was {} {} again: does the machine have enough memory?",
                        end.signal, work_.doing, shown_ranks(ranks)));
      all_done_ = false;
      break;
    }
    const Lock lock(mutex_);
    for (std::size_t i = 0; i < ranks.size(); ++i) waiting_.advance();
  }

  const std::filesystem::path& dump_;
  const RankWork& work_;
  const Directories& ranks_;
  Mutex mutex_;
  Waiting waiting_;
  bool all_done_ GUARDED_BY_MUTEX = true;
};

// The package's program, which knows Ray and Dask.
bool run_cluster(const std::filesystem::path& dump, const std::string& engine, const RankWork& work, int& exit_status) {
  const std::string request = request_with({{"dump", dump.string()},
                                            {"engine", engine},
                                            {"out", work.out.string()},
                                            {"ranks", work.ranks},
                                            {"verb", work.verb},
                                            {"doing", work.doing}},
                                           {});
  constexpr int kInterrupted = 128 + SIGINT;
  exit_status = run_python("", kRankEngine, {request}).value_or(kBadUsage);
  const bool has_spoken = exit_status == kBadUsage || exit_status == kUnreadable || exit_status == kInterrupted;
  if (exit_status == kNothingFound || has_spoken) return exit_status == kNothingFound;
  // Ray ends a program whose cluster is gone; its status 1 is not that of a finding.
  print_error(
      fmt::format("the program of --engine {} ended with status {} before all ranks were done; is its cluster "
                  "still up? --engine local needs none",
                  engine, exit_status));
  exit_status = kUnreadable;
  return false;
}

}  // namespace

int work_in_directories(const std::filesystem::path& dump, const std::vector<std::string>& directories,
                        const std::function<Status(const RanksOfDump&, const RankInDump&)>& work) {
  const Result<RanksOfDump> found = ranks_of_dump(dump);
  if (!found) return status_of(found.error());
  for (const std::string& directory : directories) {
    const auto rank = std::ranges::find(found->ranks, directory, &RankInDump::directory);
    if (rank == found->ranks.end()) {
      print_error(fmt::format("'{}' has no rank in '{}'", dump.string(), directory));
      return kBadUsage;
    }
    if (Status done = work(*found, *rank); !done) return status_of(done.error());
  }
  return kNothingFound;
}

int print_directories(const Result<std::vector<std::string>>& directories) {
  if (!directories) return status_of(directories.error());
  std::string text;
  for (const std::string& directory : *directories) text += directory + "\n";
  return text.empty() || print_text(text) ? kNothingFound : kUnreadable;
}

bool work_on_ranks(const std::filesystem::path& dump, const std::string& engine, const RankWork& work,
                   int& exit_status) {
  if (engine != "local") return run_cluster(dump, engine, work, exit_status);
  if (!LocalEngine(dump, work).run()) say_of_engine("not every rank was done so: one process does the others");
  return true;
}

std::optional<std::vector<RankToIndex>> index_ranks(const std::filesystem::path& dump, const std::string& engine,
                                                    int& exit_status) {
  std::vector<RankToIndex> stale;
  if (engine.empty()) return stale;
  Result<std::vector<RankToIndex>> ranks = ranks_to_index(dump);
  if (!ranks) return stale;  // the verb says why
  if (ranks->empty()) {
    say_of_engine(fmt::format("'{}' is not a dump of ranks with journals: one process reads it", dump.string()));
    return stale;
  }
  const std::filesystem::path out = ranks->front().file.parent_path();
  RankWork work{{"index"}, {}, out, "indexing rank"};
  for (RankToIndex& rank : *ranks) {
    if (rank.is_right) continue;
    work.ranks.push_back(rank.directory);
    stale.push_back(std::move(rank));
  }
  if (stale.empty()) return stale;
  if (out.empty()) {
    say_of_engine("there is no directory for indexes, since HOME is not set: one process reads the dump");
    return stale;
  }
  if (!work_on_ranks(dump, engine, work, exit_status)) return std::nullopt;
  return stale;
}

}  // namespace sonde
