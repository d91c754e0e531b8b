// Tensors in the memory of a device: CUDA, ROCm, XPU, MPS, and backends of others (PrivateUse1, Ascend's too). The host
// cannot read them. The engine asks for bytes or statistics, a stream of ours or the program's own brings them, and the
// program's thread hands them over at one of its next operators. It waits for the device only in drain_devices().
//
// device_copy.cpp makes the copies, device_statistics.cpp the statistics, device_pinned.cpp has the host's memory for them.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "tensors.h"

namespace sonde_torch {

// Lends the engine our way to read devices.
void lend_devices();

// The reason why tensors of this device cannot be read; null if they can. Static text.
const char* why_unreadable_device(c10::Device device);

// True if a tensor of a device was read, or was to be.
bool uses_devices();

// A later operator of the current stream writes the memory: it then comes after the copies that still read it.
void await_copies(const TensorDescriptor& written);
// All later operators of every stream that was seen: before operators run that are not observed.
void await_all_copies();

// Hands over what has arrived, without waiting.
void poll_devices();
// A step is over: its statistics are fetched.
void fetch_statistics();
// Waits for everything that has begun, and hands it over.
void drain_devices();
// In a forked child, which has no device.
void forget_devices();

}  // namespace sonde_torch
