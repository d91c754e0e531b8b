// TensorReading: what is recorded of one tensor: what is known of its elements already, else what is read of them.
//
//   TensorReading reading(rules, tensor, key, wanted, record);
//   { lock; if (!reading.look_up(cache)) return; }   // known, not wanted, or not to be read: `record` says all
//   if (!reading.read(blocks)) return;               // without the lock: this may take long, and may wait
//   { lock; reading.publish(cache); }
//
// A tensor whose key has no storage is never taken as known: it needs no lock.
#pragma once

#include <cstdint>
#include <optional>

#include "capture/content_cache.h"
#include "capture/host_tensor.h"
#include "capture/recorded_view.h"
#include "config/plan.h"
#include "journal/record.h"

namespace sonde {

// What a plan and its layout want of every tensor.
struct ReadRules {
  const Plan* plan = nullptr;
  bool needs_bytes = false;
  bool reshapes = false;         // some tensors are recorded in part, or as they lie
  bool bytes_each_time = false;  // a file with all tensors of an op holds the bytes of each, known or not

  explicit ReadRules(const Plan& plan);
};

class TensorReading {
 public:
  // Borrows all of them. `wanted`: else `out` gets only what is known.
  TensorReading(const ReadRules& rules, const HostTensor& tensor, const TensorKey& key, bool wanted, TensorRecord& out);
  TensorReading(const TensorReading&) = delete;
  TensorReading& operator=(const TensorReading&) = delete;

  const TensorKey& key() const { return key_; }
  // Whether its bytes are to be read. `skips_uninitialised`: not those of memory that nobody has written yet.
  bool look_up(ContentCache& cache, bool skips_uninitialised = false);
  bool read(BlockPool& blocks);  // false: they could not be, and `out` says why
  void publish(ContentCache& cache);

 private:
  bool take_block(BlockPool& blocks);
  void measure();

  const ReadRules& rules_;
  const TensorKey key_;
  const DeviceAccess& access_;
  const bool wanted_;
  TensorRecord& out_;
  TensorView view_;                            // as it is recorded
  std::optional<RecordedView> recorded_view_;  // holds it, where it is not the whole tensor in C order
  Content content_;
  std::uint64_t epoch_ = 0;
};

}  // namespace sonde
