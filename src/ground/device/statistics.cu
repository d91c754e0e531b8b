// The statistics kernel of CUDA and ROCm: one read of each tensor gives everything that Statistics has.
//
// A thread block takes one block of 8192 elements, and adds them in the order that stats/moments.h defines for every
// kernel. So the sums have the bits of the CPU's, for any grid. The threads read a chunk of the block, count, and leave the
// finite values in shared memory, while 32 of them continue the sums of the 16 lanes with the chunk before, one thread for
// the sum of a lane and one for its squares. The next chunk is on its way from memory meanwhile. Groups of narrow floats
// need not wait for each other: a thread adds neighbouring lanes of a group, and counts two elements at a time, as codes
// of 16 bits.
//
// Compiled with products and sums left apart (no contraction). This text is compiled at run time, by NVRTC or hiprtc, and
// in a test by the host's compiler: SONDE_EMULATED, with a loop in place of the threads. So the threads meet only between
// two SONDE_EACH_THREAD, and their variables are declared by SONDE_OF_EACH_THREAD.
#include "ground/device/kernel_layout.h"

#ifndef SONDE_EMULATED
#define SONDE_KERNEL extern "C" __global__ void __launch_bounds__(64, 14)
#define SONDE_FUNCTION static __device__ __forceinline__
#define SONDE_OF_CLASS __device__ __forceinline__
#define SONDE_OWN_FUNCTION static __device__ __noinline__  // not copied into each caller
#define SONDE_SHARED __shared__
#define SONDE_THREAD_BLOCK blockIdx.x
// What follows is run by every thread of the block; each then waits for the others.
#define SONDE_EACH_THREAD(thread) \
  for (unsigned int thread = threadIdx.x, has_run = 0; has_run == 0; has_run = 1, __syncthreads())
#define SONDE_OF_EACH_THREAD(Type, name) Type name[1]
#define SONDE_OWN(name, thread) name[0]
#endif

namespace sonde::device {
namespace {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

constexpr u32 kLanes = 16;
constexpr u32 kChunk = 512;  // elements, of which shared memory has two
constexpr u32 kPerThread = kChunk / kThreads;
constexpr u32 kGroup = 256;  // elements that narrow floats are added in
constexpr u32 kGroups = kBlockElements / kGroup;
constexpr u32 kRow = 2 * kLanes;
constexpr u32 kRows = kGroup / kRow;

// The finite values of any type, in the order of integers; -0 comes before +0. No value has order 0 or ~0.
SONDE_FUNCTION u32 order_of(float value) {
  const u32 bits = __float_as_uint(value);
  return bits ^ (static_cast<u32>(static_cast<int>(bits) >> 31) | 0x80000000U);
}
SONDE_FUNCTION u64 order_of(double value) {
  const u64 bits = static_cast<u64>(__double_as_longlong(value));
  return bits ^ (static_cast<u64>(static_cast<long long>(bits) >> 63) | 0x8000000000000000ULL);
}
SONDE_FUNCTION double value_of(u32 order) {
  return static_cast<double>(__uint_as_float((order & 0x80000000U) != 0 ? order ^ 0x80000000U : ~order));
}
SONDE_FUNCTION double value_of(u64 order) {
  const u64 sign = 0x8000000000000000ULL;
  return __longlong_as_double(static_cast<long long>((order & sign) != 0 ? order ^ sign : ~order));
}

// The values of the codes of each element type. A code has the low bits of `raw`.

// A code without NaN and infinities: its fraction and exponent lie as in a float, whose bias is another.
template <u32 kFractionBits, int kBias>
SONDE_FUNCTION float finite_value(u32 magnitude, bool negative) {
  const float scale = __uint_as_float(static_cast<u32>(254 - kBias) << 23);  // 2^(127 - bias)
  const float value = __uint_as_float(magnitude << (23 - kFractionBits)) * scale;
  return negative ? -value : value;
}

SONDE_FUNCTION float nan_value() { return __uint_as_float(0x7FC00000U); }

SONDE_FUNCTION float bool8_value(u32 raw) { return raw != 0 ? 1.0F : 0.0F; }
SONDE_FUNCTION float int8_value(u32 raw) { return static_cast<float>(static_cast<signed char>(raw)); }
SONDE_FUNCTION float int16_value(u32 raw) { return static_cast<float>(static_cast<short>(raw)); }
SONDE_FUNCTION float unsigned_value(u32 raw) { return static_cast<float>(raw); }  // of 8 and 16 bits
SONDE_FUNCTION float float32_value(u32 raw) { return __uint_as_float(raw); }
SONDE_FUNCTION float bfloat16_value(u32 raw) { return __uint_as_float(raw << 16); }

SONDE_FUNCTION float float16_value(u32 raw) {
  const u32 magnitude = raw & 0x7FFFU;
  if (magnitude < 0x7C00U) return finite_value<10, 15>(magnitude, raw >= 0x8000U);
  return __uint_as_float((raw & 0x8000U) << 16 | 0x7F800000U | (magnitude & 0x3FFU) << 13);
}

SONDE_FUNCTION float float8_e4m3fn_value(u32 raw) {
  const u32 magnitude = raw & 0x7FU;
  return magnitude == 0x7FU ? nan_value() : finite_value<3, 7>(magnitude, raw >= 0x80U);
}

template <u32 kFractionBits, int kBias>
SONDE_FUNCTION float float8_fnuz_value(u32 raw) {  // the code of -0 is NaN
  return raw == 0x80U ? nan_value() : finite_value<kFractionBits, kBias>(raw & 0x7FU, raw >= 0x80U);
}

SONDE_FUNCTION float float8_e8m0fnu_value(u32 raw) {  // the exponent of a float
  if (raw == 0xFFU) return nan_value();
  return __uint_as_float(raw == 0 ? 0x00400000U : raw << 23);
}

SONDE_FUNCTION double int32_value(u64 raw) { return static_cast<double>(static_cast<int>(raw)); }
SONDE_FUNCTION double int64_value(u64 raw) { return static_cast<double>(static_cast<long long>(raw)); }
SONDE_FUNCTION double uint64_value(u64 raw) { return static_cast<double>(raw); }  // of 32 bits too
SONDE_FUNCTION double float64_value(u64 raw) { return __longlong_as_double(static_cast<long long>(raw)); }

// The ways of adding (stats/moments.h) but for groups, and the types that hold the codes and the values.
struct Lanes {
  using Raw = u64;
  using Value = double;
};
struct ExactLanes {  // squares are exact, so that a fused multiply-add gives the same bits
  using Raw = u32;
  using Value = float;
};

template <class First, class Second>
constexpr bool kSame = false;
template <class Type>
constexpr bool kSame<Type, Type> = true;

template <class Raw, class Value>
SONDE_FUNCTION void widen_each(const Raw* raw, Value* values, Value (*widen)(Raw)) {
#pragma unroll
  for (u32 k = 0; k < kPerThread; ++k) values[k] = widen(raw[k]);
}

SONDE_FUNCTION void widen(Element element, const u64* raw, double* values) {
  switch (element) {
    case Element::int32:
      return widen_each(raw, values, int32_value);
    case Element::int64:
      return widen_each(raw, values, int64_value);
    case Element::float64:
      return widen_each(raw, values, float64_value);
    default:
      return widen_each(raw, values, uint64_value);
  }
}

SONDE_FUNCTION void widen(Element element, const u32* raw, float* values) {
  switch (element) {
    case Element::float32:
      return widen_each(raw, values, float32_value);
    case Element::float8_e8m0fnu:
      return widen_each(raw, values, float8_e8m0fnu_value);
    case Element::bool8:
      return widen_each(raw, values, bool8_value);
    case Element::int8:
      return widen_each(raw, values, int8_value);
    case Element::int16:
      return widen_each(raw, values, int16_value);
    default:
      return widen_each(raw, values, unsigned_value);
  }
}

SONDE_FUNCTION u32 bytes_of(Element element) {
  switch (element) {
    case Element::int16:
    case Element::uint16:
    case Element::float16:
    case Element::bfloat16:
      return 2;
    case Element::int32:
    case Element::uint32:
    case Element::float32:
      return 4;
    case Element::int64:
    case Element::uint64:
    case Element::float64:
      return 8;
    default:
      return 1;
  }
}

// The counts and extremes of some elements. Order is the type of order_of.
template <class Order>
struct Found {
  u32 nan, positive_inf, negative_inf, positive, negative;
  Order max, min;  // 0 and ~0: no element is finite
};

// Counts a value that is finite.
template <class Order, class Value>
SONDE_FUNCTION void count_finite(Found<Order>& found, Value value) {
  found.positive += value > 0;
  found.negative += value < 0;
  const Order order = order_of(value);
  found.max = order > found.max ? order : found.max;
  found.min = order < found.min ? order : found.min;
}

// Returns whether the value is finite, so that it has a part in the sums.
template <class Order, class Value>
SONDE_FUNCTION bool count(Found<Order>& found, Value value) {
  if (value - value == 0) {
    count_finite(found, value);
    return true;
  }
  if (value != value) {
    ++found.nan;
  } else {
    ++(value > 0 ? found.positive_inf : found.negative_inf);
    ++(value > 0 ? found.positive : found.negative);
  }
  return false;
}

struct Shared {
  union {
    float floats[2][kChunk];
    double doubles[2][kChunk];
    double of_groups[2][kGroups][kLanes];  // sums and squares, added to the lanes one after the other
  };
  struct {                 // what each thread found, on its way to one
    u64 counts[kThreads];  // of NaN, +inf, -inf, positive elements, 16 bits each
    u32 negative[kThreads];
    u64 max[kThreads];
    u64 min[kThreads];
  } found;
  double lanes[2][kLanes];
  Dimension dimensions[Batch::kMostDimensions];  // of the source
};

SONDE_FUNCTION float* values_of(Shared& shared, u32 chunk, float /*kind*/) { return shared.floats[chunk % 2]; }
SONDE_FUNCTION double* values_of(Shared& shared, u32 chunk, double /*kind*/) { return shared.doubles[chunk % 2]; }

// The number of a thread in what few threads do. The same warps of all thread blocks have the same of the four schedulers,
// so it is another warp's turn in each thread block.
SONDE_FUNCTION u32 turned(u32 thread, u32 thread_block) {
  return (thread + (thread_block * 0x9E3779B1U >> 16) * 32) % kThreads;
}

// The distance of an element from the first, in elements.
SONDE_OWN_FUNCTION long long offset_of(const Dimension* dimensions, u32 rank, long long index) {
  long long offset = 0;
  for (u32 i = rank - 1; i > 0; --i) {
    const long long rest = index / dimensions[i].size;
    offset += (index - rest * dimensions[i].size) * dimensions[i].stride;
    index = rest;
  }
  return offset + index * dimensions[0].stride;
}

template <class Stored, class Raw>
SONDE_FUNCTION void fetch_as(Raw* raw, const Shared& shared, const Source& source, long long first, long long end) {
  const auto* data = static_cast<const Stored*>(source.data);
#pragma unroll
  for (u32 k = 0; k < kPerThread; ++k) {
    const long long index = first + k * kThreads;
    raw[k] = 0;
    if (index >= end) continue;
    raw[k] = data[source.rank == 0 ? index : offset_of(shared.dimensions, source.rank, index)];
  }
}

// Reads the codes of one chunk that belong to a thread. `first` is the first of them.
SONDE_FUNCTION void fetch(u32* raw, const Shared& shared, const Source& source, long long first, long long end) {
  switch (bytes_of(source.element)) {
    case 1:
      return fetch_as<u8>(raw, shared, source, first, end);
    case 2:
      return fetch_as<u16>(raw, shared, source, first, end);
    default:
      return fetch_as<u32>(raw, shared, source, first, end);
  }
}
SONDE_FUNCTION void fetch(u64* raw, const Shared& shared, const Source& source, long long first, long long end) {
  if (bytes_of(source.element) == 4) return fetch_as<u32>(raw, shared, source, first, end);
  fetch_as<u64>(raw, shared, source, first, end);
}

// Adds the part of a lane in a chunk, or its squares, to the lane's total. Values behind the last one are 0.
template <class Adding>
SONDE_FUNCTION double add_lane(const typename Adding::Value* values, u32 lane, bool of_squares, double total) {
  constexpr u32 kAhead = 16;  // the values are on their way before the sum needs them
#pragma unroll 1
  for (u32 row = 0; row < kChunk; row += kAhead * kLanes) {
    typename Adding::Value ahead[kAhead];
#pragma unroll
    for (u32 k = 0; k < kAhead; ++k) ahead[k] = values[row + k * kLanes + lane];
#pragma unroll
    for (u32 k = 0; k < kAhead; ++k) {
      const auto value = static_cast<double>(ahead[k]);
      const double factor = of_squares ? value : 1.0;
      total = kSame<Adding, ExactLanes> ? fma(value, factor, total) : total + value * factor;
    }
  }
  return total;
}

// The sum of the lanes, as a binary tree.
SONDE_FUNCTION double take_lanes(const double* lanes) {
  double sums[kLanes];
  for (u32 i = 0; i < kLanes; ++i) sums[i] = lanes[i];
  for (u32 half = kLanes / 2; half > 0; half /= 2) {
    for (u32 i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

template <class Order>
SONDE_FUNCTION void share(Shared& shared, const Found<Order>& found, u32 thread) {
  shared.found.counts[thread] = found.nan | static_cast<u64>(found.positive_inf) << 16 |
                                static_cast<u64>(found.negative_inf) << 32 | static_cast<u64>(found.positive) << 48;
  shared.found.negative[thread] = found.negative;
  shared.found.max[thread] = found.max == 0 ? 0 : order_of(value_of(found.max));
  shared.found.min[thread] = found.max == 0 ? ~u64{0} : order_of(value_of(found.min));
}

SONDE_FUNCTION void join(Shared& shared, u32 to, u32 from) {
  shared.found.counts[to] += shared.found.counts[from];
  shared.found.negative[to] += shared.found.negative[from];
  if (shared.found.max[from] > shared.found.max[to]) shared.found.max[to] = shared.found.max[from];
  if (shared.found.min[from] < shared.found.min[to]) shared.found.min[to] = shared.found.min[from];
}

SONDE_FUNCTION void write_record(const Shared& shared, Record& record) {
  const double infinity = __longlong_as_double(0x7FF0000000000000LL);
  const bool none = shared.found.max[0] == 0;
  const u64 counts = shared.found.counts[0];
  record.sum = take_lanes(shared.lanes[0]);
  record.squares = take_lanes(shared.lanes[1]);
  record.max = none ? -infinity : value_of(shared.found.max[0]);
  record.min = none ? infinity : value_of(shared.found.min[0]);
  record.nan = static_cast<u16>(counts);
  record.positive_inf = static_cast<u16>(counts >> 16);
  record.negative_inf = static_cast<u16>(counts >> 32);
  record.positive = static_cast<u16>(counts >> 48);
  record.negative = static_cast<u16>(shared.found.negative[0]);
  for (u16& unused : record.unused) unused = 0;
}

// --- lane by lane -----------------------------------------------------------------------------------------------------

// Counts what a thread has of a chunk, and leaves the finite values in shared memory.
template <class Raw, class Value, class Order>
SONDE_FUNCTION void keep_values(Value* values, Element element, const Raw* raw, u32 thread, u32 present,
                                Found<Order>& found) {
  Value widened[kPerThread];
  widen(element, raw, widened);
  bool all_finite = present == kChunk;
#pragma unroll
  for (u32 k = 0; k < kPerThread; ++k) all_finite &= widened[k] - widened[k] == 0;
  if (all_finite) {
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
      count_finite(found, widened[k]);
      values[k * kThreads + thread] = widened[k];
    }
    return;
  }
#pragma unroll
  for (u32 k = 0; k < kPerThread; ++k) {
    const u32 place = k * kThreads + thread;
    const bool is_finite = place < present && count(found, widened[k]);
    values[place] = is_finite ? widened[k] : 0;  // adding 0 changes no bit
  }
}

// Leaves the sums of the lanes, and what each thread found, in shared memory.
template <class Adding>
SONDE_FUNCTION void add_block(Shared& shared, const Source& source, u32 block) {
  using Raw = typename Adding::Raw;
  using Value = typename Adding::Value;
  using Order = decltype(order_of(Value{}));
  struct Fetched {
    Raw raw[kPerThread];
  };
  const long long begin = static_cast<long long>(block) * kBlockElements;
  const long long end = source.elements - begin < kBlockElements ? source.elements : begin + kBlockElements;
  SONDE_OF_EACH_THREAD(Fetched, fetched);
  SONDE_OF_EACH_THREAD(Found<Order>, found);
  SONDE_OF_EACH_THREAD(double, total);

  SONDE_EACH_THREAD(thread) {
    SONDE_OWN(found, thread) = {0, 0, 0, 0, 0, 0, static_cast<Order>(~Order{0})};
    SONDE_OWN(total, thread) = 0;
    fetch(SONDE_OWN(fetched, thread).raw, shared, source, begin + thread, end);
  }
#pragma unroll 1
  for (u32 chunk = 0; begin + static_cast<long long>(chunk) * kChunk < end + kChunk; ++chunk) {
    const long long first = begin + static_cast<long long>(chunk) * kChunk;
    SONDE_EACH_THREAD(thread) {
      if (first < end) {
        const u32 present = end - first < kChunk ? static_cast<u32>(end - first) : kChunk;
        keep_values(values_of(shared, chunk, Value{}), source.element, SONDE_OWN(fetched, thread).raw, thread, present,
                    SONDE_OWN(found, thread));
        fetch(SONDE_OWN(fetched, thread).raw, shared, source, first + kChunk + thread, end);
      }
      const u32 adder = turned(thread, SONDE_THREAD_BLOCK);
      if (chunk > 0 && adder < 2 * kLanes) {
        SONDE_OWN(total, thread) = add_lane<Adding>(values_of(shared, chunk - 1, Value{}), adder % kLanes,
                                                    adder / kLanes == 1, SONDE_OWN(total, thread));
      }
    }
  }
  SONDE_EACH_THREAD(thread) {
    const u32 adder = turned(thread, SONDE_THREAD_BLOCK);
    if (adder < 2 * kLanes) shared.lanes[adder / kLanes][adder % kLanes] = SONDE_OWN(total, thread);
    share(shared, SONDE_OWN(found, thread), thread);
  }
}

// --- in groups --------------------------------------------------------------------------------------------------------

// A lane of the groups of a block.
struct Place {
  const void* data;
  const Dimension* dimensions;
  u32 rank;
  u32 lane;       // the first of the thread's
  long long end;  // of the block, in elements
};

struct Sums {
  double sum, squares;
};

template <class Stored>
SONDE_FUNCTION Stored code_at(const Place& place, long long index) {
  const auto* codes = static_cast<const Stored*>(place.data);
  return codes[place.rank == 0 ? index : offset_of(place.dimensions, place.rank, index)];
}

// The value of a finite float16, whose code is the lower half.
SONDE_FUNCTION float half_value(u32 code) {
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<u16>(code)));
  return value;
#else
  return float16_value(code & 0xFFFFU);
#endif
}

// A float of 8 or 16 bits. `code` has 16 bits, those of 8 in the upper half. kInfinity: the least magnitude that is not
// finite; 0 where the quick way does not know the type.
struct Bfloat16 {
  using Stored = u16;
  static constexpr u32 kLanesOfThread = 2;
  static constexpr bool kNeighbours = true;  // a lane has elements 2k and 2k + 1 of a row; others k and k + 16
  static constexpr u32 kInfinity = 0x7F80;
  static SONDE_OF_CLASS float value(u32 code) { return bfloat16_value(code); }
  static SONDE_OF_CLASS float quick_value(u32 pair, u32 half) {
    return __uint_as_float(half == 0 ? pair << 16 : pair & 0xFFFF0000U);
  }
};
struct Float16 {
  using Stored = u16;
  static constexpr u32 kLanesOfThread = 2;
  static constexpr bool kNeighbours = false;
  static constexpr u32 kInfinity = 0x7C00;
  static SONDE_OF_CLASS float value(u32 code) { return float16_value(code); }
  static SONDE_OF_CLASS float quick_value(u32 pair, u32 half) { return half_value(half == 0 ? pair : pair >> 16); }
};
struct Float8E5m2 : Float16 {  // the upper half of a float16
  using Stored = u8;
  static constexpr u32 kLanesOfThread = 4;
};
struct Float8E4m3fn {
  using Stored = u8;
  static constexpr u32 kLanesOfThread = 4;
  static constexpr bool kNeighbours = false;
  static constexpr u32 kInfinity = 0x7F00;
  static SONDE_OF_CLASS float value(u32 code) { return float8_e4m3fn_value(code >> 8); }
  static SONDE_OF_CLASS float quick_value(u32 pair, u32 half) {  // as a float16, whose bias is larger by 8
    return Float16::quick_value((pair & 0x80008000U) | (pair >> 1 & 0x3F803F80U), half) * 256;
  }
};
template <u32 kFractionBits, int kBias>
struct Float8Fnuz {
  using Stored = u8;
  static constexpr u32 kLanesOfThread = 1;
  static constexpr bool kNeighbours = false;
  static constexpr u32 kInfinity = 0;
  static SONDE_OF_CLASS float value(u32 code) { return float8_fnuz_value<kFractionBits, kBias>(code >> 8); }
};

// Both halves of a word, each for itself.
SONDE_FUNCTION u32 both(u32 low, u32 high) { return low | high << 16; }
SONDE_FUNCTION u32 low_of(u32 pair) { return pair & 0xFFFFU; }
SONDE_FUNCTION u32 high_of(u32 pair) { return pair >> 16; }
SONDE_FUNCTION int signed_of(u32 code) { return static_cast<short>(code); }
#ifdef __CUDA_ARCH__
SONDE_FUNCTION u32 add_bytes(u32 bytes, u32 total) { return __dp4a(bytes, 0x01010101U, total); }
SONDE_FUNCTION u32 max_signed(u32 a, u32 b) { return __vmaxs2(a, b); }
SONDE_FUNCTION u32 max_unsigned(u32 a, u32 b) { return __vmaxu2(a, b); }
SONDE_FUNCTION u32 min_unsigned(u32 a, u32 b) { return __vminu2(a, b); }
#else
SONDE_FUNCTION u32 add_bytes(u32 bytes, u32 total) {
  for (u32 k = 0; k < 4; ++k) total += bytes >> 8 * k & 0xFFU;
  return total;
}
SONDE_FUNCTION u32 max_signed(u32 a, u32 b) {
  return both(low_of(signed_of(low_of(a)) > signed_of(low_of(b)) ? a : b),
              high_of(signed_of(high_of(a)) > signed_of(high_of(b)) ? a : b));
}
SONDE_FUNCTION u32 max_unsigned(u32 a, u32 b) {
  return both(low_of(low_of(a) > low_of(b) ? a : b), high_of(high_of(a) > high_of(b) ? a : b));
}
SONDE_FUNCTION u32 min_unsigned(u32 a, u32 b) {
  return both(low_of(low_of(a) < low_of(b) ? a : b), high_of(high_of(a) < high_of(b) ? a : b));
}
#endif

// What the quick way finds, two elements at a time. The codes of negative values are the largest without a sign, and those
// of positive values the largest with one; the least magnitude is an extreme if no element has the other sign. The numbers
// of signs are sums of bytes, 128 for each.
struct Pairs {
  u32 elements;
  u32 signs, zeros, signs_of_zeros;
  u32 most_positive, most_negative, nearest;
};
SONDE_FUNCTION Pairs no_pairs() { return {0, 0, 0, 0, 0x80008000U, 0, 0xFFFFFFFFU}; }
SONDE_FUNCTION int most_positive(const Pairs& pairs) {
  const int low = signed_of(low_of(pairs.most_positive)), high = signed_of(high_of(pairs.most_positive));
  return low > high ? low : high;
}
SONDE_FUNCTION u32 most_negative(const Pairs& pairs) {
  const u32 low = low_of(pairs.most_negative), high = high_of(pairs.most_negative);
  return low > high ? low : high;
}

SONDE_FUNCTION u32 nearest(const Pairs& pairs) {
  const u32 low = low_of(pairs.nearest), high = high_of(pairs.nearest);
  return low < high ? low : high;
}

SONDE_FUNCTION void count_pair(Pairs& pairs, u32 pair) {
  pairs.signs = add_bytes(pair & 0x80008000U, pairs.signs);
  pairs.most_positive = max_signed(pairs.most_positive, pair);
  pairs.most_negative = max_unsigned(pairs.most_negative, pair);
  pairs.nearest = min_unsigned(pairs.nearest, pair & 0x7FFF7FFFU);
}

SONDE_FUNCTION void count_zeros(Pairs& pairs, u32 pair) {
  const u32 zeros = ~((pair & 0x7FFF7FFFU) + 0x7FFF7FFFU) & 0x80008000U;  // in the place of the sign
  pairs.zeros = add_bytes(zeros, pairs.zeros);
  pairs.signs_of_zeros = add_bytes(zeros & pair, pairs.signs_of_zeros);
}

SONDE_FUNCTION void add_pairs(Pairs& to, const Pairs& from) {
  to.elements += kGroup / kLanes;
  to.signs += from.signs;
  to.most_positive = max_signed(to.most_positive, from.most_positive);
  to.most_negative = max_unsigned(to.most_negative, from.most_negative);
  to.nearest = min_unsigned(to.nearest, from.nearest);
}

template <class Float>
SONDE_FUNCTION void note_pairs(Found<u32>& found, const Pairs& pairs) {
  if (pairs.elements == 0) return;
  const u32 negative = (pairs.signs - pairs.signs_of_zeros) / 128;
  found.positive += pairs.elements - pairs.zeros / 128 - negative;
  found.negative += negative;
  const int positive_code = most_positive(pairs);
  const u32 negative_code = most_negative(pairs);
  const u32 nearest_code = nearest(pairs);
  const u32 max = order_of(Float::value(positive_code >= 0 ? static_cast<u32>(positive_code) : 0x8000U | nearest_code));
  const u32 min = order_of(Float::value(negative_code >= 0x8000U ? negative_code : nearest_code));
  if (max > found.max) found.max = max;
  if (min < found.min) found.min = min;
}

// An element of a lane in a group: `half` is 0 or 1.
template <class Float>
SONDE_FUNCTION u32 place_in_group(u32 lane, u32 row, u32 half) {
  return row * kRow + (Float::kNeighbours ? 2 * lane + half : lane + half * kLanes);
}

template <class Float>
SONDE_FUNCTION u32 code16(u32 stored) {
  return sizeof(typename Float::Stored) == 1 ? stored << 8 : stored;
}

// Two bytes of `low` and `high` (4 to 7) each, as the halves of a word.
SONDE_FUNCTION u32 bytes_at(u32 low, u32 high, u32 places) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, places);
#else
  const u64 bytes = static_cast<u64>(high) << 32 | low;
  u32 found = 0;
  for (u32 k = 0; k < 4; ++k) found |= static_cast<u32>(bytes >> 8 * (places >> 4 * k & 7U) & 0xFFU) << 8 * k;
  return found;
#endif
}

// What a thread has of a group: two words of each row.
struct Words {
  u32 of_row[kRows][2];
};

// Of a complete group whose elements lie side by side, at an address that fits.
template <class Float>
SONDE_FUNCTION void fetch_words(Words& words, const Place& place, long long first) {
  const auto* group = static_cast<const typename Float::Stored*>(place.data) + first;
#pragma unroll
  for (u32 row = 0; row < kRows; ++row) {
    if constexpr (Float::kNeighbours) {
      const u64 both = *reinterpret_cast<const u64*>(group + row * kRow + 2 * place.lane);
      words.of_row[row][0] = static_cast<u32>(both);
      words.of_row[row][1] = static_cast<u32>(both >> 32);
    } else {
      const auto* codes = group + row * kRow + place.lane;
      words.of_row[row][0] = *reinterpret_cast<const u32*>(codes);
      words.of_row[row][1] = *reinterpret_cast<const u32*>(codes + kLanes);
    }
  }
}

// The pair of a lane of the thread in a row.
template <class Float>
SONDE_FUNCTION u32 pair_of(const Words& words, u32 row, u32 k) {
  const u32 first = words.of_row[row][0], second = words.of_row[row][1];
  if constexpr (Float::kNeighbours) return k == 0 ? first : second;
  if constexpr (sizeof(typename Float::Stored) == 2) return bytes_at(first, second, k == 0 ? 0x5410U : 0x7632U);
  return bytes_at(first, second, 0x4000U + 0x1010U * k) & 0xFF00FF00U;
}

template <class Float>
SONDE_FUNCTION bool is_aligned(const Place& place) {
  return reinterpret_cast<u64>(place.data) % (Float::kNeighbours ? 8 : 4) == 0;
}

SONDE_FUNCTION bool fits_floats(float squares) { return squares >= 0x1p-80F && squares <= 0x1p120F; }

// The finite value of an element; 0 for another, and behind the last one.
template <class Float>
SONDE_FUNCTION float finite_at(const Place& place, long long index) {
  if (index >= place.end) return 0;
  const float value = Float::value(code16<Float>(code_at<typename Float::Stored>(place, index)));
  return value - value == 0 ? value : 0;
}

// Adds the elements of a lane in a group as doubles, one by one.
template <class Float>
SONDE_FUNCTION Sums add_as_doubles(const Place& place, u32 lane, long long first) {
  Sums sums = {0, 0};
#pragma unroll 1
  for (u32 k = 0; k < 2 * kRows; ++k) {
    const auto value = static_cast<double>(finite_at<Float>(place, first + place_in_group<Float>(lane, k / 2, k % 2)));
    sums.sum += value;
    sums.squares += value * value;
  }
  return sums;
}

// Adds a group that is not complete, has elements that are not finite, or lies in strides.
template <class Float>
SONDE_FUNCTION Sums add_with_care(Found<u32>& found, const Place& place, u32 lane, long long first) {
  float sum[2] = {0, 0}, squares[2] = {0, 0};
#pragma unroll 1
  for (u32 row = 0; row < kRows; ++row) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      const long long index = first + place_in_group<Float>(lane, row, half);
      if (index >= place.end) continue;
      const float value = Float::value(code16<Float>(code_at<typename Float::Stored>(place, index)));
      if (!count(found, value)) continue;
      sum[half] += value;
      squares[half] += value * value;
    }
  }
  if (!fits_floats(squares[0] + squares[1])) return add_as_doubles<Float>(place, lane, first);
  return {static_cast<double>(sum[0] + sum[1]), static_cast<double>(squares[0] + squares[1])};
}

// Whether the lane of a group is to be added in another way.
enum class Added : u32 { quickly, as_doubles, with_care };

// Adds a lane of a complete group. With care if it has elements that are not finite, which the codes of its extremes show.
template <class Float>
SONDE_FUNCTION Added add_quickly(Sums& sums, Pairs& all, const Words& words, u32 k) {
  Pairs group = no_pairs();
  float sum[2] = {0, 0}, squares[2] = {0, 0};
#pragma unroll
  for (u32 row = 0; row < kRows; ++row) {
    const u32 pair = pair_of<Float>(words, row, k);
    count_pair(group, pair);
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      const float value = Float::quick_value(pair, half);
      sum[half] += value;
      squares[half] += value * value;
    }
  }
  const int positive = most_positive(group);
  const u32 negative = most_negative(group);
  if (positive >= static_cast<int>(Float::kInfinity) || negative >= 0x8000U + Float::kInfinity) return Added::with_care;
  add_pairs(all, group);
  if (nearest(group) == 0) {
#pragma unroll
    for (u32 row = 0; row < kRows; ++row) count_zeros(all, pair_of<Float>(words, row, k));
  }
  const float all_squares = squares[0] + squares[1];
  const bool zeros = positive <= 0 && negative <= 0x8000U;
  sums = {static_cast<double>(zeros ? 0 : sum[0] + sum[1]), static_cast<double>(all_squares)};
  return zeros || fits_floats(all_squares) ? Added::quickly : Added::as_doubles;
}

SONDE_FUNCTION void keep_sums(Shared& shared, const Sums& sums, u32 group, u32 lane) {
  shared.of_groups[0][group][lane] = sums.sum;
  shared.of_groups[1][group][lane] = sums.squares;
}

// Adds the lanes of a thread in a group.
template <class Float>
SONDE_FUNCTION void add_group(Shared& shared, Found<u32>& found, Pairs& all, const Place& place, u32 group,
                              long long first, bool aligned) {
  constexpr u32 kCount = Float::kLanesOfThread;
  u32 later = 0x55555555U * static_cast<u32>(Added::with_care);  // how each lane is to be added, in two bits
  if constexpr (Float::kInfinity != 0) {
    if (aligned && place.end - first >= kGroup) {
      Words words;
      fetch_words<Float>(words, place, first);
      later = 0;
#pragma unroll
      for (u32 k = 0; k < kCount; ++k) {
        Sums sums;
        const Added added = add_quickly<Float>(sums, all, words, k);
        if (added == Added::quickly) keep_sums(shared, sums, group, place.lane + k);
        later |= static_cast<u32>(added) << 2 * k;
      }
    }
  }
  if (later == 0) return;
#pragma unroll 1
  for (u32 k = 0; k < kCount; ++k) {
    const auto added = static_cast<Added>(later >> 2 * k & 3U);
    if (added == Added::quickly) continue;
    const u32 lane = place.lane + k;
    const bool exactly = added == Added::as_doubles;
    keep_sums(shared,
              exactly ? add_as_doubles<Float>(place, lane, first) : add_with_care<Float>(found, place, lane, first),
              group, lane);
  }
}

// Leaves the same in shared memory as add_block does.
template <class Float>
SONDE_FUNCTION void add_groups(Shared& shared, const Source& source, u32 block) {
  const long long begin = static_cast<long long>(block) * kBlockElements;
  const long long end = source.elements - begin < kBlockElements ? source.elements : begin + kBlockElements;
  const u32 groups = static_cast<u32>(end - begin + kGroup - 1) / kGroup;
  SONDE_EACH_THREAD(thread) {
    constexpr u32 kThreadsOfGroup = kLanes / Float::kLanesOfThread;
    const u32 lane = thread % kThreadsOfGroup * Float::kLanesOfThread;
    const Place place = {source.data, shared.dimensions, source.rank, lane, end};
    const bool aligned = source.rank == 0 && is_aligned<Float>(place);
    Found<u32> found = {0, 0, 0, 0, 0, 0, ~0U};
    Pairs pairs = no_pairs();
#pragma unroll 1
    for (u32 group = thread / kThreadsOfGroup; group < groups; group += kThreads / kThreadsOfGroup) {
      add_group<Float>(shared, found, pairs, place, group, begin + group * kGroup, aligned);
    }
    if constexpr (Float::kInfinity != 0) note_pairs<Float>(found, pairs);
    share(shared, found, thread);
  }
  SONDE_EACH_THREAD(thread) {
    const u32 adder = turned(thread, SONDE_THREAD_BLOCK), of_squares = adder / kLanes, lane = adder % kLanes;
    if (of_squares < 2) {
      double total = 0;
#pragma unroll 4
      for (u32 group = 0; group < groups; ++group) total += shared.of_groups[of_squares][group][lane];
      shared.lanes[of_squares][lane] = total;
    }
  }
}

// --- all of it --------------------------------------------------------------------------------------------------------

SONDE_FUNCTION void add_block_of_type(Shared& shared, const Source& source, u32 block) {
  switch (source.element) {
    case Element::int32:
    case Element::uint32:
    case Element::int64:
    case Element::uint64:
    case Element::float64:
      return add_block<Lanes>(shared, source, block);
    case Element::bfloat16:
      return add_groups<Bfloat16>(shared, source, block);
    case Element::float16:
      return add_groups<Float16>(shared, source, block);
    case Element::float8_e4m3fn:
      return add_groups<Float8E4m3fn>(shared, source, block);
    case Element::float8_e5m2:
      return add_groups<Float8E5m2>(shared, source, block);
    case Element::float8_e4m3fnuz:
      return add_groups<Float8Fnuz<3, 8>>(shared, source, block);
    case Element::float8_e5m2fnuz:
      return add_groups<Float8Fnuz<2, 16>>(shared, source, block);
    default:
      return add_block<ExactLanes>(shared, source, block);
  }
}

// The last source that begins at or before this block.
SONDE_FUNCTION u32 source_of(const Batch& batch, u32 block) {
  u32 first = 0, last = batch.count;
  while (last - first > 1) {
    const u32 middle = (first + last) / 2;
    if (batch.sources[middle].first_block <= block) {
      first = middle;
    } else {
      last = middle;
    }
  }
  return first;
}

}  // namespace

// Gets as many thread blocks as the sources have blocks; each writes one record.
SONDE_KERNEL sonde_statistics(const Batch batch, Record* records) {
  SONDE_SHARED Shared shared;
  const u32 thread_block = SONDE_THREAD_BLOCK;
  const Source source = batch.sources[source_of(batch, thread_block)];
  SONDE_EACH_THREAD(thread) {
    if (thread < source.rank) shared.dimensions[thread] = batch.dimensions[source.first_dimension + thread];
  }
  add_block_of_type(shared, source, thread_block - source.first_block);
#pragma unroll 1
  for (u32 half = kThreads / 2; half > 0; half /= 2) {
    SONDE_EACH_THREAD(thread) {
      const u32 to = turned(thread, thread_block);
      if (to < half) join(shared, to, to + half);
    }
  }
  SONDE_EACH_THREAD(thread) {
    if (turned(thread, thread_block) == 0) write_record(shared, records[thread_block]);
  }
}

}  // namespace sonde::device
