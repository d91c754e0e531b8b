// Memory of devices, which only the host can read: it begins to read when it is asked, and brings the result later.
#pragma once

#include <cstdint>
#include <memory>

#include "dump/journal/late_reading.h"
#include "record/capture/host_tensor.h"
#include "sonde/sonde.h"

namespace sonde {

// Any thread, at any time. A null `read`: the host cannot read memory of devices.
void set_devices(const sonde_devices& devices);
bool reads_devices();

// Both only if reads_devices(), and not under the session's lock. A block in host memory to which devices can copy; null:
// `why`.
BlockPtr take_device_block(BlockPool& blocks, std::uint64_t bytes, const char*& why);
std::uint32_t read_on_device(sonde_device_read& request);
// Returns when every read that has begun has arrived; at once if the host reads no devices. Not under the session's lock.
void drain_devices();

// The number under which the host will bring the result of `reading`.
std::uint64_t expect_reading(const std::shared_ptr<LateReading>& reading);
// Null: nobody waits for it any more.
std::shared_ptr<LateReading> take_expected(std::uint64_t ticket);
// Nothing that was begun will be waited for.
void forget_expected();

// Writes the result into `reading`, which has then arrived.
void deliver(LateReading& reading, const sonde_device_result& result);

// Asks the host for what `request` wants of `tensor`, as `view` describes it. False: the host refuses. `why`: a part is not
// there.
bool begin_reading(const std::shared_ptr<LateReading>& reading, sonde_device_read request, const HostTensor& tensor,
                   const TensorView& view, const char*& why);

// The elements of a tensor in C order, now: the program waits for the device. Null: `why`. Not under the session's lock.
BlockPtr fetch_from_device(BlockPool& blocks, const HostTensor& tensor, const char*& why);

}  // namespace sonde
