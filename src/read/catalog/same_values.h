// Finds out if two tensors of a dump have the same values, by any evidence in the dump.
#pragma once

#include <cstdint>
#include <optional>

#include "read/catalog/catalog.h"

namespace sonde {

class SameValues {
 public:
  // Files are compared up to this many bytes.
  explicit SameValues(const CatalogRank& rank, std::uint64_t most_bytes) : rank_(rank), bytes_left_(most_bytes) {}

  // Empty if the dump does not say.
  std::optional<bool> operator()(const CatalogTensor& a, const CatalogTensor& b);

 private:
  std::optional<bool> same_files(const CatalogTensor& a, const CatalogTensor& b);

  const CatalogRank& rank_;
  std::uint64_t bytes_left_;
};

}  // namespace sonde
