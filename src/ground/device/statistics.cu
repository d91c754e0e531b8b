// The statistics kernel of CUDA and ROCm: one read of each tensor gives everything that Statistics has.
//
// A thread block takes one block of 8192 elements, and adds them in the order that stats/moments.h defines for every
// kernel. So the sums have the bits of the CPU's, for any grid. The threads read a chunk of the block, count, and leave
// the finite values in shared memory; then 32 threads continue the sums of the 16 lanes, one thread for the sum of a lane
// and one for its squares. The next chunk is on its way from memory meanwhile.
//
// Compiled with products and sums left apart (no contraction). This text is compiled at run time, by NVRTC or hiprtc, and
// in a test by the host's compiler: SONDE_EMULATED, with a loop in place of the threads. So the threads meet only between
// two SONDE_EACH_THREAD, and their variables are declared by SONDE_OF_EACH_THREAD.
#include "ground/device/kernel_layout.h"

#ifndef SONDE_EMULATED
#define SONDE_KERNEL extern "C" __global__ void __launch_bounds__(256, 4)
#define SONDE_FUNCTION static __device__ __forceinline__
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
constexpr u32 kChunk = 2048;  // elements in shared memory
constexpr u32 kPerThread = kChunk / kThreads;
constexpr u32 kGroup = 256;  // elements that narrow floats are added in
constexpr u32 kRow = 2 * kLanes;

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

SONDE_FUNCTION float float8_e5m2_value(u32 raw) { return float16_value(raw << 8); }  // the upper half of a float16

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

// The ways of adding (stats/moments.h), and the types that hold the codes and the values.
struct Lanes {
  using Raw = u64;
  using Value = double;
};
struct ExactLanes {  // squares are exact, so that a fused multiply-add gives the same bits
  using Raw = u32;
  using Value = float;
};
struct Groups {  // as floats: elements k and k + 16 of a row are those of lane k
  using Raw = u32;
  using Value = float;
};
struct NeighbourGroups {  // as floats: elements 2k and 2k + 1
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

SONDE_FUNCTION void widen(Lanes, Element element, const u64* raw, double* values) {
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

SONDE_FUNCTION void widen(ExactLanes, Element element, const u32* raw, float* values) {
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

SONDE_FUNCTION void widen(Groups, Element element, const u32* raw, float* values) {
  switch (element) {
    case Element::float16:
      return widen_each(raw, values, float16_value);
    case Element::float8_e5m2:
      return widen_each(raw, values, float8_e5m2_value);
    case Element::float8_e4m3fn:
      return widen_each(raw, values, float8_e4m3fn_value);
    case Element::float8_e4m3fnuz:
      return widen_each(raw, values, float8_fnuz_value<3, 8>);
    default:
      return widen_each(raw, values, float8_fnuz_value<2, 16>);
  }
}

SONDE_FUNCTION void widen(NeighbourGroups, Element /*element*/, const u32* raw, float* values) {
  widen_each(raw, values, bfloat16_value);
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
    float floats[kChunk];
    double doubles[kChunk];
    struct {                 // what each thread found, on its way to one
      u64 counts[kThreads];  // of NaN, +inf, -inf, positive elements, 16 bits each
      u32 negative[kThreads];
      u64 max[kThreads];
      u64 min[kThreads];
    } found;
  };
  double of_groups[2][kChunk / kGroup][kLanes];  // sums and squares, added to the lanes one after the other
  double lanes[2][kLanes];
  Dimension dimensions[Batch::kMostDimensions];  // of the source
};

SONDE_FUNCTION float* values_of(Shared& shared, float /*kind*/) { return shared.floats; }
SONDE_FUNCTION double* values_of(Shared& shared, double /*kind*/) { return shared.doubles; }

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

// The sums of one lane of one group, as floats; as doubles if bits were lost or an infinity may have come up.
template <bool kNeighbours>
SONDE_FUNCTION void add_group(const float* group, u32 lane, double& sum, double& squares) {
  const u32 column[2] = {kNeighbours ? 2 * lane : lane, kNeighbours ? 2 * lane + 1 : lane + kLanes};
  float narrow_sum[2] = {0, 0}, narrow_squares[2] = {0, 0};
  for (u32 row = 0; row < kGroup; row += kRow) {
    for (u32 half = 0; half < 2; ++half) {
      const float value = group[row + column[half]];
      narrow_sum[half] += value;
      narrow_squares[half] += value * value;
    }
  }
  const float all_squares = narrow_squares[0] + narrow_squares[1];
  sum = static_cast<double>(narrow_sum[0] + narrow_sum[1]);
  squares = static_cast<double>(all_squares);
  if (all_squares >= 0x1p-80F && all_squares <= 0x1p120F) return;
  sum = squares = 0;
  for (u32 row = 0; row < kGroup; row += kRow) {
    for (u32 half = 0; half < 2; ++half) {
      const auto value = static_cast<double>(group[row + column[half]]);
      sum += value;
      squares += value * value;
    }
  }
}

// Adds the part of a lane in the chunk, or its squares, to the lane's total.
template <class Adding>
SONDE_FUNCTION double add_lane(const Shared& shared, const typename Adding::Value* values, u32 present, u32 lane,
                               bool of_squares, double total) {
  if constexpr (kSame<Adding, Groups> || kSame<Adding, NeighbourGroups>) {
    for (u32 group = 0; group * kGroup < present; ++group) total += shared.of_groups[of_squares][group][lane];
  } else {
    // The values are on their way before the sum needs them. Those behind the last one are 0.
    constexpr u32 kAhead = 16;
#pragma unroll 1
    for (u32 row = 0; row < present; row += kAhead * kLanes) {
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
  Value* values = values_of(shared, Value{});
  SONDE_OF_EACH_THREAD(Fetched, fetched);
  SONDE_OF_EACH_THREAD(Found<Order>, found);
  SONDE_OF_EACH_THREAD(double, total);

  SONDE_EACH_THREAD(thread) {
    SONDE_OWN(found, thread) = {0, 0, 0, 0, 0, 0, static_cast<Order>(~Order{0})};
    SONDE_OWN(total, thread) = 0;
    fetch(SONDE_OWN(fetched, thread).raw, shared, source, begin + thread, end);
  }
#pragma unroll 1
  for (long long first = begin; first < end; first += kChunk) {
    const u32 present = end - first < kChunk ? static_cast<u32>(end - first) : kChunk;
    SONDE_EACH_THREAD(thread) {
      Value widened[kPerThread];
      widen(Adding{}, source.element, SONDE_OWN(fetched, thread).raw, widened);
      bool all_finite = present == kChunk;
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) all_finite &= widened[k] - widened[k] == 0;
      if (all_finite) {
#pragma unroll
        for (u32 k = 0; k < kPerThread; ++k) {
          count_finite(SONDE_OWN(found, thread), widened[k]);
          values[k * kThreads + thread] = widened[k];
        }
      } else {
#pragma unroll
        for (u32 k = 0; k < kPerThread; ++k) {
          const u32 place = k * kThreads + thread;
          const bool is_finite = place < present && count(SONDE_OWN(found, thread), widened[k]);
          values[place] = is_finite ? widened[k] : 0;  // adding 0 changes no bit
        }
      }
      fetch(SONDE_OWN(fetched, thread).raw, shared, source, first + kChunk + thread, end);
    }
    if constexpr (kSame<Adding, Groups> || kSame<Adding, NeighbourGroups>) {
      SONDE_EACH_THREAD(thread) {
        const u32 group = thread / kLanes, lane = thread % kLanes;
        if (group * kGroup < present) {
          add_group<kSame<Adding, NeighbourGroups>>(values + group * kGroup, lane, shared.of_groups[0][group][lane],
                                                    shared.of_groups[1][group][lane]);
        }
      }
    }
    SONDE_EACH_THREAD(thread) {
      if (thread < 2 * kLanes) {
        SONDE_OWN(total, thread) =
            add_lane<Adding>(shared, values, present, thread % kLanes, thread / kLanes == 1, SONDE_OWN(total, thread));
      }
    }
  }
  SONDE_EACH_THREAD(thread) {
    if (thread < 2 * kLanes) shared.lanes[thread / kLanes][thread % kLanes] = SONDE_OWN(total, thread);
    share(shared, SONDE_OWN(found, thread), thread);
  }
}

SONDE_FUNCTION void add_block_of_type(Shared& shared, const Source& source, u32 block) {
  switch (source.element) {
    case Element::int32:
    case Element::uint32:
    case Element::int64:
    case Element::uint64:
    case Element::float64:
      return add_block<Lanes>(shared, source, block);
    case Element::bfloat16:
      return add_block<NeighbourGroups>(shared, source, block);
    case Element::float16:
    case Element::float8_e4m3fn:
    case Element::float8_e5m2:
    case Element::float8_e4m3fnuz:
    case Element::float8_e5m2fnuz:
      return add_block<Groups>(shared, source, block);
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
      if (thread < half) join(shared, thread, thread + half);
    }
  }
  SONDE_EACH_THREAD(thread) {
    if (thread == 0) write_record(shared, records[thread_block]);
  }
}

}  // namespace sonde::device
