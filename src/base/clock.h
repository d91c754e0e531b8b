// The time of day, as used in every file of a dump.
#pragma once

#include <chrono>
#include <cstdint>

namespace sonde {

// Microseconds since the Unix epoch, like every time in a dump.
inline std::uint64_t now_us() {
  using namespace std::chrono;
  return static_cast<std::uint64_t>(duration_cast<microseconds>(system_clock::now().time_since_epoch()).count());
}

}  // namespace sonde
