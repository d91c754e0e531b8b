// The functions of sonde.h for the statistics kernel of devices. They need no session.
#pragma once

#include "sonde/sonde.h"

namespace sonde {

std::int64_t device_record_bytes(const sonde_tensor* tensor);
int device_statistics(const sonde_device_queue* queue, const sonde_tensor* const* tensors, std::uint32_t count,
                      void* records, char* message, std::size_t message_bytes);
void device_fold(const void* records, std::uint64_t elements, std::uint32_t flags, sonde_device_result* result);

}  // namespace sonde
