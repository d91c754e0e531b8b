// copy_c_order: whole, by runs, by tiles where the view is a transpose, else element by element.
#include <algorithm>
#include <cstring>

#include "tensor/walk.h"

namespace sonde {
namespace {

// A plane of the view: `rows` are a dimension of the view whose elements lie closest in memory,
// `columns` its last one.
struct Plane {
  std::int64_t rows, columns;
  std::int64_t row_stride, column_stride;  // in memory, elements
  std::int64_t out_row_stride;             // in the copy, elements; columns lie side by side there
};

// Tiles of this many elements a side keep the lines that are read and those that are written in the
// first-level cache.
constexpr std::int64_t kTile = 16;

template <typename Item>
void copy_tile(const Plane& plane, const std::byte* data, std::byte* out, std::int64_t rows,
               std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t from = r * plane.row_stride + c * plane.column_stride;
      std::memcpy(out + (r * plane.out_row_stride + c) * sizeof(Item), data + from * sizeof(Item),
                  sizeof(Item));
    }
  }
}

template <typename Item>
void copy_plane(const Plane& plane, const std::byte* data, std::byte* out) {
  const auto bytes = static_cast<std::int64_t>(sizeof(Item));
  for (std::int64_t c = 0; c < plane.columns; c += kTile) {
    for (std::int64_t r = 0; r < plane.rows; r += kTile) {
      copy_tile<Item>(plane, data + (r * plane.row_stride + c * plane.column_stride) * bytes,
                      out + (r * plane.out_row_stride + c) * bytes, std::min(kTile, plane.rows - r),
                      std::min(kTile, plane.columns - c));
    }
  }
}

using CopyPlane = void (*)(const Plane&, const std::byte*, std::byte*);

struct Item16 {
  std::uint64_t halves[2];
};

CopyPlane plane_copier(std::size_t item_bytes) {
  switch (item_bytes) {
    case 1:
      return copy_plane<std::uint8_t>;
    case 2:
      return copy_plane<std::uint16_t>;
    case 4:
      return copy_plane<std::uint32_t>;
    case 8:
      return copy_plane<std::uint64_t>;
    default:
      return copy_plane<Item16>;
  }
}

// Elements that are side by side in the copy lie apart in memory, in more than one row.
bool is_transposed(const Walk& walk) {
  return walk.rank >= 2 && walk.stride[walk.rank - 1] != 1 && walk.stride[walk.rank - 1] != 0;
}

// The dimension, other than the last, along which memory is densest.
std::size_t densest_outer(const Walk& walk) {
  std::size_t best = 0;
  for (std::size_t i = 1; i + 1 < walk.rank; ++i) {
    if (std::abs(walk.stride[i]) < std::abs(walk.stride[best])) best = i;
  }
  return best;
}

void copy_by_planes(const Walk& walk, std::byte* out) {
  const std::size_t last = walk.rank - 1;
  const std::size_t row = densest_outer(walk);
  std::int64_t out_stride[Walk::kMaxRank];
  out_stride[last] = 1;
  for (std::size_t i = last; i-- > 0;) out_stride[i] = out_stride[i + 1] * walk.size[i + 1];
  const Plane plane = {walk.size[row], walk.size[last], walk.stride[row], walk.stride[last],
                       out_stride[row]};
  const CopyPlane copy = plane_copier(walk.item_bytes);
  const auto bytes = static_cast<std::int64_t>(walk.item_bytes);

  const std::byte* data = walk.data;
  std::int64_t index[Walk::kMaxRank] = {};
  const auto next_plane = [&] {
    for (std::size_t i = last; i-- > 0;) {
      if (i == row) continue;
      data += walk.stride[i] * bytes;
      out += out_stride[i] * bytes;
      if (++index[i] < walk.size[i]) return true;
      data -= walk.stride[i] * walk.size[i] * bytes;
      out -= out_stride[i] * walk.size[i] * bytes;
      index[i] = 0;
    }
    return false;
  };
  do {
    copy(plane, data, out);
  } while (next_plane());
}

}  // namespace

void copy_c_order(const TensorView& view, std::byte* out) {
  const std::int64_t elements = view.elements();
  if (elements == 0) return;
  if (view.is_c_contiguous()) {
    std::memcpy(out, view.data, view.bytes());
  } else {
    const Walk walk(view);
    if (is_transposed(walk)) {
      copy_by_planes(walk, out);
    } else {
      Cursor(view).read(out, static_cast<std::size_t>(elements));
    }
  }
  resolve_bits(view, out, static_cast<std::size_t>(elements));
}

}  // namespace sonde
