// RecycledMap: objects by number, whose memory is used again. It serves tables that change with every operator of the
// host: once they have their size they allocate nothing, and they take nothing from the host's heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <utility>
#include <vector>

#include "ground/base/memory_apart.h"

namespace sonde {

// Keys are not 0. T has recycle(), which makes it as good as new and may keep its memory; if it has an allocator_type, it
// gets its memory from the map. Objects keep their address.
template <typename T>
class RecycledMap {
 public:
  T* find(std::uint64_t key) {
    const Place* place = tables_->size != 0 ? &places()[place_of(key)] : nullptr;
    return place != nullptr && place->key == key ? place->object : nullptr;
  }
  const T* find(std::uint64_t key) const { return const_cast<RecycledMap*>(this)->find(key); }

  // The object, and whether it is new.
  std::pair<T*, bool> obtain(std::uint64_t key) {
    if (2 * (size() + 1) > places().size()) grow();
    Place& place = places()[place_of(key)];
    const bool is_new = place.key != key;
    if (is_new) place = {key, take()};
    return {place.object, is_new};
  }

  void erase(std::uint64_t key) {
    if (size() == 0) return;
    std::size_t hole = place_of(key);
    if (places()[hole].key != key) return;
    give(places()[hole].object);
    // Those behind it move up, so that a search never meets a hole before its key.
    for (std::size_t at = next(hole); places()[at].key != 0; at = next(at)) {
      const std::size_t home = home_of(places()[at].key);
      if (((at - home) & mask()) < ((at - hole) & mask())) continue;
      places()[hole] = places()[at];
      hole = at;
    }
    places()[hole] = {};
  }

  // Calls `visit(key, object)` for all.
  template <typename F>
  void for_each(F visit) {
    for (const Place& place : places()) {
      if (place.key != 0) visit(place.key, *place.object);
    }
  }

  // Erases those for which `is_old(object)` is true, and returns their number.
  template <typename F>
  std::size_t erase_if(F is_old) {
    std::vector<std::uint64_t> old;
    for_each([&](std::uint64_t key, T& object) {
      if (is_old(object)) old.push_back(key);
    });
    for (const std::uint64_t key : old) erase(key);
    return old.size();
  }

  std::size_t size() const { return tables_->size; }

  // Erases all, and keeps the memory.
  void clear() {
    if (size() == 0) return;
    for (Place& place : places()) {
      if (place.key != 0) give(std::exchange(place, {}).object);
    }
  }

  // Erases all, and gives the memory back.
  void release() { tables_ = std::make_unique<Tables>(); }

 private:
  struct Place {
    std::uint64_t key = 0;  // 0: empty
    T* object = nullptr;
  };
  struct Tables {
    MemoryApart memory;
    std::pmr::vector<Place> places{memory.resource()};  // a power of two, at most half of them used
    std::pmr::deque<T> objects{memory.resource()};
    std::pmr::vector<T*> unused{memory.resource()};
    std::size_t size = 0;  // kept, as a search asks for it: that of a deque is computed
  };
  static constexpr std::size_t kFirst = 64;

  std::pmr::vector<Place>& places() { return tables_->places; }
  const std::pmr::vector<Place>& places() const { return tables_->places; }
  std::size_t mask() const { return places().size() - 1; }
  std::size_t next(std::size_t place) const { return (place + 1) & mask(); }
  // Neighbouring numbers lie apart.
  std::size_t home_of(std::uint64_t key) const { return ((key * 0x9E3779B97F4A7C15ULL) >> 32) & mask(); }

  // The place where it is, or belongs.
  std::size_t place_of(std::uint64_t key) const {
    if (places().empty()) return 0;
    std::size_t at = home_of(key);
    while (places()[at].key != 0 && places()[at].key != key) at = next(at);
    return at;
  }

  void grow() {
    std::pmr::vector<Place> larger(places().empty() ? kFirst : 2 * places().size(), tables_->memory.resource());
    larger.swap(places());
    for (const Place& place : larger) {
      if (place.key != 0) places()[place_of(place.key)] = place;
    }
  }

  T* take() {
    if (tables_->unused.empty()) tables_->unused.push_back(&tables_->objects.emplace_back());
    T* object = tables_->unused.back();
    tables_->unused.pop_back();
    ++tables_->size;
    return object;
  }

  void give(T* object) {
    object->recycle();
    tables_->unused.push_back(object);
    --tables_->size;
  }

  std::unique_ptr<Tables> tables_ = std::make_unique<Tables>();
};

}  // namespace sonde
