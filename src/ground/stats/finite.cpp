// The test for NaN and infinity: in all wide formats, their exponent bits are all set. Compiled once for each
// instruction set (Highway includes this file again for each).
#include "ground/stats/finite.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "ground/stats/host_pool.h"
#include "ground/stats/moments.h"
#include "ground/tensor/small_floats.h"
#include "ground/tensor/walk.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ground/stats/finite.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sonde {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whether some word of `words` has all bits of `exponent` set.
template <typename Word>
bool any_has(const std::byte* data, std::size_t words, Word exponent) {
  constexpr std::size_t kLine = 64;
  const hn::ScalableTag<Word> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto mask = hn::Set(d, exponent);
  const auto* from = reinterpret_cast<const Word*>(data);
  std::size_t i = 0;
  // Some 16 KiB at a time, so that an early hit ends the test.
  const std::size_t chunk = 4 * lanes * (16384 / (4 * lanes * sizeof(Word)) + 1);
  while (words - i >= 4 * lanes) {
    const std::size_t end = i + std::min(chunk, (words - i) / (4 * lanes) * (4 * lanes));
    auto found = hn::Zero(d);
    for (; i < end; i += 4 * lanes) {
      for (std::size_t line = 0; line < 4 * lanes * sizeof(Word); line += kLine) {
        __builtin_prefetch(data + i * sizeof(Word) + kPrefetchAhead + line, 0, 2);
      }
      for (std::size_t v = 0; v < 4; ++v) {
        const auto bits = hn::And(hn::LoadU(d, from + i + v * lanes), mask);
        found = hn::Or(found, hn::VecFromMask(d, hn::Eq(bits, mask)));
      }
    }
    if (!hn::AllFalse(d, hn::Eq(found, hn::Set(d, static_cast<Word>(~Word{0}))))) return true;
  }
  for (; i < words; ++i) {
    Word word;
    std::memcpy(&word, data + i * sizeof(Word), sizeof word);
    if ((word & exponent) == exponent) return true;
  }
  return false;
}

bool any_has16(const std::byte* data, std::size_t words, std::uint16_t exponent) {
  return any_has<std::uint16_t>(data, words, exponent);
}
bool any_has32(const std::byte* data, std::size_t words, std::uint32_t exponent) {
  return any_has<std::uint32_t>(data, words, exponent);
}
bool any_has64(const std::byte* data, std::size_t words, std::uint64_t exponent) {
  return any_has<std::uint64_t>(data, words, exponent);
}

}  // namespace HWY_NAMESPACE
}  // namespace sonde
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sonde {
namespace {

HWY_EXPORT(any_has16);
HWY_EXPORT(any_has32);
HWY_EXPORT(any_has64);

constexpr std::uint16_t kHalf = 0x7C00, kBrain = 0x7F80;
constexpr std::uint32_t kSingle = 0x7F800000;
constexpr std::uint64_t kDouble = 0x7FF0000000000000;

// The codes of an 8-bit type that are NaN or infinity.
template <DType kDType>
bool any_small(const std::byte* data, std::size_t count) {
  static const std::array<bool, 256> bad = [] {
    std::array<bool, 256> table{};
    for (unsigned code = 0; code < 256; ++code) table[code] = !std::isfinite(kFloat8Values<kDType>[code]);
    return table;
  }();
  return std::any_of(data, data + count, [](std::byte code) { return bad[static_cast<std::uint8_t>(code)]; });
}

bool any_non_finite(DType dtype, const std::byte* data, std::size_t count) {
  switch (dtype) {
    case DType::complex32:
      count *= 2;
      [[fallthrough]];
    case DType::float16:
      return HWY_DYNAMIC_DISPATCH(any_has16)(data, count, kHalf);
    case DType::bfloat16:
      return HWY_DYNAMIC_DISPATCH(any_has16)(data, count, kBrain);
    case DType::complex64:
      count *= 2;
      [[fallthrough]];
    case DType::float32:
      return HWY_DYNAMIC_DISPATCH(any_has32)(data, count, kSingle);
    case DType::complex128:
      count *= 2;
      [[fallthrough]];
    case DType::float64:
      return HWY_DYNAMIC_DISPATCH(any_has64)(data, count, kDouble);
    case DType::float8_e4m3fn:
      return any_small<DType::float8_e4m3fn>(data, count);
    case DType::float8_e5m2:
      return any_small<DType::float8_e5m2>(data, count);
    case DType::float8_e4m3fnuz:
      return any_small<DType::float8_e4m3fnuz>(data, count);
    case DType::float8_e5m2fnuz:
      return any_small<DType::float8_e5m2fnuz>(data, count);
    case DType::float8_e8m0fnu:
      return any_small<DType::float8_e8m0fnu>(data, count);
    default:
      return false;
  }
}

// The same on the host's pool, if there is much to read. Each piece begins with its end, which is more likely to be in
// the cache.
bool any_in_pieces(DType dtype, const std::byte* data, std::size_t count) {
  constexpr std::size_t kRun = 64 << 10;  // elements
  const std::size_t item_bytes = info(dtype).item_bytes;
  const std::size_t runs = (count + kRun - 1) / kRun;
  const std::uint32_t pieces = host_pool_pieces(count * item_bytes);
  std::atomic<bool> found = false;
  run_on_host_pool(pieces, [&](std::uint32_t piece) {
    const std::size_t first = runs * piece / pieces;
    for (std::size_t run = runs * (piece + 1) / pieces; run-- > first && !found;) {
      const std::size_t begin = run * kRun;
      if (any_non_finite(dtype, data + begin * item_bytes, std::min(kRun, count - begin))) found = true;
    }
  });
  return found;
}

// The walk in memory order, without the dimensions along which it only repeats itself.
Walk walk_without_repeats(const TensorView& view) {
  Walk walk(view, WalkOrder::memory);
  std::size_t repeats = 0;
  while (repeats < walk.rank && walk.stride[repeats] == 0) ++repeats;
  std::copy(walk.size + repeats, walk.size + walk.rank, walk.size);
  std::copy(walk.stride + repeats, walk.stride + walk.rank, walk.stride);
  walk.rank -= repeats;
  return walk;
}

// Through a buffer, since the runs may be short.
bool any_in_walk(DType dtype, const Walk& walk) {
  constexpr std::size_t kBuffer = 32768;
  const std::size_t most = kBuffer / walk.item_bytes;
  const auto elements = static_cast<std::uint64_t>(walk.elements());
  const std::uint32_t pieces = host_pool_pieces(elements * walk.item_bytes);
  std::atomic<bool> found = false;
  run_on_host_pool(pieces, [&](std::uint32_t piece) {
    alignas(64) std::array<std::byte, kBuffer> buffer;
    std::uint64_t left = elements * (piece + 1) / pieces - elements * piece / pieces;
    Cursor cursor(walk);
    cursor.seek(static_cast<std::int64_t>(elements * piece / pieces));
    while (left > 0 && !found) {
      const std::size_t count = cursor.read(buffer.data(), std::min<std::uint64_t>(most, left));
      if (any_non_finite(dtype, buffer.data(), count)) found = true;
      left -= count;
    }
  });
  return found;
}

}  // namespace

bool can_be_non_finite(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

bool all_finite(const TensorView& view) {
  if (!can_be_non_finite(view.dtype) || view.elements() == 0) return true;
  const Walk walk = walk_without_repeats(view);
  if (walk.is_one_run()) return !any_in_pieces(view.dtype, view.data, static_cast<std::size_t>(walk.elements()));
  return !any_in_walk(view.dtype, walk);
}

}  // namespace sonde
#endif  // HWY_ONCE
