#include "kernels.h"

#include <cstddef>
#include <unordered_map>

#include "torch/synchronized.h"

namespace sonde_mindspore {
namespace {

using sonde_torch::Synchronized;

struct Known {
  std::weak_ptr<mindspore::kernel::KernelMod> kernel;  // distinguishes it from a later one at the same address
  std::weak_ptr<mindspore::CNode> node;
};

struct Kernels {
  std::unordered_map<const void*, Known> known;
  std::size_t tidied_at = 1024;
};
Synchronized<Kernels>& kernels() {
  static auto& all = *new Synchronized<Kernels>;  // leaked: threads of MindSpore may outlive the statics
  return all;
}

}  // namespace

void remember_kernel(const std::shared_ptr<mindspore::kernel::KernelMod>& kernel,
                     const std::shared_ptr<mindspore::CNode>& node) {
  const auto all = kernels().lock();
  all->known.insert_or_assign(kernel.get(), Known{kernel, node});
  if (all->known.size() < all->tidied_at) return;
  std::erase_if(all->known, [](const auto& entry) { return entry.second.kernel.expired(); });
  all->tidied_at = 2 * all->known.size() + 1024;
}

std::shared_ptr<mindspore::CNode> node_of(const mindspore::kernel::KernelMod* kernel) {
  const auto all = kernels().lock();
  const auto found = all->known.find(kernel);
  if (found == all->known.end() || found->second.kernel.expired()) return nullptr;
  return found->second.node.lock();
}

}  // namespace sonde_mindspore
