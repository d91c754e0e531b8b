#include "ground/base/memory_apart.h"

#include <sys/mman.h>

#include <new>

namespace sonde {

// Pages are aligned to more than any object here asks for.
void* SystemPages::do_allocate(std::size_t bytes, std::size_t) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

void SystemPages::do_deallocate(void* memory, std::size_t bytes, std::size_t) { ::munmap(memory, bytes); }

}  // namespace sonde
