// Hasher: makes MD5 and SHA-1 of tensors on the writer's thread, many at once (stats/multi_hash.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dump/journal/record.h"
#include "ground/base/mutex.h"
#include "ground/stats/multi_hash.h"

namespace sonde {

class Hasher {
 public:
  // Fewer bytes are hashed where they are: in that time a copy could hardly be handed on.
  static constexpr std::uint64_t kLeastBytes = 512;

  Hasher(bool md5, bool sha1, std::uint64_t budget_bytes);
  ~Hasher();

  // Any thread. `bytes`: a tensor in C order, of elements of `item_bytes`. The texts are there when a record that
  // refers to them is in the journal: it must be pushed after this call.
  std::shared_ptr<HashTexts> add(BlockPtr bytes, std::size_t item_bytes);

  // All others: the writer's thread.
  bool is_idle() const;     // nothing to do
  bool is_running() const;  // it has begun, and has more to do: call run()
  // Hashes for some milliseconds, if there are enough tensors for the lanes, or if one has waited too long. `at_once`:
  // also a single one.
  void run(bool at_once);
  void run_all();

 private:
  struct Job;

  void take();
  void begin(Job& job);
  bool finish(Job& job);
  bool is_due() const;
  void run_piece(std::size_t blocks);

  const bool md5_, sha1_;
  const std::uint64_t many_bytes_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Job>> added_ GUARDED_BY_MUTEX;
  std::vector<std::unique_ptr<Job>> jobs_;  // begun; the oldest first
  std::uint64_t bytes_ = 0;                 // of jobs_
  bool running_ = false;
  MultiHash md5_lanes_{HashAlgorithm::md5}, sha1_lanes_{HashAlgorithm::sha1};
};

}  // namespace sonde
