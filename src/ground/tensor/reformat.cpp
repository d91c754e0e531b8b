#include "ground/tensor/reformat.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "ground/base/shape.h"
#include "ground/tensor/reformat_planner.h"
#include "sonde/tensor.h"

namespace sonde {
namespace {

// Work that a thread gets at a time: a good part of a second-level cache.
constexpr std::int64_t kPieceBytes = 1 << 20;

std::int64_t product(std::span<const std::int64_t> sizes) {
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) elements *= size;
  return elements;
}

}  // namespace

bool Reformat::is_reshape() const {
  if (elements_ == 0) return true;
  if (boxes_.size() != 1 || covered_ != elements_ || boxes_[0].from_offset != 0) return false;
  const auto& dims = boxes_[0].dims;
  return dims.empty() || (dims.size() == 1 && dims[0].from_stride == 1 && dims[0].to_stride == 1);
}

void Reformat::copy_part(const std::byte* from, std::byte* out, std::size_t item_bytes, std::int64_t first,
                         std::int64_t last) const {
  if (covered_ != elements_) std::memset(out, 0, static_cast<std::size_t>(last - first) * item_bytes);
  for (const CopyBox& box : boxes_) copy_box(box, from, out, item_bytes, first, last);
}

void Reformat::copy(const std::byte* from, std::byte* out, std::size_t item_bytes, unsigned threads) const {
  const std::int64_t piece = std::max<std::int64_t>(1, kPieceBytes / static_cast<std::int64_t>(item_bytes));
  const std::int64_t pieces = (elements_ + piece - 1) / piece;
  std::atomic<std::int64_t> next = 0;
  const auto work = [&] {
    for (std::int64_t i = next++; i < pieces; i = next++) {
      const std::int64_t first = i * piece, last = std::min(first + piece, elements_);
      copy_part(from, out + first * static_cast<std::int64_t>(item_bytes), item_bytes, first, last);
    }
  };
  std::vector<std::jthread> helpers;
  for (unsigned i = 1; i < threads && static_cast<std::int64_t>(i) < pieces; ++i) helpers.emplace_back(work);
  work();
}

Reformat Reformat::crop(std::span<const std::int64_t> shape, std::span<const std::int64_t> sizes) {
  Reformat plan;
  plan.shape_.assign(sizes.begin(), sizes.end());
  plan.from_elements_ = product(shape);
  plan.elements_ = plan.covered_ = product(sizes);
  CopyBox box;
  std::int64_t from_stride = 1, to_stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    box.dims.push_back({sizes[d], from_stride, to_stride});
    from_stride *= shape[d];
    to_stride *= sizes[d];
  }
  box.simplify();
  plan.boxes_.push_back(std::move(box));
  return plan;
}

Reformat Reformat::reshape(std::vector<std::int64_t> shape) {
  Reformat plan = crop(shape, shape);
  plan.shape_ = std::move(shape);
  return plan;
}

Result<Reformat> plan_crop(std::span<const std::int64_t> shape, std::span<const std::int64_t> sizes) {
  const auto refuse = [&] {
    return Error{ErrorCode::invalid_argument,
                 "shape " + shape_text(shape, '(', ')') + " cannot be cropped to " + shape_text(sizes, '(', ')')};
  };
  if (!has_sane_strides(shape) || !has_sane_strides(sizes)) return refuse();
  std::vector<std::int64_t> from(shape.begin(), shape.end()), to(sizes.begin(), sizes.end());
  if (from.size() < to.size()) {
    const auto without_ones = [](std::vector<std::int64_t> values) {
      std::erase(values, 1);
      return values;
    };
    if (without_ones(from) != without_ones(to)) return refuse();
    return Reformat::reshape(from);
  }
  from.resize(std::max<std::size_t>(4, from.size()), 1);
  to.resize(from.size(), 1);
  const auto wide = std::ranges::count_if(from, [](std::int64_t size) { return size != 1; });
  const bool is_line = product(from) == product(to) && wide <= 1;
  const auto differ = std::ranges::mismatch(from, to);
  if (is_line || differ.in1 == from.end()) return Reformat::reshape({shape.begin(), shape.end()});
  if (*differ.in1 < *differ.in2) return refuse();
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::min(to[i], from[i]);
  from.resize(shape.size());
  to.resize(shape.size());
  return Reformat::crop(from, to);
}

}  // namespace sonde
