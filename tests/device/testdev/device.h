// The state of the test device: its counters, its switches, and the addresses of its memory.
//
// A tensor of the device has an address in pages that nobody may touch (PROT_NONE), as the host cannot read the memory
// of a GPU. The elements lie at another address, which only kernels and copies know: real().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace testdev {

constexpr int kDevices = 2;
constexpr std::size_t kSpaceBytes = std::size_t{1} << 36;  // of addresses, per device

// The events on one device since reset_counters(). `testdev.counters()` in Python has the same names.
enum class Counter {
  kernels,
  copies_to_host,
  copies_to_device,
  copies_on_device,
  bytes_to_host,
  bytes_to_device,
  bytes_on_device,
  waits,         // the host waited for the device: synchronisations, blocking copies, values of scalars
  queries,       // the host asked, and did not wait
  events,        // recorded
  stream_waits,  // one stream was made to wait for another
  allocations,   // of device memory, as the program asks for it
  segments,      // those of them for which the cache had nothing
  pinned_allocations,
  allocated_bytes,  // now, as the program asks for it
  peak_bytes,       // the most since reset_counters()
  reserved_bytes,   // now, with what the cache keeps
  count
};
constexpr std::array<const char*, static_cast<std::size_t>(Counter::count)> kCounterNames = {
    "kernels",          "copies_to_host",
    "copies_to_device", "copies_on_device",
    "bytes_to_host",    "bytes_to_device",
    "bytes_on_device",  "waits",
    "queries",          "events",
    "stream_waits",     "allocations",
    "segments",         "pinned_allocations",
    "allocated_bytes",  "peak_bytes",
    "reserved_bytes"};

struct Device {
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Counter::count)> counters{};
  std::atomic<std::uint64_t> limit_bytes{kSpaceBytes};  // of device memory
  std::atomic<bool> lost{false};                        // every call fails, as after an error of the bus
  char* untouchable = nullptr;                          // where its tensors say they are
  char* elements = nullptr;                             // where they are
};

// Switches for all devices.
struct Switches {
  std::atomic<bool> has_events{true};
  std::atomic<bool> has_pinned{true};
  std::atomic<bool> in_fork{false};  // this process is a child of one that used the device
};

Device& device(int index);
Switches& switches();

inline std::atomic<std::uint64_t>& counter(int index, Counter which) {
  return device(index).counters[static_cast<std::size_t>(which)];
}
inline void count(int index, Counter which, std::uint64_t by = 1) { counter(index, which) += by; }

// Throws if the device is lost, or was used before a fork.
void check_usable(int index);

// The elements at an address of the device. Only for the threads of streams, and for a host that has waited.
char* real(int index, const void* address);

}  // namespace testdev
