#include "ask/relations/views.h"

#include <algorithm>
#include <numeric>

#include "read/measure/values.h"
#include "sonde/dtype.h"

namespace sonde {

PartView::PartView(const TensorView& whole) : view_(whole) {
  for (std::size_t axis = 0; axis < whole.shape.size(); ++axis) {
    if (whole.shape[axis] == 1) continue;
    shape_.push_back(whole.shape[axis]);
    strides_.push_back(whole.strides[axis]);
  }
  refer();
}

void PartView::refer() {
  view_.shape = shape_;
  view_.strides = strides_;
}

void PartView::keep(std::size_t axis, std::int64_t start, std::int64_t step, std::int64_t count) {
  view_.data += start * strides_[axis] * info(view_.dtype).item_bytes;
  const std::int64_t stride = strides_[axis] * step;
  shape_.erase(shape_.begin() + static_cast<std::ptrdiff_t>(axis));
  strides_.erase(strides_.begin() + static_cast<std::ptrdiff_t>(axis));
  if (count != 1) {
    shape_.insert(shape_.begin(), count);
    strides_.insert(strides_.begin(), stride);
  }
  refer();
}

void PartView::permute(const std::vector<std::size_t>& order) {
  std::vector<std::int64_t> shape, strides;
  for (const std::size_t axis : order) {
    shape.push_back(shape_[axis]);
    strides.push_back(strides_[axis]);
  }
  shape_ = std::move(shape);
  strides_ = std::move(strides);
  refer();
}

double PartView::at(std::int64_t flat) const {
  std::int64_t place = 0;
  for (std::size_t axis = shape_.size(); axis-- > 0;) {
    place += flat % shape_[axis] * strides_[axis];
    flat /= shape_[axis];
  }
  return element_value(view_, place);
}

std::vector<std::vector<std::size_t>> orders_of(std::size_t rank) {
  constexpr std::size_t kMostAxes = 5;
  std::vector<std::vector<std::size_t>> orders;
  if (rank < 2 || rank > kMostAxes) return orders;
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  while (std::ranges::next_permutation(order).found) orders.push_back(order);
  return orders;
}

}  // namespace sonde
