#include "tap_memory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include <map>
#include <mutex>
#include <optional>

#include "leaked.h"
#include "setup.h"

namespace sonde_torch {
namespace {

constexpr std::size_t kMostKept = std::size_t{128} << 20;  // bytes; when they are full, all are given back
constexpr std::size_t kLeast = std::size_t{128} << 10;     // smaller blocks are PyTorch's own

// A block of memory and its length. `data` is of PyTorch's allocator.
struct Block {
  c10::DataPtr data;
  std::size_t bytes = 0;
};

struct Pool {
  std::mutex mutex;
  std::multimap<std::size_t, Block*> blocks;  // by length
  std::size_t bytes = 0;
};

Pool& pool() { return table_of_process<Pool>(); }

void free_all(std::multimap<std::size_t, Block*>& blocks) {
  for (const auto& [bytes, block] : blocks) delete block;
  blocks.clear();
}

// The deleter of a tensor's memory.
void keep_block(void* context) {
  auto* block = static_cast<Block*>(context);
  std::multimap<std::size_t, Block*> released;
  if (recording() == nullptr) {
    delete block;
    return;
  }
  {
    Pool& all = pool();
    const std::lock_guard lock(all.mutex);
    if (all.bytes + block->bytes > kMostKept) {  // of sizes that nobody needs any more, maybe
      released.swap(all.blocks);
      all.bytes = 0;
    }
    all.blocks.emplace(block->bytes, block);
    all.bytes += block->bytes;
  }
  free_all(released);
}

Block* take_block(std::size_t bytes) {
  Pool& all = pool();
  const std::lock_guard lock(all.mutex);
  const auto found = all.blocks.lower_bound(bytes);
  if (found == all.blocks.end()) return nullptr;
  Block* block = found->second;
  all.bytes -= found->first;
  all.blocks.erase(found);
  return block;
}

class TapAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes < kLeast || bytes > kMostKept) return c10::GetCPUAllocator()->allocate(bytes);
    Block* block = take_block(bytes);
    if (block == nullptr) block = new Block{c10::GetCPUAllocator()->allocate(bytes), bytes};
    return {block->data.get(), block, &keep_block, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }
};

// As Inductor's own function for memory of the CPU.
at::Tensor tap_memory(at::IntArrayRef size, at::IntArrayRef stride, at::ScalarType dtype) {
  static auto* allocator = new TapAllocator;
  return at::detail::empty_strided_generic(size, stride, allocator, c10::DispatchKeySet(c10::DispatchKey::CPU), dtype);
}

struct MemoryOperator {
  torch::Library all{torch::Library::FRAGMENT, "sonde", std::nullopt, __FILE__, __LINE__};

  MemoryOperator() {
    if (c10::Dispatcher::singleton().findSchema({"sonde::memory", ""})) return;  // of another adapter in this process
    all.def("memory(int[] size, int[] stride, ScalarType dtype) -> Tensor");
    all.impl("memory", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(tap_memory)));
  }
};
[[maybe_unused]] const MemoryOperator& g_memory_operator =
    *new MemoryOperator;  // never taken back: threads may outlive static destruction

}  // namespace

void release_tap_memory() {
  std::multimap<std::size_t, Block*> released;
  {
    Pool& all = pool();
    const std::lock_guard lock(all.mutex);
    released.swap(all.blocks);
    all.bytes = 0;
  }
  free_all(released);
}

}  // namespace sonde_torch
