// Dims: an owned, small list of sizes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sonde {

// Sizes or strides, in elements. Up to 6 live inside the object; more go to the heap.
class Dims {
 public:
  using value_type = std::int64_t;
  using const_iterator = std::span<const std::int64_t>::iterator;

  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values)
      : Dims(std::span<const std::int64_t>(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values) : size_(values.size()) {
    if (size_ > kInline) heap_ = std::make_unique<std::int64_t[]>(size_);
    std::ranges::copy(values, size_ > kInline ? heap_.get() : inline_);
  }
  Dims(const std::vector<std::int64_t>& values) : Dims(std::span<const std::int64_t>(values)) {}
  Dims(const Dims& other) : Dims(other.values()) {}
  Dims(Dims&&) noexcept = default;
  Dims& operator=(const Dims& other) {
    if (this != &other) {
      Dims copy = other;
      *this = std::move(copy);
    }
    return *this;
  }
  Dims& operator=(Dims&&) noexcept = default;
  ~Dims() = default;

  // As `*this = Dims(values)`, without a second object.
  void assign(std::span<const std::int64_t> values) {
    if (values.size() > kInline) heap_ = std::make_unique<std::int64_t[]>(values.size());
    size_ = values.size();
    std::ranges::copy(values, size_ > kInline ? heap_.get() : inline_);
  }

  std::span<const std::int64_t> values() const { return {size_ <= kInline ? inline_ : heap_.get(), size_}; }
  const_iterator begin() const { return values().begin(); }
  const_iterator end() const { return values().end(); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t operator[](std::size_t i) const { return values()[i]; }
  std::int64_t back() const { return values().back(); }
  friend bool operator==(const Dims& a, const Dims& b) { return std::ranges::equal(a.values(), b.values()); }

 private:
  static constexpr std::size_t kInline = 6;
  std::size_t size_ = 0;
  std::int64_t inline_[kInline] = {};
  std::unique_ptr<std::int64_t[]> heap_;
};

}  // namespace sonde
