#include "ground/stats/pair_values.h"

#include <cstring>
#include <type_traits>

#include "ground/tensor/visit.h"

namespace sonde {
namespace {

template <typename Element, typename T>
void convert_each(const std::byte* from, T* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    typename Element::Stored stored;
    std::memcpy(&stored, from + i * sizeof stored, sizeof stored);
    to[i] = static_cast<T>(Element::number(stored));
  }
}

// Types of 16 bits are converted through float.
template <typename T, typename Widen>
void convert_16(Widen widen, const std::byte* from, T* to, std::size_t count) {
  std::array<std::uint16_t, 512> bits;
  std::array<float, 512> wide;
  for (std::size_t done = 0; done < count;) {
    const std::size_t piece = std::min(bits.size(), count - done);
    std::memcpy(bits.data(), from + 2 * done, 2 * piece);
    if constexpr (std::is_same_v<T, float>) {
      widen(bits.data(), to + done, piece);
    } else {
      widen(bits.data(), wide.data(), piece);
      for (std::size_t i = 0; i < piece; ++i) to[done + i] = static_cast<double>(wide[i]);
    }
    done += piece;
  }
}

}  // namespace

bool fits_float32(DType dtype) {
  switch (part_of(dtype)) {
    case DType::int32:
    case DType::int64:
    case DType::uint32:
    case DType::uint64:
    case DType::float64:
    case DType::qint32:
      return false;
    default:
      return true;
  }
}

PairValues::PairValues(const PairKernel& kernel, const TensorView& view, bool complex)
    : kernel_(kernel),
      view_(view),
      item_bytes_(info(view.dtype).item_bytes),
      parts_(is_complex(view.dtype) ? 2 : 1),
      taken_(complex ? 2 : 1),
      direct_(view.is_c_contiguous() && !view.negative && !view.conjugate) {}

void PairValues::seek(std::uint64_t first) {
  at_ = first / taken_;
  if (!direct_) cursor_.emplace(view_).seek(static_cast<std::int64_t>(at_));
}

const std::byte* PairValues::bytes(std::size_t elements) {
  if (direct_) return view_.data + at_ * item_bytes_;
  copy_.resize(kPairBlock * item_bytes_);
  cursor_->read(copy_.data(), elements);
  resolve_bits(view_, copy_.data(), elements);
  return copy_.data();
}

template <typename T>
void PairValues::convert(const std::byte* from, T* to, std::size_t parts) {
  visit(part_of(view_.dtype), [&]<typename Element>(Element) {
    if constexpr (std::is_same_v<Element, Float16>) {
      convert_16(kernel_.from_float16, from, to, parts);
    } else if constexpr (std::is_same_v<Element, Bfloat16>) {
      convert_16(kernel_.from_bfloat16, from, to, parts);
    } else if constexpr (std::is_same_v<Element, NoNumber>) {  // its bytes have no meaning
      std::fill_n(to, parts, T{0});
    } else {
      convert_each<Element>(from, to, parts);
    }
  });
}

template <typename T>
const T* PairValues::next(std::size_t count) {
  const std::size_t elements = count / taken_;
  const std::byte* from = bytes(elements);
  at_ += elements;
  const bool as_it_lies = part_of(view_.dtype) == (std::is_same_v<T, float> ? DType::float32 : DType::float64) &&
                          parts_ == taken_ && reinterpret_cast<std::uintptr_t>(from) % sizeof(T) == 0;
  if (as_it_lies) return reinterpret_cast<const T*>(from);
  values_.resize(kPairBlock);
  T* to = reinterpret_cast<T*>(values_.data());
  if (parts_ == taken_) {
    convert(from, to, count);
    return to;
  }
  parts_buffer_.resize(2 * kPairBlock);
  T* parts = reinterpret_cast<T*>(parts_buffer_.data());
  convert(from, parts, elements * parts_);
  for (std::size_t i = 0; i < elements; ++i) {
    to[i * taken_] = parts[i * parts_];
    if (taken_ == 2) to[2 * i + 1] = T{0};  // the imaginary part of a real number, if the other side is complex
  }
  return to;
}

template const float* PairValues::next(std::size_t);
template const double* PairValues::next(std::size_t);

}  // namespace sonde
