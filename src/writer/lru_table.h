// LruTable: a hash table that forgets what was not asked for longest, once it holds `capacity` entries.
#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

namespace sonde {

template <typename Key, typename Value, typename Hash = std::hash<Key>>
class LruTable {
 public:
  explicit LruTable(std::size_t capacity) : capacity_(capacity) {}

  // Null when the key is not in the table. Valid until the next put().
  Value* find(const Key& key) {
    const auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, at->second);
    return &at->second->second;
  }

  void put(const Key& key, Value value) {
    if (Value* held = find(key)) {
      *held = std::move(value);
      return;
    }
    if (entries_.size() >= capacity_) {
      index_.erase(entries_.back().first);
      entries_.pop_back();
    }
    entries_.emplace_front(key, std::move(value));
    index_.emplace(key, entries_.begin());
  }

 private:
  using Entry = std::pair<Key, Value>;
  std::size_t capacity_;
  std::list<Entry> entries_;  // the latest asked for first
  std::unordered_map<Key, typename std::list<Entry>::iterator, Hash> index_;
};

}  // namespace sonde
