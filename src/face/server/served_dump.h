// ServedDump: a dump that is shown while it may still grow. A thread reads it,
// looks each half second whether it has changed, and then makes a new snapshot;
// it spends at most a tenth of its time on this. Of a run that goes on it reads
// what was appended, where that is possible (index/growing_index.h). Another
// thread looks for the first NaN and the end of such a run.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "face/server/events.h"
#include "face/server/nan_watch.h"
#include "face/server/snapshot.h"
#include "ground/base/mutex.h"

namespace sonde::server {

class ServedDump {
 public:
  ServedDump(unsigned number, std::filesystem::path path, Events& events)
      : number_(number), path_(std::move(path)), events_(events) {}

  void start();  // reads it, and again as it grows
  Status read_once();
  unsigned number() const { return number_; }
  const std::filesystem::path& path() const { return path_; }

  // Null while it is read for the first time, and if that failed.
  std::shared_ptr<Snapshot> snapshot() const;
  std::string error() const;  // why it could not be read; empty: it was, or is being read
  DumpStatus status() const;

  // The last first-bad of the dump, which judges its infinities, and the
  // generation that it has seen at least.
  void judge(const Json& first_bad, std::uint64_t generation);
  struct Finding {
    std::optional<FirstBad> first_bad;  // empty: none has run
    std::optional<std::uint64_t> generation;
  };
  Finding finding() const;
  // Statistics of tensors of this snapshot; ignored if there is a newer one.
  void add_measured(const Snapshot& of, std::unordered_map<std::uint64_t, KnownStatistics> measured);

 private:
  using Clock = std::chrono::steady_clock;
  void follow(const std::stop_token& stop);
  bool read_what_changed(std::string& refused);
  bool read();
  bool grow(Snapshot& shown);
  void show(std::shared_ptr<Snapshot> next, std::uint64_t generation);
  void watch(const std::stop_token& stop);

  unsigned number_;
  std::filesystem::path path_;
  Events& events_;

  mutable Mutex mutex_;
  std::shared_ptr<Snapshot> snapshot_ GUARDED_BY_MUTEX;
  std::condition_variable_any woken_;
  std::string error_ GUARDED_BY_MUTEX;
  LastEnd end_ GUARDED_BY_MUTEX = LastEnd::unknown;
  // `end_` comes from the journals, which are newer than the snapshot
  bool watched_ GUARDED_BY_MUTEX = false;
  std::uint64_t ends_ GUARDED_BY_MUTEX = 0;  // how often a run has ended
  std::optional<Progress> progress_ GUARDED_BY_MUTEX;
  Finding finding_ GUARDED_BY_MUTEX;
  std::uint64_t generation_ GUARDED_BY_MUTEX = 0;
  std::uint64_t looks_ GUARDED_BY_MUTEX = 0;
  std::optional<FirstNan> first_nan_ GUARDED_BY_MUTEX;
  Clock::duration looking_ GUARDED_BY_MUTEX{};  // time that went into all looks and reads after the first
  std::jthread thread_, watcher_;
};

}  // namespace sonde::server
