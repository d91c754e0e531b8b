// Copies boxes of elements between two memory orders: runs by rows, transposes by tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sonde {

// An element of 16 bytes, such as complex128.
struct Item16 {
  std::uint64_t halves[2];
};

// One rectangular set of elements, and the distances of its elements in the source and in the target. All
// distances are in elements and not negative.
struct CopyBox {
  struct Dim {
    std::int64_t size = 1;
    std::int64_t from_stride = 0, to_stride = 0;
  };
  std::vector<Dim> dims;
  std::int64_t from_offset = 0, to_offset = 0;

  // Brings the dimensions into a fast order: without those of size 1, widest `to_stride` first, neighbours merged if
  // one continues the other on both sides. Required before copy_box.
  void simplify();
};

// Copies those elements of a simplified box that belong to [first, last) of the target. `to` is the address of element
// `first` of the target. Each dimension of the box must step over everything that the narrower ones cover (true for
// every target in C order). Items of 1, 2, 4, 8 and 16 bytes are fast; others are supported.
void copy_box(const CopyBox& box, const std::byte* from, std::byte* to, std::size_t item_bytes, std::int64_t first,
              std::int64_t last);

}  // namespace sonde
