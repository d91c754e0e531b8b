// Copies of tensors that nobody reads soon: past the caches, which keep what the host works with.
#pragma once

#include <cstddef>

namespace sonde {

// Copies of fewer bytes stay in the caches without harm.
inline constexpr std::size_t kLeastStreamedBytes = 128 << 10;

// As memcpy. Writes past the caches, so that the lines of the copy are not fetched first: 1.6 times as fast for data that
// is in no cache.
void stream_copy(std::byte* out, const std::byte* from, std::size_t bytes);

}  // namespace sonde
