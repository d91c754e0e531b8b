// Reorder: keeps records (without their bytes) until all earlier ones are there.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "journal/record.h"
#include "writer/tensor_writer.h"

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
    if (index >= entries_.size()) entries_.resize(index + 1);
    return &entries_[index];
  }

  // As at(), but null if no record waits there. Makes no room.
  Entry* waiting(std::uint64_t sequence) {
    if (sequence < next_ || sequence - next_ >= entries_.size()) return nullptr;
    Entry& entry = entries_[sequence - next_];
    return entry.record ? &entry : nullptr;
  }

  // The records [from, to) will never be pushed.
  void skip(std::uint64_t from, std::uint64_t to) {
    if (entries_.empty() && from <= next_) {  // a long run may leave out millions at once
      if (to > next_) next_ = to;
      return;
    }
    for (std::uint64_t sequence = from; sequence < to; ++sequence) {
      if (Entry* entry = at(sequence)) entry->settled = true;
    }
  }

  // The next record in order, null if it is not there. With `force` gaps are skipped: their records then count as late.
  const Record* next(bool force) {
    while (!entries_.empty() && (force || entries_.front().settled)) {
      if (entries_.front().record) return &*entries_.front().record;
      entries_.pop_front();
      ++next_;
    }
    return nullptr;
  }

  // Takes the record that next() has just returned.
  Entry pop() {
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    ++next_;
    return entry;
  }

  void clear() {
    next_ += entries_.size();
    entries_.clear();
  }

 private:
  static constexpr std::uint64_t kFarthest = 1 << 22;

  std::uint64_t next_ = 0;
  std::deque<Entry> entries_;
};

}  // namespace sonde
