// RecycledMap: objects by number, whose memory is used again. It serves tables that change with every operator of the
// host: once they have their size they allocate nothing, and leave the host's heap as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace sonde {

// Keys are not 0. T has recycle(), which makes it as good as new and may keep its memory. Objects keep their address.
template <typename T>
class RecycledMap {
 public:
  T* find(std::uint64_t key) {
    const std::size_t at = place_of(key);
    return size_ != 0 && places_[at].key == key ? &objects_[places_[at].object] : nullptr;
  }
  const T* find(std::uint64_t key) const { return const_cast<RecycledMap*>(this)->find(key); }

  // The object, and whether it is new.
  std::pair<T*, bool> obtain(std::uint64_t key) {
    if (2 * (size_ + 1) > places_.size()) grow();
    Place& place = places_[place_of(key)];
    if (place.key == key) return {&objects_[place.object], false};
    place = {key, take()};
    ++size_;
    return {&objects_[place.object], true};
  }

  void erase(std::uint64_t key) {
    if (size_ == 0) return;
    std::size_t hole = place_of(key);
    if (places_[hole].key != key) return;
    give(places_[hole].object);
    --size_;
    // Those behind it move up, so that a search never meets a hole before its key.
    for (std::size_t at = next(hole); places_[at].key != 0; at = next(at)) {
      const std::size_t home = home_of(places_[at].key);
      if (((at - home) & mask()) < ((at - hole) & mask())) continue;
      places_[hole] = places_[at];
      hole = at;
    }
    places_[hole] = {};
  }

  // Calls `visit(key, object)` for all.
  template <typename F>
  void for_each(F visit) {
    for (const Place& place : places_) {
      if (place.key != 0) visit(place.key, objects_[place.object]);
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

  std::size_t size() const { return size_; }

  // Erases all, and keeps the memory.
  void clear() {
    if (size_ == 0) return;
    for (Place& place : places_) {
      if (place.key != 0) give(std::exchange(place, {}).object);
    }
    size_ = 0;
  }

  // Erases all, and gives the memory back.
  void release() { *this = RecycledMap(); }

 private:
  struct Place {
    std::uint64_t key = 0;  // 0: empty
    std::uint32_t object = 0;
  };
  static constexpr std::size_t kFirst = 64;

  std::size_t mask() const { return places_.size() - 1; }
  std::size_t next(std::size_t place) const { return (place + 1) & mask(); }
  // Neighbouring numbers lie apart.
  std::size_t home_of(std::uint64_t key) const { return ((key * 0x9E3779B97F4A7C15ULL) >> 32) & mask(); }

  // Where it is, or belongs.
  std::size_t place_of(std::uint64_t key) const {
    if (places_.empty()) return 0;
    std::size_t at = home_of(key);
    while (places_[at].key != 0 && places_[at].key != key) at = next(at);
    return at;
  }

  void grow() {
    const std::size_t places = places_.empty() ? kFirst : 2 * places_.size();
    const std::vector<Place> before = std::exchange(places_, std::vector<Place>(places));
    for (const Place& place : before) {
      if (place.key != 0) places_[place_of(place.key)] = place;
    }
  }

  std::uint32_t take() {
    if (!unused_.empty()) {
      const std::uint32_t object = unused_.back();
      unused_.pop_back();
      return object;
    }
    objects_.emplace_back();
    return static_cast<std::uint32_t>(objects_.size() - 1);
  }

  void give(std::uint32_t object) {
    objects_[object].recycle();
    unused_.push_back(object);
  }

  std::vector<Place> places_;  // a power of two, at most half of them used
  std::deque<T> objects_;
  std::vector<std::uint32_t> unused_;
  std::size_t size_ = 0;
};

}  // namespace sonde
