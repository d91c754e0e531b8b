// Jobs: analyses that take long. A job is the command itself, `sonde first-bad
// DUMP --json`, as a process of its own with nice 10: its answer is that of the
// verb, cancelling it is a signal, its memory is given back, and if it fails
// the page stays. `measure` alone runs here, since its numbers go into the maps
// and tables of this server.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "contract/served_answers.h"
#include "face/report/json.h"
#include "face/server/events.h"
#include "ground/base/mutex.h"
#include "sonde/result.h"

namespace sonde::server {

inline constexpr std::size_t kJobsWaiting = 8;

struct JobResult {
  Job job;                                    // without `result`
  std::shared_ptr<const std::string> result;  // a JSON document, which may be large; null: there is none yet

  std::string text() const;  // the job as JSON, with its result
};

struct KeptJob : JobResult {
  std::vector<std::string> command;
  std::size_t dump = 0;
  std::uint64_t generation = 0;             // of the dump, when the job began: it sees this one or a later one
  std::shared_ptr<const std::string> file;  // that the command wrote too; null: there is none
  std::atomic<int> process = 0;
  std::atomic<bool> is_cancelled = false;
};

struct CommandFiles;

class Jobs {
 public:
  struct Hooks {
    // Measures the tensors of a dump that have no statistics; throws nothing.
    std::function<Result<Measured>(std::size_t dump, const std::atomic<bool>& is_cancelled)> measure;
    std::function<std::uint64_t(std::size_t dump)> generation;
    std::function<void(const KeptJob&)> done;
  };
  // `dumps`: absolute paths; of compare the first is the target, the second
  // golden.
  Jobs(std::vector<std::filesystem::path> dumps, Events& events, Hooks hooks);
  ~Jobs();  // ends those that run

  // Fails with `busy` when too many wait, `invalid_argument` on a wrong
  // argument.
  Result<Job> start(const JobRequest& request);
  JobList list() const;
  Result<JobResult> one(std::uint64_t number) const;
  Result<JobResult> wait_for(std::uint64_t number);  // the same, when it is over
  Result<std::pair<std::string, std::shared_ptr<const std::string>>> file(std::uint64_t number) const;  // name, text
  Result<Job> cancel(std::uint64_t number);
  // The result of a compare job, the last that is done if 0; fails with
  // `not_found`.
  Result<std::pair<std::uint64_t, std::shared_ptr<const std::string>>> comparison(std::uint64_t number) const;

 private:
  void work(const std::stop_token& stop);
  void run(KeptJob& job);
  void fail(KeptJob& job, std::string error);
  struct CommandEnd;
  CommandEnd end_of(KeptJob& kept, std::vector<std::string> words);
  void run_command(KeptJob& job);
  bool take_answer(KeptJob& kept, CommandEnd end, CommandFiles& files);  // whether the job is done
  std::shared_ptr<KeptJob> find(std::uint64_t number) const REQUIRES(mutex_);
  std::shared_ptr<KeptJob> next() const REQUIRES(mutex_);  // the oldest that waits; null: none does

  std::vector<std::filesystem::path> dumps_;
  Events& events_;
  Hooks hooks_;
  mutable Mutex mutex_;
  std::condition_variable_any woken_, ended_;
  std::list<std::shared_ptr<KeptJob>> jobs_ GUARDED_BY_MUTEX;  // newest first
  std::uint64_t last_ GUARDED_BY_MUTEX = 0;
  std::vector<std::jthread> threads_;
};

// Fails on anything but a JSON object with `kind` and `arguments` alone.
Result<JobRequest> job_request(const std::string& body);

inline constexpr std::string_view kMappingOption = "--mapping=";
// Options whose value is a name in a directory of the job: a request never
// gives a path.
inline constexpr std::array<std::string_view, 4> kFileOptions = {"--next-config=", "--html=", "--csv=", kMappingOption};

// The command line of a job, without the program: {"first-bad", "/data/run7",
// "--json"}. Fails on arguments that the kind does not have.
Result<std::vector<std::string>> job_command(JobKind kind, const Json& arguments,
                                             const std::vector<std::filesystem::path>& dumps);

}  // namespace sonde::server
