// Shared libraries that a GPU's framework brings, opened while the program runs. They are never closed.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sonde/result.h"

namespace sonde::device {

class Library {
 public:
  // The first that can be opened, of names or paths in this order. The error names all of them.
  static Result<Library> open(std::span<const std::string> names);

  const std::string& name() const { return name_; }

  // Sets `function` to the function of this name, which may lie in a library that this one depends on.
  template <typename Function>
  Status find(const char* function_name, Function*& function) const {
    void* const address = address_of(function_name);
    if (address == nullptr) return missing(function_name);
    function = reinterpret_cast<Function*>(address);
    return {};
  }

 private:
  Library(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* address_of(const char* function_name) const;
  Error missing(const char* function_name) const;

  void* handle_;
  std::string name_;
};

// The paths of the libraries in this process whose file name begins so: `libcuda.so` finds `/usr/lib/…/libcuda.so.1`.
std::vector<std::string> loaded_libraries(std::string_view beginning);

}  // namespace sonde::device
