// Finds the graph node that a kernel object of MindSpore computes, as MindSpore said when it made the kernel.
#pragma once

#include <memory>

namespace mindspore {
class CNode;
namespace kernel {
class KernelMod;
}
}  // namespace mindspore

namespace sonde_mindspore {

// Any thread. `node` is not kept alive, nor is `kernel`.
void remember_kernel(const std::shared_ptr<mindspore::kernel::KernelMod>& kernel,
                     const std::shared_ptr<mindspore::CNode>& node);

// Null: it belongs to no node of a graph that runs as one. That of an operator that PyNative mode compiled does not.
std::shared_ptr<mindspore::CNode> node_of(const mindspore::kernel::KernelMod* kernel);

}  // namespace sonde_mindspore
