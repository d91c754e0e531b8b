// Random numbers of the device. Each kernel that draws gets a seed of its own when it is launched, so the numbers do
// not depend on when it runs, nor on the numbers that the host draws.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>

namespace testdev {

const at::Generator& default_generator(int device);
at::Generator new_generator(int device);

// A generator of the CPU with the next seed of `generator`, or of the device's own.
at::Generator next_kernel_generator(const std::optional<at::Generator>& generator, int device);

}  // namespace testdev
