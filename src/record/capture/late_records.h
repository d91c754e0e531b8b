// LateRecords: keeps records in the order of the run while a device still reads tensors of some of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <variant>

#include "dump/journal/late_reading.h"
#include "dump/journal/record.h"
#include "record/capture/session_lock.h"

namespace sonde {

// The beginning or the end of a step, for the modes that keep its records until something is found in it.
struct StepMark {
  bool begins = false;
  std::uint32_t graph = 0;
  bool keeps = false;
};

// Not synchronised: its owner calls it under the session's lock.
class LateRecords {
 public:
  using Entry = std::variant<Record, StepMark>;

  void add(Entry&& entry) { entries_.push_back(std::move(entry)); }
  bool is_empty() const { return entries_.empty(); }
  void clear() {
    entries_.clear();
    arrived_ = 0;
  }

  // Calls take(entry) for those whose tensors are there, until one is not. `all`: for all.
  template <typename Take>
  void advance(bool all, Take take) REQUIRES(session_lock) {
    while (!entries_.empty() && (all || has_arrived(entries_.front()))) {
      Entry entry = std::move(entries_.front());
      entries_.pop_front();
      arrived_ = 0;
      take(std::move(entry));
    }
  }

 private:
  // Of the first entry. The tensors of an optimizer's step are thousands, and this is asked when each of them arrives.
  bool has_arrived(const Entry& entry) {
    const auto* record = std::get_if<Record>(&entry);
    if (record == nullptr) return true;
    const auto is_there = [](const TensorRecord& tensor) {
      return tensor.late == nullptr || tensor.late->arrived.load(std::memory_order_acquire);
    };
    while (arrived_ < record->tensors.size() && is_there(record->tensors[arrived_])) ++arrived_;
    return arrived_ == record->tensors.size();
  }

  std::deque<Entry> entries_;
  std::size_t arrived_ = 0;  // tensors at the beginning of the first entry
};

}  // namespace sonde
