// The kernels of multi_hash.h: MD5 and SHA-1 of several messages at once, one message in each lane of 32 bits. One per
// instruction set, and "scalar", which runs everywhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sonde {

inline constexpr std::size_t kHashBlock = 64;  // bytes that MD5 and SHA-1 take at a time
inline constexpr std::size_t kMostHashLanes = 32;
inline constexpr std::size_t kHashWords = 5;  // of SHA-1; MD5 has 4

// The running hashes: word 0 of every lane, then word 1 of every lane.
struct HashStates {
  alignas(64) std::uint32_t words[kHashWords][kMostHashLanes];
};

// Adds `blocks` blocks of each lane to the states: those of lane i lie at data[i], at any address.
using AddHashBlocks = void (*)(HashStates& states, const std::byte* const* data, std::size_t blocks);

// One width of a kernel: it takes as long for `lanes` messages as for one.
struct HashWidth {
  std::size_t lanes = 0;
  AddHashBlocks add = nullptr;
};

using HashWidths = std::array<HashWidth, 8>;  // narrowest first, the last ones may be missing

struct HashKernel {
  std::string_view name;  // as in SONDE_KERNEL
  HashWidths md5;
  HashWidths sha1;
};

// The kernels that this CPU can run, fastest first; the last is the scalar one.
std::span<const HashKernel> hash_kernels();
// The one of the same name as chosen_kernel().
const HashKernel& chosen_hash_kernel();
// One lane, in ordinary arithmetic.
const HashKernel& scalar_hash_kernel();

// floor(2^32 * |sin(i + 1)|), the constants of MD5.
inline constexpr std::array<std::uint32_t, 64> kMd5Sines = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

// By round, and by step modulo 4.
inline constexpr int kMd5Rotations[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

constexpr int md5_rotation(int step) { return kMd5Rotations[step / 16][step % 4]; }

// The word of the block that a step adds.
constexpr int md5_word(int step) {
  constexpr int kFactors[4] = {1, 5, 3, 7};
  constexpr int kFirst[4] = {0, 1, 5, 0};
  return (kFactors[step / 16] * (step % 16) + kFirst[step / 16]) % 16;
}

// By twenty steps.
inline constexpr std::uint32_t kSha1Constants[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};

}  // namespace sonde
