// SpareTensors: the vectors of tensors of records that are written, for records to come. Memory that one thread
// allocates and another frees is slow.
#pragma once

#include <utility>
#include <vector>

#include "dump/journal/record.h"
#include "ground/base/mutex.h"

namespace sonde {

class SpareTensors {
 public:
  // Empty, with room for the tensors of most ops. Any thread.
  std::vector<TensorRecord> take() {
    {
      const Lock lock(mutex_);
      if (!spare_.empty()) {
        std::vector<TensorRecord> tensors = std::move(spare_.back());
        spare_.pop_back();
        return tensors;
      }
    }
    std::vector<TensorRecord> tensors;
    tensors.reserve(kUsual);
    return tensors;
  }

  void give(std::vector<TensorRecord>&& tensors) {
    if (tensors.capacity() < kUsual || tensors.capacity() > kLargest) return;
    tensors.clear();
    const Lock lock(mutex_);
    if (spare_.size() < kMost) spare_.push_back(std::move(tensors));
  }

 private:
  static constexpr std::size_t kUsual = 8;
  static constexpr std::size_t kLargest = 64;
  static constexpr std::size_t kMost = 1024;

  Mutex mutex_;
  std::vector<std::vector<TensorRecord>> spare_ GUARDED_BY_MUTEX;
};

}  // namespace sonde
