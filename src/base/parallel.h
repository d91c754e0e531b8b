// Threads: work cut into numbered parts, done on several threads; the answer must not depend on how many.
//
//   const Threads threads(options.threads);          // 0: as many as there are CPUs
//   std::vector<PairSums> sums(pairs.size());
//   threads.for_each(pairs.size(), [&](std::size_t i) { sums[i] = ...; });   // then look at sums in order
#pragma once

#include <cstddef>
#include <functional>

namespace sonde {

class Threads {
 public:
  // `count` 0: the CPUs this process may use.
  explicit Threads(std::size_t count = 0);

  std::size_t count() const { return count_; }
  // Runs body(0) … body(parts - 1), each once, the next free thread the next part; returns when all have ended. The first
  // (by part) exception is thrown here. Not from inside a body.
  void for_each(std::size_t parts, const std::function<void(std::size_t)>& body) const;
  // The same as a value, for compare_pair (stats/pair.h). Lives no longer than this.
  std::function<void(std::size_t, const std::function<void(std::size_t)>&)> runner() const;

 private:
  std::size_t count_;
};

}  // namespace sonde
