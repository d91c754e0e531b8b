// Forgotten: sequence numbers that will never be recorded; adjacent ranges are joined.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace sonde {

class Forgotten {
 public:
  void add(std::uint64_t from, std::uint64_t to) {  // [from, to)
    auto next = ranges_.upper_bound(from);
    if (next != ranges_.begin() && std::prev(next)->second == from) {
      from = std::prev(next)->first;
      ranges_.erase(std::prev(next));
    }
    if (next != ranges_.end() && next->first == to) {
      to = next->second;
      ranges_.erase(next);
    }
    ranges_[from] = to;
  }
  const std::map<std::uint64_t, std::uint64_t>& ranges() const { return ranges_; }
  void clear() { ranges_.clear(); }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;
};

}  // namespace sonde
