// SlotValues: the values of one slot of an op, for access to single elements.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dump/formats/tensor_file.h"
#include "read/catalog/catalog.h"

namespace sonde {

using Position = std::vector<std::int64_t>;
std::string position_text(const Position& position);  // "[3,17]"; empty for a scalar

class SlotValues {
 public:
  // Empty if it has no values in the dump, or if they cannot be read. A number in the user's code has one value.
  static std::optional<SlotValues> open(const CatalogRank& rank, const CatalogTensor& tensor);

  const CatalogTensor& tensor() const { return *tensor_; }
  DType dtype() const;  // of its file, if it has one
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t elements() const;

  double at(const Position& position) const;  // NaN if there is no such element
  // `position` is one of a result to which this operand was broadcast.
  double broadcast_at(const Position& position) const;
  Position broadcast(const Position& position) const;
  // As broadcast_at(), of a complex number its size.
  double magnitude_at(const Position& position) const;

  std::vector<double> values() const;  // all, in C order
  // The positions of the first `most` elements of a kind, in C order.
  enum class Want { nan, inf, bad };
  std::vector<Position> find(Want want, std::size_t most) const;

 private:
  // In the file; nothing if there is no such element.
  std::optional<std::int64_t> index_of(const Position& position) const;

  const CatalogTensor* tensor_ = nullptr;
  std::shared_ptr<const TensorFile> file_;
  std::vector<std::int64_t> shape_;
  std::optional<double> number_;
};

// The largest finite number of a type; 0 for types that are not floating point.
double largest_of(DType dtype);

}  // namespace sonde
