// MemoryApart: memory for many small objects that live long, beside the host's heap. Among the host's blocks they would
// keep it from joining what it frees, and its heap would grow.
#pragma once

#include <cstddef>
#include <memory_resource>

namespace sonde {

// Pages of the system. Any thread.
class SystemPages : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

// Freed blocks are used again; all memory goes back at the end. Not synchronised.
class MemoryApart {
 public:
  std::pmr::memory_resource* resource() { return &pool_; }

 private:
  static constexpr std::size_t kFirstBytes = 64 << 10;
  SystemPages pages_;
  std::pmr::monotonic_buffer_resource chunks_{kFirstBytes, &pages_};
  std::pmr::unsynchronized_pool_resource pool_{&chunks_};
};

}  // namespace sonde
