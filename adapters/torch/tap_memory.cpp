#include "tap_memory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include <map>
#include <optional>
#include <utility>

#include "leaked.h"
#include "setup.h"
#include "synchronized.h"

namespace sonde_torch {
namespace {

constexpr std::size_t kMostKept = std::size_t{128} << 20;  // bytes; when they are full, all are given back
constexpr std::size_t kLeast = std::size_t{128} << 10;     // smaller blocks are PyTorch's own

// A block of memory and its length. `data` is of PyTorch's allocator.
struct Block {
  c10::DataPtr data;
  std::size_t bytes = 0;
};

using Blocks = std::multimap<std::size_t, Block*>;  // by length

struct Pool {
  Blocks blocks;
  std::size_t bytes = 0;

  Blocks take_all() {
    bytes = 0;
    return std::exchange(blocks, {});
  }
};

Synchronized<Pool>& pool() { return table_of_process<Synchronized<Pool>>(); }

void free_all(const Blocks& blocks) {
  for (const auto& [bytes, block] : blocks) delete block;
}

// The deleter of a tensor's memory.
void keep_block(void* context) {
  auto* block = static_cast<Block*>(context);
  Blocks released;
  if (recording() == nullptr) {
    delete block;
    return;
  }
  {
    const auto all = pool().lock();
    if (all->bytes + block->bytes > kMostKept)
      released = all->take_all();  // of sizes that nobody needs any more, maybe
    all->blocks.emplace(block->bytes, block);
    all->bytes += block->bytes;
  }
  free_all(released);
}

Block* take_block(std::size_t bytes) {
  const auto all = pool().lock();
  const auto found = all->blocks.lower_bound(bytes);
  if (found == all->blocks.end()) return nullptr;
  Block* block = found->second;
  all->bytes -= found->first;
  all->blocks.erase(found);
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
  const Blocks released = pool().lock()->take_all();
  free_all(released);
}

}  // namespace sonde_torch
