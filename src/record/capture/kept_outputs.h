// KeptOutputs: the facts about outputs of ops in a compiled graph. The memory of such an output may be gone, or reused,
// when the op that reads it is reported.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "dump/journal/record.h"

namespace sonde {

// Not synchronised: its owner calls it under the session's lock.
class KeptOutputs {
 public:
  // The outputs in `record` so far, without their bytes.
  void keep(const Record& record);
  // Fills `out` with the facts about an output; without them, with the reason.
  void give(std::uint64_t maker, std::uint32_t output, TensorRecord& out) const;
  void forget(std::span<const std::uint64_t> makers);
  void clear() { outputs_.clear(); }

 private:
  struct Output {
    TensorEntry entry;
    std::shared_ptr<HashTexts> hashes;
    std::shared_ptr<LateReading> late;
    const char* skipped = nullptr;
  };
  std::unordered_map<std::uint64_t, std::vector<Output>> outputs_;  // by the sequence of their op
};

}  // namespace sonde
