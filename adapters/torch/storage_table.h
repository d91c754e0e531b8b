// StorageTable: a number for each storage of PyTorch, for as long as it lives. One flat array: the look-up of a storage
// touches one place, and a new one allocates nothing once the table has its size.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sonde_torch {

// Not synchronised.
class StorageTable {
 public:
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;
  struct Known {
    c10::StorageImpl* storage = nullptr;  // null: a free place
    std::uint64_t id = 0;
    bool given_away = false;
    Weak alive = Weak::reclaim(nullptr);  // without it the address could be another storage's
  };

  // The place of a storage; a free one if it is not known.
  Known& find(c10::StorageImpl* storage) { return places_[place_of(storage)]; }

  // For a place from find() that is free.
  void add(Known known) {
    if (2 * (size_ + 1) > places_.size()) resize(2 * places_.size());
    c10::StorageImpl* storage = known.storage;
    places_[place_of(storage)] = std::move(known);
    ++size_;
  }

  // Removes the destroyed ones: their numbers go to `ids`, and their weak references to `dead`.
  void purge(std::vector<std::uint64_t>& ids, std::vector<Weak>& dead) {
    std::swap(places_, spare_);
    places_.resize(spare_.size());
    for (Known& known : spare_) {
      if (known.storage == nullptr) continue;
      if (known.alive.expired()) {
        ids.push_back(known.id);
        dead.push_back(std::move(known.alive));
        --size_;
      } else {
        places_[place_of(known.storage)] = std::move(known);
      }
      known = Known();
    }
  }

  std::size_t size() const { return size_; }

 private:
  std::size_t place_of(c10::StorageImpl* storage) const {
    const std::size_t mask = places_.size() - 1;
    std::size_t at = ((reinterpret_cast<std::uintptr_t>(storage) >> 4) * 0x9E3779B97F4A7C15ULL >> 32) & mask;
    while (places_[at].storage != nullptr && places_[at].storage != storage) at = (at + 1) & mask;
    return at;
  }

  void resize(std::size_t places) {
    std::vector<Known> before = std::exchange(places_, std::vector<Known>(places));
    for (Known& known : before) {
      if (known.storage != nullptr) places_[place_of(known.storage)] = std::move(known);
    }
    spare_ = {};
  }

  std::vector<Known> places_ = std::vector<Known>(1024);  // a power of two, at most half of them used
  std::vector<Known> spare_;                              // all free; its memory serves the next purge
  std::size_t size_ = 0;
};

}  // namespace sonde_torch
