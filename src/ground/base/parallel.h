// Threads: runs numbered parts of some work on several threads; the result must not depend on the thread count.
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
  // `count` 0: as many as the CPUs this process may use.
  explicit Threads(std::size_t count = 0);

  std::size_t count() const { return count_; }
  // Runs body(0) … body(parts - 1), each once; a free thread takes the next part. Returns when all ended. The first
  // exception (by part) is rethrown here. Must not be called from inside a body.
  void for_each(std::size_t parts, const std::function<void(std::size_t)>& body) const;
  // The same as a callable value, for compare_pair (stats/pair.h). Must not outlive this object.
  std::function<void(std::size_t, const std::function<void(std::size_t)>&)> runner() const;

 private:
  std::size_t count_;
};

}  // namespace sonde
