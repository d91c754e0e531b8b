#include "ground/stats/stream_copy.h"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>

#include <cstdint>

#include "ground/stats/moments.h"
#endif

namespace sonde {

#if defined(__SSE2__)  // every x86-64; wider instructions are not faster here

void stream_copy(std::byte* out, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64, kVector = sizeof(__m128i);
  const std::size_t misplaced = (kLine - reinterpret_cast<std::uintptr_t>(out) % kLine) % kLine;
  if (bytes < misplaced + kLine) {
    std::memcpy(out, from, bytes);
    return;
  }
  std::memcpy(out, from, misplaced);
  std::size_t at = misplaced;
  for (; at + kLine <= bytes; at += kLine) {
    __builtin_prefetch(from + at + kPrefetchAhead, 0, 2);  // any address is allowed
    __m128i line[kLine / kVector];
    std::memcpy(line, from + at, kLine);
    for (std::size_t i = 0; i < kLine / kVector; ++i)
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + at + i * kVector), line[i]);
  }
  _mm_sfence();  // before another thread reads it
  std::memcpy(out + at, from + at, bytes - at);
}

#else

void stream_copy(std::byte* out, const std::byte* from, std::size_t bytes) { std::memcpy(out, from, bytes); }

#endif

}  // namespace sonde
