// Reformat: the elements of a tensor in another of CANN's formats, padding added or removed; and the means to find its
// real shape. The place of each element is computed once; the values are never inspected.
//
//   const auto plan = plan_reformat({Format::nc1hwc0, shape}, Format::nchw, LogicalShape{Format::nchw, {1, 20, 3, 3}});
//   plan->copy(bytes, out, 2);  // out: plan->elements() * 2 bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ground/tensor/format.h"
#include "ground/tensor/strided_copy.h"
#include "sonde/result.h"

namespace sonde {

// A tensor in its memory order.
struct StoredShape {
  Format format = Format::nd;
  std::vector<std::int64_t> shape;  // padded, as it is stored
  std::int64_t groups = 1;          // of a convolution's weight in FRACTAL_Z: CANN's `sub_format`
};

// The shape without padding. `order` is the order of its sizes: a format without blocks (NCHW, HWCN, ND, …).
struct LogicalShape {
  Format order = Format::nd;
  std::vector<std::int64_t> shape;
};

class Reformat {
 public:
  const std::vector<std::int64_t>& shape() const { return shape_; }  // of the result
  std::int64_t elements() const { return elements_; }
  // True if the bytes stay unchanged and only the shape differs.
  bool is_reshape() const;

  // All elements to `out`, on up to `threads` threads (the calling thread is one of them).
  void copy(const std::byte* from, std::byte* out, std::size_t item_bytes, unsigned threads = 1) const;
  // Elements [first, last) of the result; `out` receives element `first`. Parts may be copied at the same time.
  void copy_part(const std::byte* from, std::byte* out, std::size_t item_bytes, std::int64_t first,
                 std::int64_t last) const;

  // Elements [0, size) of each dimension of a tensor in C order. Sizes must not exceed the tensor's.
  static Reformat crop(std::span<const std::int64_t> shape, std::span<const std::int64_t> sizes);
  // The same elements under another shape.
  static Reformat reshape(std::vector<std::int64_t> shape);

 private:
  friend class ReformatPlanner;
  std::vector<std::int64_t> shape_;
  std::int64_t elements_ = 0, from_elements_ = 0;
  std::int64_t covered_ = 0;  // elements of the result that the boxes fill; the others are padding: zeros
  std::vector<CopyBox> boxes_;
};

// The other format of a tensor. `real`: its shape without padding. Without it the padding stays, except that FRACTAL_Z
// and FRACTAL_Z_3D cannot be read. Sizes smaller than the stored ones crop; larger ones fail. `block`: C0 and N0 of a
// blocked result (always 4 for the C04 formats). Fails with `unsupported` for formats and pairs without a known rule,
// `invalid_argument` for a shape that does not fit the format or `real`.
Result<Reformat> plan_reformat(const StoredShape& from, Format to,
                               const std::optional<LogicalShape>& real = std::nullopt, std::int64_t block = 16);

// True if plan_reformat has a rule for this pair.
bool can_reformat(Format from, Format to);
// False for formats whose elements are a plain array of their axes.
bool is_blocked(Format format);

// The order in which `original_shape` is written: for a blocked tensor, the first of NCHW, NHWC, HWCN and CHWN (or
// their forms with D) whose unblocked axes are the stored ones and whose blocked axes fill their blocks. `hint`, if
// known from elsewhere, is tried first. Empty if none fits.
std::optional<LogicalShape> find_order(const StoredShape& stored, std::span<const std::int64_t> original_shape,
                                       std::optional<Format> hint = std::nullopt);

// Crops an array of `shape` to `sizes` as CANN's tools do (ones are dropped if `sizes` has more of them; missing ones
// are added at the end). Fails with `invalid_argument` if that is impossible.
Result<Reformat> plan_crop(std::span<const std::int64_t> shape, std::span<const std::int64_t> sizes);

}  // namespace sonde
