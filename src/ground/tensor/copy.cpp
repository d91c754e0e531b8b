// copy_c_order: as a whole, by runs, by tiles if the view is a transpose, otherwise element by element.
#include <algorithm>
#include <cstring>

#include "ground/tensor/strided_copy.h"
#include "ground/tensor/walk.h"

namespace sonde {
namespace {

// A plane of the view: `rows` are a dimension of the view whose elements lie closest in memory, `columns` its last one.
struct Plane {
  std::int64_t rows, columns;
  std::int64_t row_stride, column_stride;  // in memory, elements
  std::int64_t out_row_stride;             // in the copy, elements; its columns are adjacent
};

// A tile's side: one cache line of elements, so that each line of memory and of the copy is touched once per tile.
template <typename Item>
constexpr std::int64_t kTile = 64 / static_cast<std::int64_t>(sizeof(Item));

// Signed, as strides are: they may be negative.
template <typename Item>
constexpr std::int64_t kItemBytes = static_cast<std::int64_t>(sizeof(Item));

// Copies `rows` x `columns` of the plane through a small square. This helps with strides that are powers of two: all
// the lines of a tile then compete for the same few places of the cache.
template <typename Item>
void copy_tile(const Plane& plane, const std::byte* data, std::byte* out, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kSide = kTile<Item>;
  Item square[kSide][kSide];
  for (std::int64_t c = 0; c < columns; ++c) {
    const std::byte* column = data + c * plane.column_stride * kItemBytes<Item>;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(&square[r][c], column + r * plane.row_stride * kItemBytes<Item>, sizeof(Item));
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(out + r * plane.out_row_stride * kItemBytes<Item>, square[r], columns * sizeof(Item));
  }
}

// The same for a whole tile of a plane whose rows are adjacent in memory: all bounds are known.
template <typename Item>
void copy_whole_tile(const Plane& plane, const std::byte* data, std::byte* out) {
  constexpr std::int64_t kSide = kTile<Item>;
  Item square[kSide][kSide];
  for (std::int64_t c = 0; c < kSide; ++c) {
    Item line[kSide];
    std::memcpy(line, data + c * plane.column_stride * kItemBytes<Item>, sizeof(line));
    for (std::int64_t r = 0; r < kSide; ++r) square[r][c] = line[r];
  }
  for (std::int64_t r = 0; r < kSide; ++r) {
    std::memcpy(out + r * plane.out_row_stride * kItemBytes<Item>, square[r], sizeof(square[r]));
  }
}

// Tiles [row, row + kSide) x [column, column + kSide), cut off at the plane's edges.
template <typename Item>
void copy_tile_at(const Plane& plane, const std::byte* data, std::byte* out, std::int64_t row, std::int64_t column) {
  constexpr std::int64_t kSide = kTile<Item>;
  data += (row * plane.row_stride + column * plane.column_stride) * kItemBytes<Item>;
  out += (row * plane.out_row_stride + column) * kItemBytes<Item>;
  const std::int64_t rows = std::min(kSide, plane.rows - row);
  const std::int64_t columns = std::min(kSide, plane.columns - column);
  if (rows == kSide && columns == kSide && plane.row_stride == 1) {
    copy_whole_tile<Item>(plane, data, out);
  } else {
    copy_tile<Item>(plane, data, out, rows, columns);
  }
}

// Rows of the plane that are copied together: enough to read memory in long stretches, few enough to keep the pages of
// the copy in the address cache.
constexpr std::int64_t kBand = 256;

template <typename Item>
void copy_plane(const Plane& plane, const std::byte* data, std::byte* out) {
  for (std::int64_t band = 0; band < plane.rows; band += kBand) {
    const std::int64_t band_end = std::min(band + kBand, plane.rows);
    for (std::int64_t c = 0; c < plane.columns; c += kTile<Item>) {
      for (std::int64_t r = band; r < band_end; r += kTile<Item>) {
        copy_tile_at<Item>(plane, data, out, r, c);
      }
    }
  }
}

using CopyPlane = void (*)(const Plane&, const std::byte*, std::byte*);

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

// True if adjacent elements of the copy lie apart in memory, in more than one row.
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
  const Plane plane = {walk.size[row], walk.size[last], walk.stride[row], walk.stride[last], out_stride[row]};
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
