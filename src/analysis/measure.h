// Measure: statistics of tensors that the dump holds as files only.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "analysis/catalog.h"
#include "sonde/result.h"
#include "store/tensor_file.h"

namespace sonde {

// What TensorFile::open has to know of a tensor.
TensorWish wish_of(const CatalogTensor& tensor);

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
  // Device, inode, and which of the tensors of a file with several.
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, Measured> by_file_;
};

}  // namespace sonde
