// Finds the graph node that a kernel object of MindSpore computes, from the call in which MindSpore made the kernel.
#pragma once

#include <memory>

namespace mindspore {
class CNode;
namespace kernel {
class KernelMod;
}
}  // namespace mindspore

namespace sonde_mindspore {

// Any thread. Keeps neither `node` nor `kernel` alive.
void remember_kernel(const std::shared_ptr<mindspore::kernel::KernelMod>& kernel,
                     const std::shared_ptr<mindspore::CNode>& node);

// Null if it belongs to no node of a graph that runs as a whole, such as an operator that PyNative mode compiled.
std::shared_ptr<mindspore::CNode> node_of(const mindspore::kernel::KernelMod* kernel);

}  // namespace sonde_mindspore
