#include "originals.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>

namespace sonde_mindspore {
namespace {

// The libraries that contain them: 2.10's dumper, 2.7's dumper and runtime, the kernels of 2.10 and 2.7, PyNative
// operators.
constexpr const char* kLibraries[] = {"libmindspore_tools.so",      "libmindspore_backend_common.so",
                                      "libmindspore_ops_cpu.so",    "libmindspore_ops_host.so",
                                      "libmindspore_pyboost.so",    "libmindspore_pynative_utils.so",
                                      "libmindspore_ms_backend.so", "libmindspore_core.so"};

void* find_in(const char* library_name, const char* symbol) {
  void* library = ::dlopen(library_name, RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return nullptr;
  void* found = ::dlsym(library, symbol);
  ::dlclose(library);
  return found;
}

struct Search {
  const char* symbol;
  void* found;
};

int look(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const char* slash = std::strrchr(info->dlpi_name, '/');
  if (slash == nullptr || std::strncmp(slash + 1, "libmindspore_", 13) != 0) return 0;
  search.found = find_in(info->dlpi_name, search.symbol);
  return search.found != nullptr ? 1 : 0;
}

}  // namespace

void* find_in_mindspore(const char* symbol) {
  for (const char* library : kLibraries) {
    if (void* found = find_in(library, symbol)) return found;
  }
  Search search{symbol, nullptr};
  ::dl_iterate_phdr(look, &search);
  return search.found;
}

}  // namespace sonde_mindspore
