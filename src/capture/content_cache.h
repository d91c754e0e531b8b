// ContentCache: which bytes are known already, and who made which tensor. What an op wrote is the next op's input: read once,
// recorded once, named twice.
//
// Works on memory blocks ("storages") whose ids the host's adapter never reuses, and on writes the adapter reports.
// Torch's own version counters are not trusted: `.data`, NumPy and BatchNorm write without moving them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "journal/record.h"

namespace sonde {

// What one read of a tensor yielded.
struct Content {
  std::uint64_t id = 0;
  bool has_statistics = false;
  bool has_bytes = false;  // a copy went to the store with the first appearance
  Statistics statistics;
  std::string md5, sha1;
};

Content content_of(const TensorRecord& record);
void give_content(const Content& content, TensorRecord& record);

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

// Where a tensor comes from: the output of an op that wrote its memory last, or has made this view of it since.
struct Origin {
  std::uint64_t sequence = kNoSequence;  // nobody in the dump
  std::uint32_t slot = 0;
};

// A tensor as the host hands it around, for finding its origin: views of one memory are told apart by the host's object
// while it lives, else by where and how they lie.
struct ViewIdentity {
  std::uint64_t storage = 0;   // 0: it has none, the object is all there is
  std::uint64_t object = 0;    // 0: unknown
  std::uint64_t geometry = 0;  // hash of address, type, shape and strides
};

// Not synchronised: its owner calls it under the session's lock. find() and insert() of a key without storage do nothing.
class ContentCache {
 public:
  struct Found {
    const Content* same = nullptr;      // the same bytes in the same shape
    const Content* same_set = nullptr;  // the same elements in another order or shape: equal statistics, other file
    bool uninitialised = false;         // fresh memory nobody has written yet
    std::uint64_t epoch = 0;            // for insert()
  };

  ContentCache() = default;
  ContentCache(const ContentCache&) = delete;
  ContentCache& operator=(const ContentCache&) = delete;

  // The number of what is read next. Without the owner's lock, too.
  std::uint64_t new_content() { return next_content_.fetch_add(1, std::memory_order_relaxed); }
  // The pointers live until the next call that is not const.
  Found find(const TensorKey& key);
  // `epoch` is what find() said before the tensor was read. Nothing is kept when the memory was written since: another
  // thread's operator may have ended while this one read.
  void insert(const TensorKey& key, Content content, std::uint64_t epoch);
  void wrote(std::uint64_t storage, std::uint64_t sequence);
  void uninitialised(std::uint64_t storage);

  // Some op of this dump wrote the storage.
  bool is_written(std::uint64_t storage) const;

  // The op `reader` has read this tensor: where it comes from. What that op wrote there itself does not count.
  Origin origin_of(const ViewIdentity& view, std::uint64_t reader = kNoSequence);
  // An op has this tensor as a result, whether it wrote it or is a view of what was there.
  void made(const ViewIdentity& view, Origin origin);

  // Whether these bytes were looked at since they were written, and nothing but finite numbers was found.
  bool known_finite(std::uint64_t storage, const void* data, std::uint64_t bytes) const;
  std::uint64_t epoch(std::uint64_t storage) const { return epoch_of(storage); }  // for set_finite()
  // `epoch` is that of before the look, as with insert().
  void set_finite(std::uint64_t storage, const void* data, std::uint64_t bytes, std::uint64_t epoch);

  // The storage is gone.
  void forget(std::uint64_t storage) { storages_.erase(storage); }
  // Forgets what was read of storages that no op of the last two steps touched. That an op wrote one stays known.
  void end_step();
  // Any bytes may have changed; who made which tensor is still known.
  void forget_contents();
  // Everything may have changed: operators ran unseen.
  void clear();
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
  struct Extent {
    const std::byte *begin, *end;
  };
  struct Known {
    std::uint64_t object, geometry;
    Origin origin;
  };
  struct Storage {
    bool uninitialised = false;
    bool written = false;
    Origin writer;
    Origin before;              // where it came from when its writer wrote it
    std::vector<Known> known;   // tensors seen since it was written, the latest last
    std::uint64_t touched = 0;  // step counter of this table
    std::uint64_t epoch = 0;    // moves with every write
    std::vector<Entry> entries;
    std::vector<Extent> finite;
  };
  // Of one storage; a sequence cut into its time steps has hundreds.
  static constexpr std::size_t kMostKnown = 1024;
  static void remember(std::vector<Known>& known, const ViewIdentity& view, Origin origin);

  std::unordered_map<std::uint64_t, Storage> storages_;
  std::unordered_map<std::uint64_t, Known> without_storage_;  // by object; of this step
  Storage& storage_of(std::uint64_t storage);
  std::uint64_t epoch_of(std::uint64_t storage) const;

  std::atomic<std::uint64_t> next_content_{1};
  std::uint64_t step_ = 0;
  std::uint64_t writes_ = 0;           // numbers the epochs
  std::uint64_t epoch_of_others_ = 0;  // of every storage that is not in the table
};

}  // namespace sonde
