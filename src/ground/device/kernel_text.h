// The texts of statistics.cu and of the header that it includes, for a compiler at run time.
#pragma once

namespace sonde::device {

extern const char* const kKernelText;
extern const char* const kKernelLayoutText;  // "ground/device/kernel_layout.h"

}  // namespace sonde::device
