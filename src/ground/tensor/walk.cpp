#include "ground/tensor/walk.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

namespace sonde {
namespace {

template <std::size_t kBytes>
struct Item {
  std::byte bytes[kBytes];
};

template <std::size_t kBytes>
void gather_items(const std::byte* data, std::int64_t stride, std::int64_t count, std::byte* out) {
  Item<kBytes> item;
  if (stride == 0) {  // an expanded dimension: a fill, which the compiler vectorises
    std::memcpy(&item, data, kBytes);
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(out + i * kBytes, &item, kBytes);
    return;
  }
  const std::int64_t step = stride * static_cast<std::int64_t>(kBytes);
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(&item, data + i * step, kBytes);
    std::memcpy(out + i * kBytes, &item, kBytes);
  }
}

}  // namespace

Walk::Walk(const TensorView& view, WalkOrder order) : data(view.data), item_bytes(info(view.dtype).item_bytes) {
  if (order == WalkOrder::c) {
    for (std::size_t i = 0; i < view.shape.size(); ++i) add_dimension(view.shape[i], view.strides[i]);
    return;
  }
  std::size_t dimensions[kMaxRank];
  std::size_t count = 0;
  for (std::size_t i = 0; i < view.shape.size() && count < kMaxRank; ++i) {
    if (view.shape[i] != 1) dimensions[count++] = i;
  }
  // Those that repeat first, then the widest strides. Few dimensions: std::stable_sort would allocate memory.
  const auto comes_before = [&](std::size_t a, std::size_t b) {
    const std::int64_t first = std::abs(view.strides[a]), second = std::abs(view.strides[b]);
    return first == 0 ? second != 0 : second != 0 && first > second;
  };
  for (std::size_t i = 1; i < count; ++i) {
    for (std::size_t j = i; j > 0 && comes_before(dimensions[j], dimensions[j - 1]); --j) {
      std::swap(dimensions[j], dimensions[j - 1]);
    }
  }
  for (std::size_t i = 0; i < count; ++i) add_dimension(view.shape[dimensions[i]], view.strides[dimensions[i]]);
}

void Walk::add_dimension(std::int64_t elements, std::int64_t step) {
  if (elements == 1) return;
  if (rank > 0 && stride[rank - 1] == elements * step) {
    size[rank - 1] *= elements;
    stride[rank - 1] = step;
  } else if (rank < kMaxRank) {
    size[rank] = elements;
    stride[rank] = step;
    ++rank;
  }
}

std::int64_t Walk::elements() const { return std::accumulate(size, size + rank, std::int64_t{1}, std::multiplies<>()); }

bool operator==(const Walk& a, const Walk& b) {
  return a.data == b.data && a.item_bytes == b.item_bytes &&
         std::equal(a.size, a.size + a.rank, b.size, b.size + b.rank) &&
         std::equal(a.stride, a.stride + a.rank, b.stride, b.stride + b.rank);
}

Cursor::Cursor(const Walk& walk) : walk_(walk), row_(walk.data), total_(walk.elements()), left_(total_) {
  row_size_ = walk_.rank > 0 ? walk_.size[walk_.rank - 1] : 1;
  row_stride_ = walk_.rank > 0 ? walk_.stride[walk_.rank - 1] : 1;
  std::fill_n(index_, walk_.rank, 0);
}

void Cursor::seek(std::int64_t elements) {
  left_ = total_ - elements;
  row_ = walk_.data;
  column_ = 0;
  if (left_ <= 0 || walk_.rank == 0) return;
  column_ = elements % row_size_;
  std::int64_t rest = elements / row_size_;
  for (std::size_t i = walk_.rank - 1; i-- > 0;) {
    index_[i] = rest % walk_.size[i];
    rest /= walk_.size[i];
    row_ += index_[i] * walk_.stride[i] * static_cast<std::int64_t>(walk_.item_bytes);
  }
}

void Cursor::advance_row() {
  column_ = 0;
  const auto item_bytes = static_cast<std::int64_t>(walk_.item_bytes);
  for (std::size_t i = walk_.rank - 1; i-- > 0;) {
    row_ += walk_.stride[i] * item_bytes;
    if (++index_[i] < walk_.size[i]) return;
    row_ -= walk_.stride[i] * walk_.size[i] * item_bytes;
    index_[i] = 0;
  }
}

std::size_t Cursor::read(std::byte* out, std::size_t max_elements) {
  const std::int64_t wanted = std::min<std::int64_t>(static_cast<std::int64_t>(max_elements), left_);
  const auto item_bytes = static_cast<std::int64_t>(walk_.item_bytes);
  for (std::int64_t done = 0; done < wanted;) {
    const std::int64_t count = std::min(wanted - done, row_size_ - column_);
    gather(row_ + column_ * row_stride_ * item_bytes, row_stride_, count, walk_.item_bytes, out + done * item_bytes);
    done += count;
    column_ += count;
    left_ -= count;
    if (column_ == row_size_ && left_ > 0) advance_row();
  }
  return static_cast<std::size_t>(wanted);
}

void gather(const std::byte* data, std::int64_t stride, std::int64_t count, std::size_t item_bytes, std::byte* out) {
  if (stride == 1) {
    std::memcpy(out, data, static_cast<std::size_t>(count) * item_bytes);
    return;
  }
  switch (item_bytes) {
    case 1:
      return gather_items<1>(data, stride, count, out);
    case 2:
      return gather_items<2>(data, stride, count, out);
    case 4:
      return gather_items<4>(data, stride, count, out);
    case 8:
      return gather_items<8>(data, stride, count, out);
    case 16:
      return gather_items<16>(data, stride, count, out);
    default:
      return;  // no dtype has another size
  }
}

}  // namespace sonde
