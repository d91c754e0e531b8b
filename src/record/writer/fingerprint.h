// Fingerprint: 128 bits of a file's bytes (XXH3), by which equal tensors are found.
#pragma once

#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "dump/journal/block.h"

namespace sonde {

struct Fingerprint {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

struct FingerprintHash {
  std::size_t operator()(const Fingerprint& key) const { return key.low; }
};

// Of a file: its header, and the hash of what follows.
inline Fingerprint fingerprint(std::string_view header, XXH128_hash_t data) {
  return {data.low64 ^ XXH3_64bits(header.data(), header.size()), data.high64};
}

inline Fingerprint fingerprint(std::string_view header, const Block& block) {
  return fingerprint(header, XXH3_128bits(block.data, block.bytes));
}

constexpr std::size_t kSampledBytes = 256 << 10;

// Of a tensor of kSampledBytes or more: of a part of its bytes. Nearly all large tensors differ there, and need no more.
inline Fingerprint sample(std::string_view header, const Block& block) {
  constexpr std::size_t kSamples = 64, kSampleBytes = 256;
  std::array<std::byte, kSamples * kSampleBytes> bytes;
  const std::size_t last = block.bytes - kSampleBytes;
  for (std::size_t i = 0; i < kSamples; ++i) {
    std::memcpy(&bytes[i * kSampleBytes], block.data + last * i / (kSamples - 1), kSampleBytes);
  }
  return fingerprint(header, XXH3_128bits_withSeed(bytes.data(), bytes.size(), block.bytes));
}

}  // namespace sonde
