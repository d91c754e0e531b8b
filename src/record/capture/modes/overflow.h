// OverflowCheck: searches an output for NaN and infinity; only then is its op recorded (op_debug_mode 3). Called like a
// TensorReading: looked up and published with the session's lock, read without it.
#pragma once

#include <cstdint>
#include <optional>

#include "dump/journal/record.h"
#include "record/capture/content_cache.h"
#include "record/capture/host_tensor.h"
#include "record/capture/tensor_reading.h"

namespace sonde {

class OverflowCheck {
 public:
  // True if there is anything to look at.
  static bool can_look(const HostTensor& output);
  // Borrows both. `with_statistics`: they are taken at the same time, since the next step's op will want them.
  OverflowCheck(const ReadRules& rules, const HostTensor& output, bool with_statistics);

  bool look_up(ContentCache& cache);  // false: is_finite() is known
  void look(Recorder& recorder);
  void publish(ContentCache& cache);
  bool is_finite() const { return finite_; }

 private:
  const HostTensor& output_;
  const TensorKey key_;
  const std::uint64_t extent_;
  TensorRecord record_;  // of `reading_`
  std::optional<TensorReading> reading_;
  std::uint64_t epoch_ = 0;
  bool finite_ = true;
  bool looked_ = false, read_ = false;
};

}  // namespace sonde
