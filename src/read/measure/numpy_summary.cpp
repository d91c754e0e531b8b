#include "read/measure/numpy_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "ground/tensor/small_floats.h"

namespace sonde {
namespace {

// The nearest half, ties to even.
std::uint16_t half_of(float value) {
  if (std::isnan(value)) return 0x7E00;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0F) return sign | 0x7C00;
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);                                  // 2^(exponent-1) <= magnitude
  const int unit = std::max(exponent - 11, -24);                     // of the last place
  const float units = std::nearbyint(std::ldexp(magnitude, -unit));  // at most 2048
  if (unit == -24) return static_cast<std::uint16_t>(sign + static_cast<std::uint16_t>(units));
  return static_cast<std::uint16_t>(sign + ((unit + 24) << 10) + static_cast<std::uint16_t>(units));
}

// The shortest text that gives the same value when read as `Float`, in NumPy's form.
std::string layout(std::string digits, int exponent, bool negative) {
  std::string text;
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    text = digits.substr(0, 1) + (count > 1 ? "." + digits.substr(1) : "");
    text += fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  } else if (exponent < 0) {
    text = "0." + std::string(-exponent - 1, '0') + digits;
  } else if (count <= exponent + 1) {
    text = digits + std::string(exponent + 1 - count, '0') + ".0";
  } else {
    text = digits.substr(0, exponent + 1) + "." + digits.substr(exponent + 1);
  }
  return negative ? "-" + text : text;
}

// Parses the d.ddde±xx that to_chars writes.
std::string laid_out(std::string_view scientific, bool negative) {
  const std::size_t e = scientific.find('e');
  std::string digits(scientific.substr(0, e));
  std::erase(digits, '.');
  int exponent = 0;
  std::string_view power = scientific.substr(e + 1);
  if (power.starts_with('+')) power.remove_prefix(1);
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
  return layout(digits, exponent, negative);
}

template <typename Float>
std::string special(Float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (value == 0) return std::signbit(value) ? "-0.0" : "0.0";
  return {};
}

template <typename Float>
std::string text_of(Float value) {
  if (std::string text = special(value); !text.empty()) return text;
  char buffer[64];
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof buffer, std::fabs(value), std::chars_format::scientific);
  return laid_out({buffer, end}, std::signbit(value));
}

// The fewest digits that give the same half.
std::string half_text(float value) {
  if (std::string text = special(value); !text.empty()) return text;
  for (int digits = 0; digits < 5; ++digits) {
    const std::string text = fmt::format("{:.{}e}", std::fabs(value), digits);
    float back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    if (half_of(back) == half_of(std::fabs(value))) return laid_out(text, std::signbit(value));
  }
  return laid_out(fmt::format("{:.5e}", std::fabs(value)), std::signbit(value));
}

// NumPy's pairwise sum of neighbours.
template <typename T, typename At>
T pairwise(const At& at, std::size_t begin, std::size_t count) {
  if (count < 8) {
    T sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += at(begin + i);
    return sum;
  }
  if (count > 128) {
    const std::size_t half = count / 2 - count / 2 % 8;
    return pairwise<T>(at, begin, half) + pairwise<T>(at, begin + half, count - half);
  }
  T lanes[8];
  for (std::size_t j = 0; j < 8; ++j) lanes[j] = at(begin + j);
  std::size_t i = 8;
  for (; i < count - count % 8; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) lanes[j] += at(begin + i + j);
  }
  T sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  for (; i < count; ++i) sum += at(begin + i);
  return sum;
}

// NumPy passes a whole array to it in buffers.
template <typename T, typename At>
T buffered(const At& at, std::size_t count) {
  constexpr std::size_t kBuffer = 8192;
  T sum = 0;
  for (std::size_t begin = 0; begin < count; begin += kBuffer) {
    sum += pairwise<T>(at, begin, std::min(kBuffer, count - begin));
  }
  return sum;
}

template <typename T>
T load_element(const TensorView& view, std::size_t i) {
  T value;
  std::memcpy(&value, view.data + i * sizeof value, sizeof value);
  return value;
}

template <typename T>
void summarize_integers(const TensorView& view, NumpySummary& out) {
  const auto count = static_cast<std::size_t>(view.elements());
  T max = load_element<T>(view, 0), min = max;
  for (std::size_t i = 1; i < count; ++i) {
    const T value = load_element<T>(view, i);
    max = std::max(max, value);
    min = std::min(min, value);
  }
  const auto at = [&](std::size_t i) { return static_cast<double>(load_element<T>(view, i)); };
  out.max = std::to_string(max);
  out.min = std::to_string(min);
  out.mean = text_of(buffered<double>(at, count) / static_cast<double>(count));
}

template <typename T, typename At>
std::pair<T, T> extremes(const At& at, std::size_t count) {
  T max = at(0), min = max;
  for (std::size_t i = 0; i < count; ++i) {
    const T value = at(i);
    if (std::isnan(value)) return {value, value};
    max = std::max(max, value);
    min = std::min(min, value);
  }
  return {max, min};
}

template <typename T>
void summarize_floats(const TensorView& view, NumpySummary& out) {
  const auto count = static_cast<std::size_t>(view.elements());
  const auto at = [&](std::size_t i) { return load_element<T>(view, i); };
  const auto [max, min] = extremes<T>(at, count);
  out.max = text_of(max);
  out.min = text_of(min);
  out.mean = text_of(buffered<T>(at, count) / static_cast<T>(count));
}

void summarize_halves(const TensorView& view, NumpySummary& out) {
  const auto count = static_cast<std::size_t>(view.elements());
  const auto at = [&](std::size_t i) { return float16_to_float(load_element<std::uint16_t>(view, i)); };
  const auto [max, min] = extremes<float>(at, count);
  out.max = half_text(max);
  out.min = half_text(min);
  out.mean = half_text(float16_to_float(half_of(buffered<float>(at, count) / static_cast<float>(count))));
}

void summarize_bools(const TensorView& view, NumpySummary& out) {
  const auto count = static_cast<std::size_t>(view.elements());
  const auto at = [&](std::size_t i) { return view.data[i] != std::byte{0} ? 1.0 : 0.0; };
  const double sum = buffered<double>(at, count);
  out.max = sum > 0 ? "True" : "False";
  out.min = sum == static_cast<double>(count) ? "True" : "False";
  out.mean = text_of(sum / static_cast<double>(count));
}

}  // namespace

NumpySummary numpy_summary(const TensorView& view) {
  NumpySummary out;
  out.shape = "(";
  for (std::size_t d = 0; d < view.shape.size(); ++d) out.shape += (d > 0 ? ", " : "") + std::to_string(view.shape[d]);
  out.shape += view.shape.size() == 1 ? ",)" : ")";
  out.dtype = info(view.dtype).lower;
  switch (view.dtype) {
    case DType::bool8:
      summarize_bools(view, out);
      break;
    case DType::int8:
      summarize_integers<std::int8_t>(view, out);
      break;
    case DType::int16:
      summarize_integers<std::int16_t>(view, out);
      break;
    case DType::int32:
      summarize_integers<std::int32_t>(view, out);
      break;
    case DType::int64:
      summarize_integers<std::int64_t>(view, out);
      break;
    case DType::uint8:
      summarize_integers<std::uint8_t>(view, out);
      break;
    case DType::uint16:
      summarize_integers<std::uint16_t>(view, out);
      break;
    case DType::uint32:
      summarize_integers<std::uint32_t>(view, out);
      break;
    case DType::uint64:
      summarize_integers<std::uint64_t>(view, out);
      break;
    case DType::float16:
      summarize_halves(view, out);
      break;
    case DType::float32:
      summarize_floats<float>(view, out);
      break;
    case DType::float64:
      summarize_floats<double>(view, out);
      break;
    default:
      break;
  }
  return out;
}

}  // namespace sonde
