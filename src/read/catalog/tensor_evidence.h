// TensorEvidence: whether two tensors of a dump may be the same memory, by type, size and samples of their values. It
// distinguishes operators whose names do not. A proof needs all values: same_values.h.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "read/catalog/catalog.h"

namespace sonde {

class TensorEvidence {
 public:
  // At most `most_bytes` of files are read.
  TensorEvidence(const CatalogRank& rank, std::uint64_t most_bytes) : rank_(rank), bytes_left_(most_bytes) {}

  struct Facts {
    DType dtype = DType::undefined;
    std::optional<std::uint64_t> elements;
    std::optional<std::uint64_t> sample;  // a hash of its first, middle and last bytes
  };
  const Facts& of(const CatalogTensor& tensor);

  // Empty if the dump does not say. The shapes may differ: a Reshape needs no kernel.
  std::optional<bool> same(const CatalogTensor& a, const CatalogTensor& b);

 private:
  Facts look(const CatalogTensor& tensor);
  void sample(const CatalogTensor& tensor, Facts& facts);

  const CatalogRank& rank_;
  std::uint64_t bytes_left_;
  std::unordered_map<const CatalogTensor*, Facts> facts_;
};

// False: the sizes prove that the memory is not the same.
bool sizes_agree(const CatalogTensor& a, const CatalogTensor& b);
std::optional<std::uint64_t> elements_of(const Dims& shape);

}  // namespace sonde
