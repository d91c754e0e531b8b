#include "tensor/dims.h"

#include <algorithm>

namespace sonde {

Dims::Dims(std::span<const std::int64_t> values) : size_(values.size()) {
  std::int64_t* to = inline_;
  if (size_ > kInline) {
    heap_ = std::make_unique<std::int64_t[]>(size_);
    to = heap_.get();
  }
  std::ranges::copy(values, to);
}

Dims& Dims::operator=(const Dims& other) {
  if (this != &other) *this = Dims(other);
  return *this;
}

bool operator==(const Dims& a, const Dims& b) { return std::ranges::equal(a.values(), b.values()); }

}  // namespace sonde
