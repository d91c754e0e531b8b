// TensorView: a tensor somebody else owns, seen for the length of one call. Dims: an owned, small list of sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sonde/dtype.h"
#include "sonde/export.h"

namespace sonde {

// Sizes or strides, in elements. Up to 6 live inside the object; more go to the heap.
class Dims {
 public:
  Dims() = default;
  explicit Dims(std::span<const std::int64_t> values);
  Dims(const Dims& other) : Dims(other.values()) {}
  Dims(Dims&&) noexcept = default;
  Dims& operator=(const Dims& other);
  Dims& operator=(Dims&&) noexcept = default;

  std::span<const std::int64_t> values() const { return {size_ <= kInline ? inline_ : heap_.get(), size_}; }
  std::size_t size() const { return size_; }
  std::int64_t operator[](std::size_t i) const { return values()[i]; }
  friend bool operator==(const Dims& a, const Dims& b);

 private:
  static constexpr std::size_t kInline = 6;
  std::size_t size_ = 0;
  std::int64_t inline_[kInline] = {};
  std::unique_ptr<std::int64_t[]> heap_;
};

enum class DeviceType : std::uint8_t { cpu = 0, cuda = 1, other = 255 };

struct TensorView {
  DType dtype = DType::undefined;
  DeviceType device = DeviceType::cpu;
  bool conjugate = false;  // torch's lazy bits: the bytes are not yet conjugated / negated
  bool negative = false;
  const std::byte* data = nullptr;        // first element; null only when elements() == 0
  std::span<const std::int64_t> shape;    // elements per dimension; empty for a scalar
  std::span<const std::int64_t> strides;  // in elements, as many as shape

  SONDE_EXPORT std::int64_t elements() const;  // product of shape; 1 for a scalar
  SONDE_EXPORT std::uint64_t bytes() const;    // elements() * item_bytes: the size a C-order copy would have
  SONDE_EXPORT bool is_c_contiguous() const;   // the bytes in memory are the bytes of a C-order copy
  SONDE_EXPORT bool is_dense() const;  // elements fill one block of memory without gaps or overlap, in any order
};

// Writes the elements to `out` (bytes() bytes) in C order, conjugate and negative bits resolved.
SONDE_EXPORT void copy_c_order(const TensorView& view, std::byte* out);

// "(2,3)" with `open`/`close` as given, no spaces; a scalar gives "()".
SONDE_EXPORT std::string shape_text(std::span<const std::int64_t> shape, char open, char close);

}  // namespace sonde
