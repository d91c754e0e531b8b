// TensorReading: fills the record of one tensor from known facts about its elements, or by reading them.
//
//   TensorReading reading(rules, tensor, key, record);
//   { lock; if (!reading.look_up(cache)) return; }   // known, or not to be read: `record` is complete
//   if (!reading.read(recorder)) return;               // without the lock: this may take long, and may wait
//   { lock; reading.publish(cache); }
//
// A tensor whose key has no storage is never considered known: it needs no lock.
#pragma once

#include <cstdint>
#include <optional>

#include "dump/journal/record.h"
#include "plan/config/plan.h"
#include "record/capture/content_cache.h"
#include "record/capture/host_tensor.h"
#include "record/capture/modes/overhead.h"
#include "record/capture/recorded_view.h"

namespace sonde {

class Layout;
class Ring;

// The settings of a plan and its layout for every tensor.
struct ReadRules {
  const Plan* plan = nullptr;
  bool needs_bytes = false;
  bool reshapes = false;         // some tensors are recorded in part, or in memory order
  bool hashes = false;           // MD5, SHA-1 or both
  Ring* ring = nullptr;          // which keeps bytes for the steps that it holds
  bool on_device = false;        // statistics of a device's tensors are computed there, if no bytes are needed
  bool looks_on_device = false;  // they are, although bytes are needed: they decide what is recorded
  // Set if tensors that several ranks have are written by one of them: the number of this rank.
  std::optional<std::uint32_t> own_rank;
  bool bytes_each_time = false;  // a file with all tensors of an op has the bytes of each, known or not

  bool asks_for_writers() const { return own_rank.has_value(); }

  explicit ReadRules(const Plan& plan);
  // Whether a dump in this layout has `bytes_each_time`.
  static bool has_bytes_each_time(const Plan& plan, const Layout& layout);
};

class Recorder;

class TensorReading {
 public:
  // Borrows all of them. `depth`: the tensor is read to this depth, and `out` says so if it is not the full one.
  TensorReading(const ReadRules& rules, const HostTensor& tensor, const TensorKey& key, TensorRecord& out,
                Depth depth = Depth::full);
  TensorReading(const TensorReading&) = delete;
  TensorReading& operator=(const TensorReading&) = delete;

  // `writer`: as in sonde_tensor. Before look_up().
  void set_writer(std::uint32_t writer);

  // For a tensor that is not to be read: `out` gets what is known of it. With the lock.
  static void give_known(ContentCache& cache, const TensorKey& key, TensorRecord& out);

  const TensorKey& key() const { return key_; }
  // True if its bytes must be read. `skips_uninitialised`: except those of memory that was never written.
  bool look_up(ContentCache& cache, bool skips_uninitialised = false);
  bool read(Recorder& recorder);  // false: the read failed, and `out` says why
  void publish(ContentCache& cache);

 private:
  bool give_if_known(const ContentCache::Found& found);
  bool take_block(BlockPool& blocks);
  BlockPtr late_block(BlockPool& blocks, const char*& why) const;
  bool begin_late(BlockPool& blocks);
  bool ask(const std::shared_ptr<LateReading>& late, bool wants_statistics);
  void measure(Recorder& recorder);
  BlockPtr block_to_hash(Recorder& recorder) const;
  void hash(Recorder& recorder, BlockPtr bytes);

  const ReadRules& rules_;
  const TensorKey key_;
  const HostTensor& tensor_;
  const Depth depth_;
  TensorRecord& out_;
  TensorView view_;                            // in recorded form
  std::optional<RecordedView> recorded_view_;  // owns it if it is not the whole tensor in C order
  std::uint64_t first_elements_ = 0;           // a sample that the device takes; 0: everything
  bool hashes_ = false;                        // MD5, SHA-1 or both are made
  bool is_shared_ = false;                     // several ranks have it: the MD5 says whether they are equal
  const char* replica_of_ = nullptr;           // why it has no bytes: another rank writes it
  Content content_;
  std::uint64_t epoch_ = 0;
};

}  // namespace sonde
