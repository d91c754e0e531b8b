// Measure: statistics of tensors that the dump holds as files only.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "analysis/catalog.h"
#include "sonde/result.h"

namespace sonde {

// Reads tensor files and fills in what the catalog did not know: statistics, shape, type. Names of
// one file (hard links) are read once. One thread.
class Measurer {
 public:
  // Nothing to do for a tensor that has statistics or no file. Fails where the file cannot be read.
  Status measure(const CatalogRank& rank, CatalogTensor& tensor);

 private:
  struct Measured {
    DType dtype = DType::undefined;
    std::vector<std::int64_t> shape;
    std::optional<KnownStatistics> statistics;  // empty for complex
  };
  std::map<std::pair<std::uint64_t, std::uint64_t>, Measured> by_file_;  // device, inode
};

}  // namespace sonde
