// Views of parts of tensors, for comparisons without copies.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sonde/tensor.h"

namespace sonde {

// Owns the shape that its view refers to; not copied, as the view would then refer to the other one's.
class PartView {
 public:
  // Without the dimensions of 1.
  explicit PartView(const TensorView& whole);
  PartView(const PartView&) = delete;
  PartView& operator=(const PartView&) = delete;

  const TensorView& view() const { return view_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  // Keeps `count` indices of an axis from `start` on, each `step` further (0: one of them again and again), and makes
  // this axis the first.
  void keep(std::size_t axis, std::int64_t start, std::int64_t step, std::int64_t count);
  void permute(const std::vector<std::size_t>& order);
  // Of the element with this number in C order.
  double at(std::int64_t flat) const;

 private:
  void refer();

  TensorView view_;
  std::vector<std::int64_t> shape_, strides_;
};

// Orders of `rank` axes other than their own; none for more than 5.
std::vector<std::vector<std::size_t>> orders_of(std::size_t rank);

}  // namespace sonde
