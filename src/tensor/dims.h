// Dims: an owned, small list of sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

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

}  // namespace sonde
