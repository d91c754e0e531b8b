// Unwritten: which bytes of one block of fresh memory nobody has written yet. Its owner asks it only while there are any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sonde/tensor.h"

namespace sonde {

class Unwritten {
 public:
  bool any() const { return any_; }
  // The block begins at `block`. Its bytes are fresh, but for the first `kept`.
  void begin(const std::byte* block, std::uint64_t bytes, std::uint64_t kept = 0);
  void end();

  void wrote(const TensorView& view);
  // An element of the view is among them.
  bool holds(const TensorView& view) const;

 private:
  struct Run {
    const std::byte *begin, *end;
  };
  // Written runs, ascending, with gaps between them. Past so many, the rest counts as written.
  static constexpr std::size_t kMostRuns = 256;
  void add(Run run);
  bool has(Run run) const;

  bool any_ = false;
  const std::byte* block_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::vector<Run> written_;
};

}  // namespace sonde
