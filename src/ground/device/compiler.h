// Compiles the statistics kernel with the compiler that a framework brings: NVRTC or hiprtc.
#pragma once

#include <string>

#include "ground/device/runtime.h"
#include "sonde/result.h"

namespace sonde::device {

// Code for the driver. `architecture` is the device's compute capability, 90 for 9.0: code for it, or, if this compiler
// is older than the device, PTX for the newest that it knows. hiprtc compiles for the current device, and does not look.
Result<std::string> compile_kernel(Runtime runtime, int architecture);

}  // namespace sonde::device
