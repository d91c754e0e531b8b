// Whether two tensors of a dump hold the same values, by whatever the dump knows of them.
#pragma once

#include <cstdint>
#include <optional>

#include "catalog/catalog.h"

namespace sonde {

class SameValues {
 public:
  // Files are compared until this many bytes were read.
  explicit SameValues(const CatalogRank& rank, std::uint64_t most_bytes) : rank_(rank), bytes_left_(most_bytes) {}

  // Empty when the dump does not tell.
  std::optional<bool> operator()(const CatalogTensor& a, const CatalogTensor& b);

 private:
  std::optional<bool> same_files(const CatalogTensor& a, const CatalogTensor& b);

  const CatalogRank& rank_;
  std::uint64_t bytes_left_;
};

}  // namespace sonde
