// KeptSummary: the summary of a session (saved_data "summary"), for any thread of the host.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "dump/summary/summary_writer.h"
#include "ground/base/mutex.h"
#include "ground/stats/statistics.h"
#include "plan/config/plan.h"
#include "record/capture/host_tensor.h"
#include "sonde/result.h"
#include "sonde/sonde.h"

namespace sonde {

class KeptSummary {
 public:
  static constexpr std::uint32_t kNoSeries = ~0U;

  explicit KeptSummary(const Plan& plan) : plan_(plan) {}

  // The rank's directory, and whether this device records. The first tensor that is kept decides for good.
  void set_place(std::uint32_t rank, std::uint32_t device);
  // kNoSeries: nothing is kept of it.
  std::uint32_t series(SummarySeries series);
  // The tensors of the step that are wanted. The step before is over and on disk; the host spent so long on it.
  Result<sonde_summary_step> begin_step(std::uint64_t step, std::uint64_t nanoseconds);
  // Reads it now. One that cannot be read is counted.
  Status add(std::uint32_t series, const HostTensor& tensor);
  // The tensor that this thread added last, as one of `earlier`, is also one of `series`. False: something else was added since.
  Result<bool> add_again(std::uint32_t series, std::uint32_t earlier);
  // The closing line; `failure`: what ended the recording, if anything did.
  std::string stop(const std::string& failure);

 private:
  struct Added {
    std::thread::id thread;
    std::uint32_t series = kNoSeries;
    Statistics statistics = {};
  };

  void begin_writing() REQUIRES(mutex_);
  Status keep(std::uint32_t series, const Statistics& statistics) REQUIRES(mutex_);
  bool may_spend(std::uint64_t nanoseconds) REQUIRES(mutex_);

  const Plan& plan_;
  Mutex mutex_;
  std::optional<SummaryWriter> writer_ GUARDED_BY_MUTEX;
  std::uint32_t rank_ GUARDED_BY_MUTEX = 0;
  bool excluded_ GUARDED_BY_MUTEX = false;
  bool wanted_ GUARDED_BY_MUTEX = false;     // the step that runs
  bool names_new_ GUARDED_BY_MUTEX = false;  // it has tensors that were never seen before
  bool is_bad_ GUARDED_BY_MUTEX = false;     // a tensor of it is not finite
  // With max_overhead: when the step began, and the time that may be spent, less what was.
  std::chrono::steady_clock::time_point began_ GUARDED_BY_MUTEX;
  double credit_ GUARDED_BY_MUTEX = 0;
  std::optional<Added> last_ GUARDED_BY_MUTEX;        // in the step that runs
  std::uint64_t steps_of_loss_ GUARDED_BY_MUTEX = 0;  // alone
  std::uint64_t not_read_ GUARDED_BY_MUTEX = 0;
};

}  // namespace sonde
