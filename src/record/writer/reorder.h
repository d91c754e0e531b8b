// Reorder: keeps records (without their bytes) until all earlier ones are there.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "dump/journal/record.h"
#include "record/writer/tensor_writer.h"

namespace sonde {

class Reorder {
 public:
  struct Entry {
    bool settled = false;  // pushed or skipped
    std::optional<Record> record;
    std::vector<StoredFile> files;
  };

  // The waiting place for the record of `sequence`; null if its turn has passed (or if it is so far ahead that it must
  // be a mistake). Valid until the next call.
  Entry* at(std::uint64_t sequence) {
    if (sequence < next_ || sequence - next_ > kFarthest) return nullptr;
    const std::uint64_t index = sequence - next_;
    if (index >= entries_.size()) grow(index + 1);
    count_ = std::max<std::size_t>(count_, index + 1);
    return &entry(index);
  }

  // As at(), but null if no record waits there. Makes no room.
  Entry* waiting(std::uint64_t sequence) {
    if (sequence < next_ || sequence - next_ >= count_) return nullptr;
    Entry& found = entry(sequence - next_);
    return found.record ? &found : nullptr;
  }

  // The records [from, to) will never be pushed.
  void skip(std::uint64_t from, std::uint64_t to) {
    if (count_ == 0 && from <= next_) {  // a long run may leave out millions at once
      if (to > next_) next_ = to;
      return;
    }
    for (std::uint64_t sequence = from; sequence < to; ++sequence) {
      if (Entry* waits = at(sequence)) waits->settled = true;
    }
  }

  // The next record in order, null if it is not there. With `force` gaps are skipped: their records then count as late.
  const Record* next(bool force) {
    while (count_ > 0 && (force || entry(0).settled)) {
      if (entry(0).record) return &*entry(0).record;
      leave();
    }
    return nullptr;
  }

  // Takes the record that next() has just returned.
  Entry pop() {
    Entry first = std::move(entry(0));
    leave();
    return first;
  }

  void clear() {
    while (count_ > 0) leave();
  }

 private:
  static constexpr std::uint64_t kFarthest = 1 << 22;

  Entry& entry(std::size_t index) { return entries_[(first_ + index) & (entries_.size() - 1)]; }

  // The first entry goes, and its place is free again.
  void leave() {
    entry(0) = {};
    first_ = (first_ + 1) & (entries_.size() - 1);
    --count_;
    ++next_;
  }

  void grow(std::size_t least) {
    std::vector<Entry> larger(std::bit_ceil(least));
    for (std::size_t i = 0; i < count_; ++i) larger[i] = std::move(entry(i));
    entries_ = std::move(larger);
    first_ = 0;
  }

  std::uint64_t next_ = 0;      // the sequence of the first entry
  std::vector<Entry> entries_;  // a ring, whose size is a power of two
  std::size_t first_ = 0, count_ = 0;
};

}  // namespace sonde
