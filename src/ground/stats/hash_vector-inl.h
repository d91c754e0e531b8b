// MD5 and SHA-1 with a message in each lane. Included once per instruction set.
#if defined(SONDE_HASH_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SONDE_HASH_VECTOR_INL_H_
#undef SONDE_HASH_VECTOR_INL_H_
#else
#define SONDE_HASH_VECTOR_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ground/stats/hash_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace sonde {
namespace HWY_NAMESPACE {

namespace hashing = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3
constexpr std::size_t kHashLanes = 16;
#elif HWY_TARGET == HWY_AVX2
constexpr std::size_t kHashLanes = 8;
#else
constexpr std::size_t kHashLanes = 4;
#endif

using HashTag = hashing::CappedTag<std::uint32_t, kHashLanes>;
using HashVec = hashing::Vec<HashTag>;
using QuarterTag = hashing::CappedTag<std::uint32_t, 4>;  // 16 bytes of one message
using QuarterVec = hashing::Vec<QuarterTag>;

// --- the functions of three words; `late` is the word that is known last -----------------------------------------------

#if HWY_TARGET == HWY_AVX3
template <int kTable>
HWY_INLINE HashVec ternary(HashVec a, HashVec b, HashVec c) {
  return HashVec{_mm512_ternarylogic_epi32(a.raw, b.raw, c.raw, kTable)};
}
HWY_INLINE HashVec choose(HashVec which, HashVec yes, HashVec no) { return ternary<0xCA>(which, yes, no); }
HWY_INLINE HashVec parity(HashVec late, HashVec b, HashVec c) { return ternary<0x96>(late, b, c); }
HWY_INLINE HashVec majority(HashVec late, HashVec b, HashVec c) { return ternary<0xE8>(late, b, c); }
HWY_INLINE HashVec md5_last(HashVec late, HashVec c, HashVec d) { return ternary<0x39>(late, c, d); }
template <int kBits>
HWY_INLINE HashVec rotate(HashVec v) {
  return HashVec{_mm512_rol_epi32(v.raw, kBits)};
}
#else
HWY_INLINE HashVec choose(HashVec which, HashVec yes, HashVec no) {
  return hashing::Xor(hashing::And(hashing::Xor(yes, no), which), no);
}
HWY_INLINE HashVec parity(HashVec late, HashVec b, HashVec c) { return hashing::Xor(hashing::Xor(b, c), late); }
HWY_INLINE HashVec majority(HashVec late, HashVec b, HashVec c) {
  return hashing::Or(hashing::And(hashing::Or(b, c), late), hashing::And(b, c));
}
HWY_INLINE HashVec md5_last(HashVec late, HashVec c, HashVec d) {
  return hashing::Xor(hashing::Or(late, hashing::Not(d)), c);
}
template <int kBits>
HWY_INLINE HashVec rotate(HashVec v) {
  return hashing::Or(hashing::ShiftLeft<kBits>(v), hashing::ShiftRight<32 - kBits>(v));
}
#endif

// --- blocks of messages become words of lanes ---------------------------------------------------------------------------

HWY_INLINE QuarterVec quarter(const std::byte* data) {
  return hashing::LoadU(QuarterTag(), reinterpret_cast<const std::uint32_t*>(data));
}

// 16 bytes each of the messages first, first + 4, ...: one after the other in the vector.
HWY_INLINE HashVec every_fourth(const std::byte* const* data, std::size_t first, std::size_t offset) {
#if HWY_TARGET == HWY_AVX3
  const hashing::CappedTag<std::uint32_t, 8> half;
  const auto low = hashing::Combine(half, quarter(data[first + 4] + offset), quarter(data[first] + offset));
  const auto high = hashing::Combine(half, quarter(data[first + 12] + offset), quarter(data[first + 8] + offset));
  return hashing::Combine(HashTag(), high, low);
#elif HWY_TARGET == HWY_AVX2
  return hashing::Combine(HashTag(), quarter(data[first + 4] + offset), quarter(data[first] + offset));
#else
  return quarter(data[first] + offset);
#endif
}

// Words are little-endian in MD5, big-endian in SHA-1.
template <bool kBigEndian>
HWY_INLINE HashVec in_byte_order(HashVec v) {
  if constexpr (!kBigEndian) return v;
#if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  alignas(16) static constexpr std::uint8_t kReversed[16] = {3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12};
  const hashing::Repartition<std::uint8_t, HashTag> bytes;
  const auto order = hashing::LoadDup128(bytes, kReversed);
  return hashing::BitCast(HashTag(), hashing::TableLookupBytes(hashing::BitCast(bytes, v), order));
#else
  const HashVec swapped = rotate<16>(v);
  const HashVec odd = hashing::Set(HashTag(), 0x00FF00FF);
  return hashing::Or(hashing::And(hashing::ShiftRight<8>(swapped), odd),
                     hashing::ShiftLeft<8>(hashing::And(swapped, odd)));
#endif
}

// The 16 words of the next block of kHashLanes messages.
template <bool kBigEndian>
HWY_INLINE void load_words(const std::byte* const* data, std::size_t offset, HashVec* words) {
  const HashTag d;
  const hashing::Repartition<std::uint64_t, HashTag> d64;
  for (std::size_t group = 0; group < 4; ++group) {
    const std::size_t at = offset + 16 * group;
    const HashVec a = in_byte_order<kBigEndian>(every_fourth(data, 0, at));
    const HashVec b = in_byte_order<kBigEndian>(every_fourth(data, 1, at));
    const HashVec c = in_byte_order<kBigEndian>(every_fourth(data, 2, at));
    const HashVec e = in_byte_order<kBigEndian>(every_fourth(data, 3, at));
    const auto ab_low = hashing::BitCast(d64, hashing::InterleaveLower(d, a, b));
    const auto ab_high = hashing::BitCast(d64, hashing::InterleaveUpper(d, a, b));
    const auto ce_low = hashing::BitCast(d64, hashing::InterleaveLower(d, c, e));
    const auto ce_high = hashing::BitCast(d64, hashing::InterleaveUpper(d, c, e));
    words[4 * group] = hashing::BitCast(d, hashing::InterleaveLower(d64, ab_low, ce_low));
    words[4 * group + 1] = hashing::BitCast(d, hashing::InterleaveUpper(d64, ab_low, ce_low));
    words[4 * group + 2] = hashing::BitCast(d, hashing::InterleaveLower(d64, ab_high, ce_high));
    words[4 * group + 3] = hashing::BitCast(d, hashing::InterleaveUpper(d64, ab_high, ce_high));
  }
}

// The messages of 32 lanes are more streams than a CPU's own prefetcher follows.
HWY_INLINE void prefetch(const std::byte* const* data, std::size_t offset) {
  constexpr std::size_t kAhead = 16 * kHashBlock;
  for (std::size_t lane = 0; lane < kHashLanes; ++lane) hwy::Prefetch(data[lane] + offset + kAhead);
}

// --- MD5 ----------------------------------------------------------------------------------------------------------------

template <int kStep>
HWY_INLINE void md5_step(HashVec (&s)[4], const HashVec* words) {
  constexpr int kA = (64 - kStep) % 4, kB = (65 - kStep) % 4, kC = (66 - kStep) % 4, kD = (67 - kStep) % 4;
  const HashVec constant = hashing::Set(HashTag(), kMd5Sines[kStep]);
  HashVec sum = hashing::Add(s[kA], hashing::Add(words[md5_word(kStep)], constant));
  if constexpr (kStep < 16) {
    sum = hashing::Add(sum, choose(s[kB], s[kC], s[kD]));
  } else if constexpr (kStep < 32) {
#if HWY_TARGET == HWY_AVX3
    sum = hashing::Add(sum, choose(s[kD], s[kB], s[kC]));
#else  // the two parts have no bit in common
    sum = hashing::Add(hashing::Add(sum, hashing::AndNot(s[kD], s[kC])), hashing::And(s[kD], s[kB]));
#endif
  } else if constexpr (kStep < 48) {
    sum = hashing::Add(sum, parity(s[kB], s[kC], s[kD]));
  } else {
    sum = hashing::Add(sum, md5_last(s[kB], s[kC], s[kD]));
  }
  s[kA] = hashing::Add(s[kB], rotate<md5_rotation(kStep)>(sum));
}

// The sets of lanes take turns, since each step waits for the one before.
template <std::size_t kSets, int... kSteps>
HWY_INLINE void md5_block(HashVec (&s)[kSets][4], const HashVec (&words)[kSets][16],
                          std::integer_sequence<int, kSteps...>) {
  if constexpr (kSets == 2) {
    ((md5_step<kSteps>(s[0], words[0]), md5_step<kSteps>(s[1], words[1])), ...);
  } else {
    (md5_step<kSteps>(s[0], words[0]), ...);
  }
}

template <std::size_t kSets>
void add_md5_blocks(HashStates& states, const std::byte* const* data, std::size_t blocks) {
  const HashTag d;
  HashVec s[kSets][4];
  for (std::size_t set = 0; set < kSets; ++set) {
    for (std::size_t i = 0; i < 4; ++i) s[set][i] = hashing::Load(d, states.words[i] + set * kHashLanes);
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    HashVec before[kSets][4];
    HashVec words[kSets][16];
    for (std::size_t set = 0; set < kSets; ++set) {
      prefetch(data + set * kHashLanes, block * kHashBlock);
      load_words<false>(data + set * kHashLanes, block * kHashBlock, words[set]);
      for (std::size_t i = 0; i < 4; ++i) before[set][i] = s[set][i];
    }
    md5_block<kSets>(s, words, std::make_integer_sequence<int, 64>());
    for (std::size_t set = 0; set < kSets; ++set) {
      for (std::size_t i = 0; i < 4; ++i) s[set][i] = hashing::Add(s[set][i], before[set][i]);
    }
  }
  for (std::size_t set = 0; set < kSets; ++set) {
    for (std::size_t i = 0; i < 4; ++i) hashing::Store(s[set][i], d, states.words[i] + set * kHashLanes);
  }
}

// --- SHA-1 --------------------------------------------------------------------------------------------------------------

template <int kStep>
HWY_INLINE void sha1_step(HashVec (&s)[5], HashVec (&words)[16]) {
  constexpr int kA = (80 - kStep) % 5, kB = (81 - kStep) % 5, kC = (82 - kStep) % 5, kD = (83 - kStep) % 5,
                kE = (84 - kStep) % 5;
  if constexpr (kStep >= 16) {
    const HashVec mixed = parity(words[(kStep + 13) % 16], words[(kStep + 8) % 16], words[(kStep + 2) % 16]);
    words[kStep % 16] = rotate<1>(hashing::Xor(mixed, words[kStep % 16]));
  }
  const HashVec constant = hashing::Set(HashTag(), kSha1Constants[kStep / 20]);
  HashVec sum = hashing::Add(s[kE], hashing::Add(words[kStep % 16], constant));
  if constexpr (kStep < 20) {
    sum = hashing::Add(sum, choose(s[kB], s[kC], s[kD]));
  } else if constexpr (kStep >= 40 && kStep < 60) {
    sum = hashing::Add(sum, majority(s[kB], s[kC], s[kD]));
  } else {
    sum = hashing::Add(sum, parity(s[kB], s[kC], s[kD]));
  }
  s[kE] = hashing::Add(sum, rotate<5>(s[kA]));
  s[kB] = rotate<30>(s[kB]);
}

template <std::size_t kSets, int... kSteps>
HWY_INLINE void sha1_block(HashVec (&s)[kSets][5], HashVec (&words)[kSets][16], std::integer_sequence<int, kSteps...>) {
  if constexpr (kSets == 2) {
    ((sha1_step<kSteps>(s[0], words[0]), sha1_step<kSteps>(s[1], words[1])), ...);
  } else {
    (sha1_step<kSteps>(s[0], words[0]), ...);
  }
}

template <std::size_t kSets>
void add_sha1_blocks(HashStates& states, const std::byte* const* data, std::size_t blocks) {
  const HashTag d;
  HashVec s[kSets][5];
  for (std::size_t set = 0; set < kSets; ++set) {
    for (std::size_t i = 0; i < 5; ++i) s[set][i] = hashing::Load(d, states.words[i] + set * kHashLanes);
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    HashVec before[kSets][5];
    HashVec words[kSets][16];
    for (std::size_t set = 0; set < kSets; ++set) {
      prefetch(data + set * kHashLanes, block * kHashBlock);
      load_words<true>(data + set * kHashLanes, block * kHashBlock, words[set]);
      for (std::size_t i = 0; i < 5; ++i) before[set][i] = s[set][i];
    }
    sha1_block<kSets>(s, words, std::make_integer_sequence<int, 80>());
    for (std::size_t set = 0; set < kSets; ++set) {
      for (std::size_t i = 0; i < 5; ++i) s[set][i] = hashing::Add(s[set][i], before[set][i]);
    }
  }
  for (std::size_t set = 0; set < kSets; ++set) {
    for (std::size_t i = 0; i < 5; ++i) hashing::Store(s[set][i], d, states.words[i] + set * kHashLanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sonde
HWY_AFTER_NAMESPACE();

#endif
