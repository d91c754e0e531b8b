#include "ground/stats/sha1_instructions.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include <utility>

#define SONDE_SHA __attribute__((target("sha,sse4.1")))
#define SONDE_SHA_INLINE __attribute__((target("sha,sse4.1"), always_inline)) inline

namespace sonde {
namespace {

// The running hash of one message, and the words of its block.
struct Message {
  __m128i abcd;  // a in the highest word
  __m128i e;     // in the highest word; from the second four steps on the a of four steps ago, which becomes e
  __m128i words[4];
  const std::byte* at;
};

SONDE_SHA_INLINE void load_state(Message& m, const HashStates& states, std::size_t lane) {
  const auto word = states.words;
  m.abcd = _mm_set_epi32(static_cast<int>(word[0][lane]), static_cast<int>(word[1][lane]),
                         static_cast<int>(word[2][lane]), static_cast<int>(word[3][lane]));
  m.e = _mm_set_epi32(static_cast<int>(word[4][lane]), 0, 0, 0);
}

SONDE_SHA_INLINE void store_state(const Message& m, HashStates& states, std::size_t lane) {
  alignas(16) std::uint32_t words[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(words), m.abcd);
  for (std::size_t i = 0; i < 4; ++i) states.words[i][lane] = words[3 - i];
  states.words[4][lane] = static_cast<std::uint32_t>(_mm_extract_epi32(m.e, 3));
}

SONDE_SHA_INLINE void load_block(Message& m) {
  const __m128i reversed = _mm_set_epi64x(0x0001020304050607, 0x08090A0B0C0D0E0F);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    m.words[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(m.at) + i), reversed);
  }
  m.at += kHashBlock;
}

// Steps 4 * kFour to 4 * kFour + 3, and four of the words of later steps.
template <int kFour>
SONDE_SHA_INLINE void four_steps(Message& m) {
  __m128i(&words)[4] = m.words;
  const __m128i now = words[kFour % 4];
  const __m128i sum = kFour == 0 ? _mm_add_epi32(m.e, now) : _mm_sha1nexte_epu32(m.e, now);
  m.e = m.abcd;
  m.abcd = _mm_sha1rnds4_epu32(m.abcd, sum, kFour / 5);
  if constexpr (kFour >= 3 && kFour < 19) {
    __m128i& next = words[(kFour + 1) % 4];
    next = _mm_sha1msg1_epu32(next, words[(kFour + 2) % 4]);
    next = _mm_sha1msg2_epu32(_mm_xor_si128(next, words[(kFour + 3) % 4]), now);
  }
}

template <std::size_t kMessages, int... kFours>
SONDE_SHA_INLINE void all_steps(Message (&m)[kMessages], std::integer_sequence<int, kFours...>) {
  if constexpr (kMessages == 2) {
    ((four_steps<kFours>(m[0]), four_steps<kFours>(m[1])), ...);
  } else {
    (four_steps<kFours>(m[0]), ...);
  }
}

template <std::size_t kMessages>
SONDE_SHA_INLINE void add_some(HashStates& states, const std::byte* const* data, std::size_t blocks,
                               std::size_t first) {
  Message m[kMessages];
#pragma GCC unroll 2
  for (std::size_t i = 0; i < kMessages; ++i) {
    load_state(m[i], states, first + i);
    m[i].at = data[first + i];
  }
  for (; blocks > 0; --blocks) {
    __m128i abcd[kMessages], e[kMessages];
#pragma GCC unroll 2
    for (std::size_t i = 0; i < kMessages; ++i) {
      abcd[i] = m[i].abcd;
      e[i] = m[i].e;
      load_block(m[i]);
    }
    all_steps(m, std::make_integer_sequence<int, 20>());
#pragma GCC unroll 2
    for (std::size_t i = 0; i < kMessages; ++i) {
      m[i].e = _mm_sha1nexte_epu32(m[i].e, e[i]);
      m[i].abcd = _mm_add_epi32(m[i].abcd, abcd[i]);
    }
  }
#pragma GCC unroll 2
  for (std::size_t i = 0; i < kMessages; ++i) store_state(m[i], states, first + i);
}

SONDE_SHA void add_one(HashStates& states, const std::byte* const* data, std::size_t blocks) {
  add_some<1>(states, data, blocks, 0);
}

template <std::size_t kLanes>
SONDE_SHA void add_pairs(HashStates& states, const std::byte* const* data, std::size_t blocks) {
  for (std::size_t first = 0; first < kLanes; first += 2) add_some<2>(states, data, blocks, first);
}

bool has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("sse4.1") != 0 && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
}

}  // namespace

std::span<const HashWidth> sha1_instruction_widths() {
  static constexpr HashWidth kWidths[] = {
      {1, add_one}, {2, add_pairs<2>}, {4, add_pairs<4>}, {6, add_pairs<6>}, {8, add_pairs<8>}};
  static const bool has = has_instructions();
  return has ? std::span<const HashWidth>(kWidths) : std::span<const HashWidth>();
}

}  // namespace sonde
#else
namespace sonde {

std::span<const HashWidth> sha1_instruction_widths() { return {}; }

}  // namespace sonde
#endif
