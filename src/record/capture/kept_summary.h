// KeptSummary: the summary of a session (saved_data "summary"), for any thread of the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dump/summary/summary_writer.h"
#include "ground/base/mutex.h"
#include "plan/config/plan.h"
#include "record/capture/host_tensor.h"
#include "sonde/result.h"

namespace sonde {

class KeptSummary {
 public:
  static constexpr std::uint32_t kNoSeries = ~0U;

  explicit KeptSummary(const Plan& plan) : plan_(plan) {}

  // The rank's directory, and whether this device records. The first tensor that is kept decides for good.
  void set_place(std::uint32_t rank, std::uint32_t device);
  // kNoSeries: nothing is kept of it.
  std::uint32_t series(SummarySeries series);
  // Whether the step's tensors are wanted. The step before is over and on disk.
  Result<bool> begin_step(std::uint64_t step);
  // Reads it now. One that cannot be read is counted.
  Status add(std::uint32_t series, const HostTensor& tensor);
  // The closing line; `failure`: what ended the recording, if anything did.
  std::string stop(const std::string& failure);

 private:
  const Plan& plan_;
  Mutex mutex_;
  std::optional<SummaryWriter> writer_ GUARDED_BY_MUTEX;
  std::uint32_t rank_ GUARDED_BY_MUTEX = 0;
  bool excluded_ GUARDED_BY_MUTEX = false;
  bool wanted_ GUARDED_BY_MUTEX = false;  // the step that runs
  std::uint64_t not_read_ GUARDED_BY_MUTEX = 0;
};

}  // namespace sonde
