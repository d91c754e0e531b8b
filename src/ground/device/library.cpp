#include "ground/device/library.h"

#include <dlfcn.h>
#include <link.h>

namespace sonde::device {

Result<Library> Library::open(std::span<const std::string> names) {
  std::string tried;
  for (const std::string& name : names) {
    if (void* const handle = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) return Library(handle, name);
    const char* const reason = ::dlerror();
    tried += (tried.empty() ? "" : "; ") + std::string(reason != nullptr ? reason : name);
  }
  return Error{ErrorCode::not_found, tried};
}

void* Library::address_of(const char* function_name) const { return ::dlsym(handle_, function_name); }

Error Library::missing(const char* function_name) const {
  return {ErrorCode::unsupported, "'" + name_ + "' has no function " + function_name};
}

std::vector<std::string> loaded_libraries(std::string_view beginning) {
  struct Search {
    std::string_view beginning;
    std::vector<std::string> found;
  };
  Search search{beginning, {}};
  ::dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* data) {
        auto& into = *static_cast<Search*>(data);
        const std::string_view path = library->dlpi_name != nullptr ? library->dlpi_name : "";
        const std::string_view file = path.substr(path.rfind('/') + 1);
        if (file.starts_with(into.beginning)) into.found.emplace_back(path);
        return 0;
      },
      &search);
  return search.found;
}

}  // namespace sonde::device
