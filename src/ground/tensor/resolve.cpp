// Resolves torch's lazy conjugate and negative bits on bytes that were copied out of a view.
#include <concepts>
#include <cstring>

#include "ground/tensor/walk.h"

namespace sonde {
namespace {

template <typename Word, typename Change>
void change_words(std::byte* data, std::size_t count, std::size_t step, Change change) {
  for (std::size_t i = 0; i < count; i += step) {
    Word word;
    std::memcpy(&word, data + i * sizeof(Word), sizeof(Word));
    word = change(word);
    std::memcpy(data + i * sizeof(Word), &word, sizeof(Word));
  }
}

// Flips the sign bit: exact for every IEEE-like format, NaN included.
template <std::unsigned_integral Word>
void flip_signs(std::byte* data, std::size_t count, std::size_t step = 1) {
  change_words<Word>(data, count, step, [](Word word) {
    return static_cast<Word>(word ^ static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1)));
  });
}

template <std::unsigned_integral Word>
void negate_integers(std::byte* data, std::size_t count) {
  change_words<Word>(data, count, 1, [](Word word) { return static_cast<Word>(Word{0} - word); });
}

// The formats without a negative zero use 0x80 for NaN, which has no sign.
void flip_unsigned_zero(std::byte* data, std::size_t count) {
  change_words<std::uint8_t>(data, count, 1, [](std::uint8_t word) {
    return static_cast<std::uint8_t>((word & 0x7F) == 0 ? word : word ^ 0x80);
  });
}

template <std::unsigned_integral Word>
void resolve_complex(const TensorView& view, std::byte* data, std::size_t count) {
  if (view.negative) flip_signs<Word>(data, 2 * count, 2);
  if (view.negative != view.conjugate) flip_signs<Word>(data + sizeof(Word), 2 * count - 1, 2);
}

void negate(DType dtype, std::byte* data, std::size_t count) {
  switch (dtype) {
    case DType::int8:
    case DType::uint8:
    case DType::qint8:
    case DType::quint8:
      return negate_integers<std::uint8_t>(data, count);
    case DType::int16:
    case DType::uint16:
      return negate_integers<std::uint16_t>(data, count);
    case DType::int32:
    case DType::uint32:
    case DType::qint32:
      return negate_integers<std::uint32_t>(data, count);
    case DType::int64:
    case DType::uint64:
      return negate_integers<std::uint64_t>(data, count);
    case DType::float16:
    case DType::bfloat16:
      return flip_signs<std::uint16_t>(data, count);
    case DType::float32:
      return flip_signs<std::uint32_t>(data, count);
    case DType::float64:
      return flip_signs<std::uint64_t>(data, count);
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
      return flip_signs<std::uint8_t>(data, count);
    case DType::float8_e4m3fnuz:
    case DType::float8_e5m2fnuz:
      return flip_unsigned_zero(data, count);
    default:  // bool and e8m0 have no sign
      return;
  }
}

}  // namespace

void resolve_bits(const TensorView& view, std::byte* elements, std::size_t count) {
  if (count == 0 || (!view.negative && !view.conjugate)) return;
  switch (view.dtype) {
    case DType::complex32:
      return resolve_complex<std::uint16_t>(view, elements, count);
    case DType::complex64:
      return resolve_complex<std::uint32_t>(view, elements, count);
    case DType::complex128:
      return resolve_complex<std::uint64_t>(view, elements, count);
    default:
      if (view.negative) negate(view.dtype, elements, count);
  }
}

}  // namespace sonde
