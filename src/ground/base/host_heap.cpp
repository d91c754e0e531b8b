#include "ground/base/host_heap.h"

#include <cstddef>
#include <cstdlib>

namespace sonde {

void keep_freed_memory() {
  constexpr std::size_t kLargest = std::size_t{32} << 20, kHeaderAndRounding = 8192;
  // Volatile, as a block that nobody uses may be left out.
  void* volatile block = std::malloc(kLargest - kHeaderAndRounding);
  std::free(block);
}

}  // namespace sonde
