// WriteMethod: writes through the page cache or past it (O_DIRECT), whichever disturbs the training less.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sonde {

// A direct write runs at disk speed and takes little processor time; a write through the page cache takes two to ten
// times as much, and takes it from the training. So writes are direct while the writer keeps up. If the training has to
// wait, the faster way counts: the page cache accepts a burst at memory speed until it is full or its pages must come
// from a hypervisor. That varies between machines and within a run, so both are measured: the slower one is retried now
// and then, less often each time it loses. For one thread.
class WriteMethod {
 public:
  static constexpr std::size_t kLeastBytes = 256 << 10;  // below this, making the file costs more than its bytes
  enum Kind : std::uint8_t { direct, cached };

  Kind next(bool keeps_up = false);  // `keeps_up`: nobody waits for this write
  void took(Kind kind, std::size_t bytes, std::uint64_t nanoseconds);
  void no_direct() { supported_ = false; }  // this file system refuses it

 private:
  static constexpr std::uint32_t kFirstWait = 16, kLongestWait = 256;  // files between trials

  std::array<double, 2> cost_ = {0, 0};  // nanoseconds per byte, newest third; 0: not tried yet
  std::uint32_t wait_ = kFirstWait, since_trial_ = 0;
  bool supported_ = true;
};

}  // namespace sonde
