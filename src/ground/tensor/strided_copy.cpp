#include "ground/tensor/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace sonde {
namespace {

using Dim = CopyBox::Dim;

// --- transposes ------------------------------------------------------------------------------------------------------

// A square of elements that fills one register per row, turned by log2(side) rounds of interleaving.
template <typename Item>
struct Square {
  static constexpr std::size_t kSide = 16 / sizeof(Item);
  typedef Item Row __attribute__((vector_size(16)));
  Row rows[kSide];

  template <std::size_t... kLane>
  static Row low(Row a, Row b, std::index_sequence<kLane...>) {
    return __builtin_shufflevector(a, b, ((kLane % 2) * kSide + kLane / 2)...);
  }
  template <std::size_t... kLane>
  static Row high(Row a, Row b, std::index_sequence<kLane...>) {
    return __builtin_shufflevector(a, b, ((kLane % 2) * kSide + kSide / 2 + kLane / 2)...);
  }

  void turn() {
    constexpr auto kLanes = std::make_index_sequence<kSide>();
    for (std::size_t round = 1; round < kSide; round *= 2) {
      Row turned[kSide];
      for (std::size_t i = 0; i < kSide / 2; ++i) {
        turned[2 * i] = low(rows[i], rows[i + kSide / 2], kLanes);
        turned[2 * i + 1] = high(rows[i], rows[i + kSide / 2], kLanes);
      }
      std::memcpy(rows, turned, sizeof rows);
    }
  }
};

// `lines` are adjacent in the source, `columns` in the target.
struct StridedPlane {
  std::int64_t lines, columns;
  std::int64_t from_stride;  // from one column to the next in the source
  std::int64_t to_stride;    // from one line to the next in the target
};

template <typename Item>
void copy_plane_slowly(const StridedPlane& plane, const Item* from, Item* to, std::int64_t line, std::int64_t line_end,
                       std::int64_t column, std::int64_t column_end) {
  for (std::int64_t l = line; l < line_end; ++l) {
    for (std::int64_t c = column; c < column_end; ++c) {
      std::memcpy(to + l * plane.to_stride + c, from + c * plane.from_stride + l, sizeof(Item));
    }
  }
}

// Lines that are copied together: enough to read the source in long stretches, few enough to keep the target's pages in
// the address cache.
constexpr std::int64_t kStridedBand = 256;

template <typename Item>
void copy_squares(const StridedPlane& plane, const Item* from, Item* to, std::int64_t lines, std::int64_t columns) {
  constexpr auto kSide = static_cast<std::int64_t>(Square<Item>::kSide);
  constexpr std::int64_t kLine = 4 * kSide;  // a line of the cache
  for (std::int64_t band = 0; band < lines; band += kStridedBand) {
    const std::int64_t band_end = std::min(band + kStridedBand, lines);
    for (std::int64_t c = 0; c < columns; c += kLine) {
      const std::int64_t c_end = std::min(c + kLine, columns);
      for (std::int64_t l = band; l < band_end; l += kSide) {
        for (std::int64_t column = c; column < c_end; column += kSide) {
          Square<Item> square;
          for (std::int64_t i = 0; i < kSide; ++i) {
            std::memcpy(&square.rows[i], from + (column + i) * plane.from_stride + l, 16);
          }
          square.turn();
          for (std::int64_t i = 0; i < kSide; ++i) {
            std::memcpy(to + (l + i) * plane.to_stride + column, &square.rows[i], 16);
          }
        }
      }
    }
  }
}

template <typename Item>
void copy_strided_plane(const StridedPlane& plane, const std::byte* from_bytes, std::byte* to_bytes) {
  // Never dereferenced with this type: the address of an element need not be a multiple of its size.
  const Item* from = reinterpret_cast<const Item*>(from_bytes);
  Item* to = reinterpret_cast<Item*>(to_bytes);
  std::int64_t lines = 0, columns = 0;
  if constexpr (sizeof(Item) < 16) {
    constexpr auto kSide = static_cast<std::int64_t>(Square<Item>::kSide);
    lines = plane.lines / kSide * kSide;
    columns = plane.columns / kSide * kSide;
    copy_squares<Item>(plane, from, to, lines, columns);
  }
  copy_plane_slowly<Item>(plane, from, to, 0, lines, columns, plane.columns);
  copy_plane_slowly<Item>(plane, from, to, lines, plane.lines, 0, plane.columns);
}

// --- rows ------------------------------------------------------------------------------------------------------------

struct Rows {
  std::int64_t count, from_stride, to_stride;  // bytes apart
};

template <std::size_t kBytes>
void copy_rows_of(const Rows& rows, const std::byte* from, std::byte* to) {
  for (std::int64_t i = 0; i < rows.count; ++i) {
    std::memcpy(to + i * rows.to_stride, from + i * rows.from_stride, kBytes);
  }
}

// Short rows of a known length need a few moves each; a call of memcpy for every 32 bytes costs more.
void copy_rows(const Rows& rows, std::size_t row_bytes, const std::byte* from, std::byte* to) {
  switch (row_bytes) {
    case 1:
      return copy_rows_of<1>(rows, from, to);
    case 2:
      return copy_rows_of<2>(rows, from, to);
    case 4:
      return copy_rows_of<4>(rows, from, to);
    case 8:
      return copy_rows_of<8>(rows, from, to);
    case 16:
      return copy_rows_of<16>(rows, from, to);
    case 32:
      return copy_rows_of<32>(rows, from, to);
    case 64:
      return copy_rows_of<64>(rows, from, to);
    case 128:
      return copy_rows_of<128>(rows, from, to);
    default:
      for (std::int64_t i = 0; i < rows.count; ++i) {
        std::memcpy(to + i * rows.to_stride, from + i * rows.from_stride, row_bytes);
      }
  }
}

// --- boxes -----------------------------------------------------------------------------------------------------------

// Calls `copy(from, to)` for the beginning of each of the boxes that `dims` count through; offsets in elements.
template <typename Copy>
void for_each(std::span<const Dim> dims, std::int64_t from, std::int64_t to, const Copy& copy) {
  if (dims.empty()) return copy(from, to);
  for (std::int64_t i = 0; i < dims[0].size; ++i) {
    for_each(dims.subspan(1), from + i * dims[0].from_stride, to + i * dims[0].to_stride, copy);
  }
}

// The memory of both sides. `to` is the address that element 0 of the target would have.
struct Sides {
  const std::byte* from;
  std::byte* to;
  std::size_t item_bytes;
  std::int64_t first;  // element of the target that `to` holds first

  const std::byte* source(std::int64_t element) const { return from + element * static_cast<std::int64_t>(item_bytes); }
  std::byte* target(std::int64_t element) const {
    return to + (element - first) * static_cast<std::int64_t>(item_bytes);
  }
};

void copy_plane_of(std::size_t item_bytes, const StridedPlane& plane, const std::byte* from, std::byte* to) {
  switch (item_bytes) {
    case 1:
      return copy_strided_plane<std::uint8_t>(plane, from, to);
    case 2:
      return copy_strided_plane<std::uint16_t>(plane, from, to);
    case 4:
      return copy_strided_plane<std::uint32_t>(plane, from, to);
    case 8:
      return copy_strided_plane<std::uint64_t>(plane, from, to);
    default:
      return copy_strided_plane<Item16>(plane, from, to);
  }
}

bool is_power_of_two_item(std::size_t bytes) { return bytes <= 16 && (bytes & (bytes - 1)) == 0; }

// Rows of the next wider dimension that are copied together if they are adjacent in the source, so that each cache line
// of it is read once: the narrower dimension may step over it a thousand times.
constexpr std::int64_t kRowsTogether = 8;

void copy_by_rows(const Sides& sides, std::span<const Dim> dims, std::int64_t from, std::int64_t to) {
  const auto item = static_cast<std::int64_t>(sides.item_bytes);
  Dim run = {1, 1, 1};
  if (!dims.empty() && dims.back().from_stride == 1 && dims.back().to_stride == 1) {
    run = dims.back();
    dims = dims.first(dims.size() - 1);
  }
  const auto take_last = [&] {
    if (dims.empty()) return Dim{1, 0, 0};
    const Dim last = dims.back();
    dims = dims.first(dims.size() - 1);
    return last;
  };
  const Dim rows = take_last();
  const bool is_crossed = !dims.empty() && dims.back().from_stride < rows.from_stride;
  const Dim wider = is_crossed ? take_last() : Dim{1, 0, 0};
  const auto row_bytes = static_cast<std::size_t>(run.size * item);
  const auto copy_rows_at = [&](const Dim& dim, std::int64_t count, std::int64_t f, std::int64_t t) {
    copy_rows({count, dim.from_stride * item, dim.to_stride * item}, row_bytes, sides.source(f), sides.target(t));
  };
  for_each(dims, from, to, [&](std::int64_t f, std::int64_t t) {
    if (!is_crossed) return copy_rows_at(rows, rows.size, f, t);
    for (std::int64_t w = 0; w < wider.size; w += kRowsTogether) {
      const std::int64_t together = std::min(kRowsTogether, wider.size - w);
      for (std::int64_t r = 0; r < rows.size; ++r) {
        copy_rows_at(wider, together, f + w * wider.from_stride + r * rows.from_stride,
                     t + w * wider.to_stride + r * rows.to_stride);
      }
    }
  });
}

// Copies all of a box, from the first dimension in `dims` on.
void copy_whole(const Sides& sides, std::span<const Dim> dims, std::int64_t from, std::int64_t to) {
  const bool is_run = dims.empty() || dims.back().from_stride == 1 || dims.back().to_stride != 1;
  const auto lines = std::ranges::find(dims, 1, &Dim::from_stride);
  if (is_run || lines == dims.end() || !is_power_of_two_item(sides.item_bytes)) {
    return copy_by_rows(sides, dims, from, to);
  }
  const Dim columns = dims.back();
  const StridedPlane plane = {lines->size, columns.size, columns.from_stride, lines->to_stride};
  std::vector<Dim> outer(dims.begin(), dims.end() - 1);
  outer.erase(outer.begin() + (lines - dims.begin()));
  for_each(std::span<const Dim>(outer), from, to, [&](std::int64_t f, std::int64_t t) {
    copy_plane_of(sides.item_bytes, plane, sides.source(f), sides.target(t));
  });
}

// The number of target elements that the box covers, gaps included.
std::int64_t reach(std::span<const Dim> dims) {
  std::int64_t elements = 1;
  for (const Dim& dim : dims) elements += (dim.size - 1) * dim.to_stride;
  return elements;
}

void copy_part(const Sides& sides, std::span<const Dim> dims, std::int64_t from, std::int64_t to, std::int64_t last) {
  const std::int64_t end = to + reach(dims);
  if (end <= sides.first || to >= last) return;
  if (to >= sides.first && end <= last) return copy_whole(sides, dims, from, to);
  const Dim dim = dims[0];
  const std::span<const Dim> inner = dims.subspan(1);
  const std::int64_t inner_reach = reach(inner);
  // [begin, stop): the steps that touch the wanted part; [whole_begin, whole_stop): those that lie in it completely.
  const auto steps_to = [&](std::int64_t distance) {  // the first i with i * stride >= distance
    return distance <= 0 ? 0 : std::min(dim.size, (distance + dim.to_stride - 1) / dim.to_stride);
  };
  const std::int64_t begin = steps_to(sides.first - to - inner_reach + 1);
  const std::int64_t stop = steps_to(last - to);
  const std::int64_t whole_begin = std::max(begin, steps_to(sides.first - to));
  const std::int64_t whole_stop = std::max(whole_begin, std::min(stop, steps_to(last - to - inner_reach + 1)));
  const auto part = [&](std::int64_t i) {
    copy_part(sides, inner, from + i * dim.from_stride, to + i * dim.to_stride, last);
  };
  for (std::int64_t i = begin; i < std::min(whole_begin, stop); ++i) part(i);
  if (whole_stop > whole_begin) {
    std::vector<Dim> middle(dims.begin(), dims.end());
    middle[0].size = whole_stop - whole_begin;
    copy_whole(sides, middle, from + whole_begin * dim.from_stride, to + whole_begin * dim.to_stride);
  }
  for (std::int64_t i = std::max(whole_stop, std::min(whole_begin, stop)); i < stop; ++i) part(i);
}

}  // namespace

void CopyBox::simplify() {
  std::erase_if(dims, [](const Dim& dim) { return dim.size == 1; });
  std::ranges::stable_sort(dims, [](const Dim& a, const Dim& b) { return a.to_stride > b.to_stride; });
  std::vector<Dim> merged;
  for (const Dim& dim : dims) {
    Dim* wider = merged.empty() ? nullptr : &merged.back();
    if (wider != nullptr && wider->to_stride == dim.size * dim.to_stride &&
        wider->from_stride == dim.size * dim.from_stride) {
      *wider = {wider->size * dim.size, dim.from_stride, dim.to_stride};
    } else {
      merged.push_back(dim);
    }
  }
  dims = std::move(merged);
}

void copy_box(const CopyBox& box, const std::byte* from, std::byte* to, std::size_t item_bytes, std::int64_t first,
              std::int64_t last) {
  if (std::ranges::find(box.dims, 0, &Dim::size) != box.dims.end() || first >= last) return;
  copy_part({from, to, item_bytes, first}, box.dims, box.from_offset, box.to_offset, last);
}

}  // namespace sonde
