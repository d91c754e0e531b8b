#include "sonde/tensor.h"

#include "ground/tensor/walk.h"

namespace sonde {

std::int64_t TensorView::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::uint64_t TensorView::bytes() const { return static_cast<std::uint64_t>(elements()) * info(dtype).item_bytes; }

bool TensorView::is_c_contiguous() const {
  if (elements() == 0) return true;
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

bool TensorView::is_dense() const { return elements() == 0 || Walk(*this, WalkOrder::memory).is_one_run(); }

std::string shape_text(std::span<const std::int64_t> shape, char open, char close) {
  std::string text(1, open);
  for (const std::int64_t size : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(size);
  }
  return text += close;
}

}  // namespace sonde
