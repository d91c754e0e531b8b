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
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "face/report/json.h"
#include "face/server/events.h"
#include "sonde/result.h"

namespace sonde::server {

inline constexpr std::size_t kJobsWaiting = 8;

struct Job {
  std::uint64_t number = 0;
  std::string kind;
  Json arguments = Json::object();
  std::vector<std::string> command;
  std::size_t dump = 0;
  std::uint64_t generation = 0;  // of the dump, when the job began: it sees this one or a later one
  std::string state = "waiting";
  std::uint64_t created_us = 0, started_us = 0, ended_us = 0;
  std::optional<int> exit_status;
  std::string error;
  std::shared_ptr<const std::string> result;  // a JSON document; null: there is none yet
  std::string file_name;                      // of a file that the command wrote too; empty: there is none
  std::shared_ptr<const std::string> file;
  std::atomic<int> process = 0;
  std::atomic<bool> is_cancelled = false;
};

class Jobs {
 public:
  struct Hooks {
    // Measures the tensors of a dump that have no statistics; returns the
    // document, or throws nothing and fails.
    std::function<Result<Json>(std::size_t dump, const std::atomic<bool>& is_cancelled)> measure;
    std::function<std::uint64_t(std::size_t dump)> generation;
    std::function<void(const Job&)> done;
  };
  // `dumps`: absolute paths; of compare the first is the target, the second
  // golden.
  Jobs(std::vector<std::filesystem::path> dumps, Events& events, Hooks hooks);
  ~Jobs();  // ends those that run

  // Fails with `busy` when too many wait, `invalid_argument` on a wrong kind or
  // argument.
  Result<Json> start(const std::string& body);
  Json list() const;
  Result<std::string> one(std::uint64_t number) const;  // with its result
  Result<std::string> wait_for(std::uint64_t number);   // the same, when it is over
  Result<std::pair<std::string, std::shared_ptr<const std::string>>> file(std::uint64_t number) const;  // name, text
  Result<Json> cancel(std::uint64_t number);
  // The result of a compare job, the last that is done if 0; fails with
  // `not_found`.
  Result<std::pair<std::uint64_t, std::shared_ptr<const std::string>>> comparison(std::uint64_t number) const;

 private:
  void work(const std::stop_token& stop);
  void run(Job& job);
  void fail(Job& job, std::string error);
  void run_command(Job& job);
  Json describe(const Job& job) const;
  std::shared_ptr<Job> find(std::uint64_t number) const;

  std::vector<std::filesystem::path> dumps_;
  Events& events_;
  Hooks hooks_;
  mutable std::mutex mutex_;
  std::condition_variable_any woken_, ended_;
  std::list<std::shared_ptr<Job>> jobs_;  // newest first
  std::uint64_t last_ = 0;
  std::vector<std::jthread> threads_;
};

// `kind` and `arguments` of a request for a job. Fails on anything but a JSON
// object with these alone.
Result<Json> job_request(const std::string& body);

inline constexpr std::string_view kMappingOption = "--mapping=";
// Options whose value is a name in a directory of the job: a request never
// gives a path.
inline constexpr std::array<std::string_view, 4> kFileOptions = {"--next-config=", "--html=", "--csv=", kMappingOption};

// The command line of a job, without the program: {"first-bad", "/data/run7",
// "--json"}. Fails on arguments that the kind does not have.
Result<std::vector<std::string>> job_command(const std::string& kind, const Json& arguments,
                                             const std::vector<std::filesystem::path>& dumps);

}  // namespace sonde::server
