// Identity: which bytes are known already. What an op wrote is the next op's input: read once,
// recorded once, named twice.
//
// Works on memory blocks ("storages") whose ids the host's adapter never reuses, and on writes the adapter reports.
// Torch's own version counters are not trusted: `.data`, NumPy and BatchNorm write without moving them.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/record.h"

namespace sonde {

// What one read of a tensor yielded.
struct Content {
  std::uint64_t id = 0;
  bool has_statistics = false;
  bool has_bytes = false;  // a copy went to the store with the first appearance
  Statistics statistics;
  std::string md5, sha1;
};

// Where a tensor lies. Two tensors with equal keys and no write between them hold the same elements.
struct TensorKey {
  std::uint64_t storage = 0;  // 0: never taken as equal to anything
  const void* data = nullptr;
  DType dtype = DType::undefined;
  bool dense = false;       // the elements fill one block of memory
  bool contiguous = false;  // in C order
  std::uint64_t bytes = 0;
  std::span<const std::int64_t> shape, strides;
};

class Identity {
 public:
  struct Found {
    const Content* same = nullptr;      // the same bytes in the same shape
    const Content* same_set = nullptr;  // the same elements in another order or shape: equal statistics, other file
    bool uninitialised = false;         // fresh memory nobody has written yet
    bool written = false;               // some op of this dump wrote the storage
    std::uint64_t source = kNoSequence;
    std::uint32_t source_slot = 0;
  };

  // The pointers live until the next call that is not const.
  Found find(const TensorKey& key);
  void insert(const TensorKey& key, Content content);
  void wrote(std::uint64_t storage, std::uint64_t sequence);
  void uninitialised(std::uint64_t storage);
  void wrote_slot(std::uint64_t storage, std::uint64_t sequence, std::uint32_t slot);

  // Forgets storages that no op of the last two steps touched.
  void end_step();
  // Everything may have changed: operators ran unseen.
  void clear() { storages_.clear(); }
  std::size_t size() const { return storages_.size(); }

 private:
  struct Entry {
    const void* data;
    DType dtype;
    bool dense, contiguous;
    std::uint64_t bytes;
    Dims shape, strides;
    Content content;
  };
  struct Storage {
    bool uninitialised = false;
    bool written = false;
    std::uint64_t source = kNoSequence;
    std::uint32_t source_slot = 0;
    std::uint64_t touched = 0;  // step counter of this table
    std::vector<Entry> entries;
  };
  std::unordered_map<std::uint64_t, Storage> storages_;
  std::uint64_t step_ = 0;
};

}  // namespace sonde
