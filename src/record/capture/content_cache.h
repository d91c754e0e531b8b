// ContentCache: knows which bytes were read already and which op made which tensor. The output of one op is the input
// of the next: it is read once, recorded once, named twice.
//
// Works on memory blocks ("storages") whose ids the host's adapter never reuses, and on writes the adapter reports.
// Torch's own version counters are not trusted: `.data`, NumPy and BatchNorm write without changing them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>
#include <unordered_map>
#include <vector>

#include "dump/journal/record.h"
#include "ground/base/recycled_map.h"
#include "record/capture/unwritten.h"

namespace sonde {

// The result of one read of a tensor.
struct Content {
  std::uint64_t id = 0;
  bool has_statistics = false;
  std::uint32_t writer = 0;  // as in sonde_tensor: of the ranks that have it, the one that writes it
  bool has_bytes = false;    // a copy went to the store at the first appearance
  Statistics statistics;
  std::string md5, sha1;
  std::shared_ptr<HashTexts> hashes;  // if the writer makes them
  std::shared_ptr<LateReading> late;  // on a device: the statistics and hashes are there
};

Content content_of(const TensorRecord& record);
void give_content(const Content& content, TensorRecord& record);

// The place of a tensor in memory. Two tensors with equal keys and no write between them hold the same elements.
struct TensorKey {
  std::uint64_t storage = 0;  // 0: never considered equal to anything
  const void* data = nullptr;
  DType dtype = DType::undefined;
  bool dense = false;       // the elements fill one block of memory; empty tensors are dense
  bool contiguous = false;  // in C order
  std::uint64_t bytes = 0;
  std::span<const std::int64_t> shape, strides;

  TensorView view() const;
};

// The origin of a tensor: the output of the op that last wrote its memory, or that has made this view of it since.
struct Origin {
  std::uint64_t sequence = kNoSequence;  // no op of the dump
  std::uint32_t slot = 0;
};

// A tensor as the host passes it around, for finding its origin: views of one memory are distinguished by the host's
// object while it lives, otherwise by position and layout.
struct ViewIdentity {
  std::uint64_t storage = 0;   // 0: it has none, only the object identifies it
  std::uint64_t object = 0;    // 0: unknown
  std::uint64_t geometry = 0;  // hash of address, type, shape and strides
};

// Not synchronised: its owner calls it under the session's lock. find() and insert() ignore a key without storage.
class ContentCache {
 public:
  struct Found {
    const Content* same = nullptr;      // the same bytes in the same shape
    const Content* same_set = nullptr;  // the same elements in another order or shape: equal statistics, another file
    bool uninitialised = false;         // fresh memory: something in it was never written
    std::uint64_t epoch = 0;            // for insert()
  };

  ContentCache() = default;
  ContentCache(const ContentCache&) = delete;
  ContentCache& operator=(const ContentCache&) = delete;

  // The number of the next read. May be called without the owner's lock.
  std::uint64_t new_content() { return next_content_.fetch_add(1, std::memory_order_relaxed); }
  // The pointers are valid until the next non-const call.
  Found find(const TensorKey& key);
  // `epoch` is the value from find() before the tensor was read. Keeps nothing if the memory was written since: an
  // operator of another thread may have ended during the read.
  void insert(const TensorKey& key, Content content, std::uint64_t epoch);
  void wrote(std::uint64_t storage, std::uint64_t sequence);
  // The same, of these elements alone. The other bytes of fresh memory stay unwritten.
  void wrote(std::uint64_t storage, const TensorKey& part, std::uint64_t sequence);
  // The memory block is fresh, but for its first `kept` bytes.
  void allocated(std::uint64_t storage, const std::byte* block, std::uint64_t bytes, std::uint64_t kept = 0);
  // As find() says it, also for a key without storage.
  bool is_unwritten(std::uint64_t storage, const TensorKey& key) const;

  // False: find() knows nothing of any tensor there.
  bool knows_contents(std::uint64_t storage) const;

  // An op of this dump wrote the storage.
  bool is_written(std::uint64_t storage) const;

  // The op `reader` has read this tensor: returns its origin. Writes by that op itself do not count.
  Origin origin_of(const ViewIdentity& view, std::uint64_t reader = kNoSequence);
  // This tensor is a result of an op, which wrote it or made a view of existing memory.
  void made(const ViewIdentity& view, Origin origin);

  // True if these bytes were checked since they were written and contain finite numbers only.
  bool known_finite(std::uint64_t storage, const void* data, std::uint64_t bytes) const;
  std::uint64_t epoch(std::uint64_t storage) const { return epoch_of(storage); }  // for set_finite()
  // `epoch` is the value from before the check, as with insert().
  void set_finite(std::uint64_t storage, const void* data, std::uint64_t bytes, std::uint64_t epoch);

  // The storage was freed.
  void forget(std::uint64_t storage) { storages_.erase(storage); }
  // Forgets the contents of storages that no op of the last two steps touched, but keeps the ops that wrote them.
  void end_step();
  // Any bytes may have changed; the origins of tensors are still known.
  void forget_contents();
  // Everything may have changed: operators ran unobserved. The memory is kept for later.
  void clear();
  // The same, and gives the memory back.
  void release();
  std::size_t size() const { return storages_.size(); }

 private:
  struct Entry {
    const void* data;
    DType dtype;
    bool contiguous;
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
    using allocator_type = std::pmr::polymorphic_allocator<>;
    explicit Storage(allocator_type memory) : known(memory), entries(memory), finite(memory) {}

    Unwritten fresh;
    bool written = false;
    Origin writer;
    Origin before;                  // its origin when its writer wrote it
    std::pmr::vector<Known> known;  // tensors seen in this step since it was written, latest last
    std::uint64_t touched = 0;      // step counter of this table
    std::uint64_t epoch = 0;        // changes with every write
    std::pmr::vector<Entry> entries;
    std::pmr::vector<Extent> finite;

    void forget_contents();
    void recycle();
  };
  // For one storage; a sequence cut into its time steps has hundreds.
  static constexpr std::size_t kMostKnown = 1024;
  // Contents of storages that no op of so many steps touched are forgotten; those are looked for as often.
  static constexpr std::uint64_t kStepsKept = 2, kStepsBetweenSearches = 16;
  static void remember(std::pmr::vector<Known>& known, const ViewIdentity& view, Origin origin);

  RecycledMap<Storage> storages_;
  std::unordered_map<std::uint64_t, Known> without_storage_;  // by object; for this step
  static bool have_same_elements(const Entry& entry, const TensorKey& key);
  Storage& storage_of(std::uint64_t storage);
  void touch(Storage& storage) const;
  Storage& note_write(std::uint64_t storage, std::uint64_t sequence);
  std::uint64_t epoch_of(std::uint64_t storage) const;

  std::atomic<std::uint64_t> next_content_{1};
  std::uint64_t step_ = 0;
  std::uint64_t writes_ = 0;           // numbers the epochs
  std::uint64_t epoch_of_others_ = 0;  // for every storage that is not in the table
};

}  // namespace sonde
