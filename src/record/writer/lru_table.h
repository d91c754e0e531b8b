// LruTable: a hash table of at most `capacity` entries; when it is full, it drops the least recently used entry.
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

  // Null if the key is not in the table. Valid until the next put().
  Value* find(const Key& key) {
    const auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, at->second);
    return &at->second->second;
  }

  void put(const Key& key, Value value) {
    if (Value* existing = find(key)) {
      *existing = std::move(value);
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
  std::list<Entry> entries_;  // the most recently used first
  std::unordered_map<Key, typename std::list<Entry>::iterator, Hash> index_;
};

}  // namespace sonde
