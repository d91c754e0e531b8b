#include "ground/stats/device.h"

#include <array>
#include <atomic>

namespace sonde {
namespace {

using Table = std::array<std::atomic<const DeviceAccess*>, 256>;

Table& table() {
  static Table known{};
  return known;
}

}  // namespace

const DeviceAccess* device_access(DeviceType device) {
  if (device == DeviceType::cpu) [[likely]]
    return &host_access();
  return table()[static_cast<std::uint8_t>(device)].load(std::memory_order_acquire);
}

void register_device(DeviceType device, const DeviceAccess& access) {
  table()[static_cast<std::uint8_t>(device)].store(&access, std::memory_order_release);
}

}  // namespace sonde
