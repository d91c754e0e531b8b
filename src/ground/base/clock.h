// The time of day, as used in every file of a dump; and a time to wait.
#pragma once

#include <chrono>
#include <cstdint>

namespace sonde {

// Microseconds since the Unix epoch, like every time in a dump.
inline std::uint64_t now_us() {
  using namespace std::chrono;
  return static_cast<std::uint64_t>(duration_cast<microseconds>(system_clock::now().time_since_epoch()).count());
}

// Since some time in the past: for durations.
inline std::uint64_t now_ns() {
  using namespace std::chrono;
  return static_cast<std::uint64_t>(
      duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

// Ten years. condition_variable::wait_for(lock, kForever, …) does the work of wait(), whose symbol is of GCC 12: with it the
// wheel would not load on systems with GCC 11's libstdc++, such as RHEL 9.
inline constexpr std::chrono::hours kForever{24 * 3652};

}  // namespace sonde
