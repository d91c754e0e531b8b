// The parts of a tensor's SHA-1, for hashing them together with others. md5_hex() and sha1_hex(): statistics.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ground/stats/multi_hash.h"

namespace sonde {

// The messages whose texts make the SHA-1 of a tensor in C order: its slices, or the whole if it has no more than one.
std::vector<HashMessage> sha1_slices(const std::byte* data, std::size_t bytes, std::size_t item_bytes);
// The SHA-1 of the tensor, as sha1_hex(), when all of them are done.
std::string sha1_of_slices(std::span<const HashMessage> slices);

}  // namespace sonde
