#include "device.h"

#include <c10/util/Exception.h>
#include <pthread.h>
#include <sys/mman.h>

namespace testdev {
namespace {

char* reserve(int protection) {
  void* space = mmap(nullptr, kSpaceBytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TORCH_CHECK(space != MAP_FAILED, "testdev: cannot reserve addresses");
  return static_cast<char*>(space);
}

std::array<Device, kDevices>& devices() {
  static auto* all = [] {  // never destroyed: threads of streams outlive static destruction
    auto* made = new std::array<Device, kDevices>;
    for (Device& one : *made) {
      one.untouchable = reserve(PROT_NONE);
      one.elements = reserve(PROT_READ | PROT_WRITE);
    }
    pthread_atfork(nullptr, nullptr, [] { switches().in_fork = true; });
    return made;
  }();
  return *all;
}

}  // namespace

Device& device(int index) { return devices().at(static_cast<std::size_t>(index)); }

Switches& switches() {
  static auto* all = new Switches;
  return *all;
}

void check_usable(int index) {
  TORCH_CHECK(!switches().in_fork, "testdev: cannot use the device in a forked process; it was used before the fork");
  TORCH_CHECK(!device(index).lost, "testdev: device ", index, " is lost");
}

char* real(int index, const void* address) {
  const Device& of = device(index);
  const auto* at = static_cast<const char*>(address);
  TORCH_CHECK(at >= of.untouchable && at < of.untouchable + kSpaceBytes, "testdev: not an address of device ", index);
  return of.elements + (at - of.untouchable);
}

}  // namespace testdev
