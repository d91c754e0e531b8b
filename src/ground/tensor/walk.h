// Walks the elements of a strided view: the form of its dimensions that is cheap to walk, and a cursor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sonde/tensor.h"

namespace sonde {

// The order in which a walk visits the elements of a view.
enum class WalkOrder {
  c,       // the last dimension fastest
  memory,  // ascending addresses, as far as the dimensions do not overlap; along those of stride 0 it repeats the rest
};

// A view's dimensions without those of size 1, neighbours merged if one continues the other. Only for views with
// elements() > 0.
struct Walk {
  // Every remaining dimension has at least two elements, so a count that fits 64 bits has fewer dimensions than this.
  static constexpr std::size_t kMaxRank = 64;

  explicit Walk(const TensorView& view, WalkOrder order = WalkOrder::c);

  const std::byte* data;  // the first element
  std::size_t item_bytes;
  std::size_t rank = 0;           // 0: one element
  std::int64_t size[kMaxRank];    // elements, all >= 2
  std::int64_t stride[kMaxRank];  // elements

  // Adjacent elements in memory at the end of the walk: 1 if the last stride is not 1.
  std::int64_t inner_run() const { return rank > 0 && stride[rank - 1] == 1 ? size[rank - 1] : 1; }
  // The whole walk is one such run.
  bool is_one_run() const { return rank == 0 || (rank == 1 && stride[0] == 1); }
  std::int64_t elements() const;
  // The same elements in the same order.
  friend bool operator==(const Walk& a, const Walk& b);

 private:
  void add_dimension(std::int64_t elements, std::int64_t step);
};

// Copies the elements of a walk, one buffer at a time; bytes are as in memory (`conjugate` and `negative` not resolved).
class Cursor {
 public:
  explicit Cursor(const Walk& walk);
  explicit Cursor(const TensorView& view) : Cursor(Walk(view)) {}  // C order

  // Copies the next `max_elements` elements, or the remaining ones, to `out`. Returns the number of elements; 0 at the
  // end.
  std::size_t read(std::byte* out, std::size_t max_elements);
  // Goes to the element with `elements` elements before it; at most as many as the walk has.
  void seek(std::int64_t elements);

 private:
  void advance_row();

  Walk walk_;
  const std::byte* row_;     // first element of the current innermost row
  std::int64_t column_ = 0;  // next element of that row
  std::int64_t row_size_;
  std::int64_t row_stride_;
  std::int64_t total_;
  std::int64_t left_;  // elements not yet copied
  std::int64_t index_[Walk::kMaxRank];
};

// Copies `count` elements of `item_bytes` bytes, `stride` elements apart, side by side to `out`.
void gather(const std::byte* data, std::int64_t stride, std::int64_t count, std::size_t item_bytes, std::byte* out);

// Applies the view's `conjugate` and `negative` bits to `elements` elements that were copied out of it.
void resolve_bits(const TensorView& view, std::byte* elements, std::size_t count);

}  // namespace sonde
