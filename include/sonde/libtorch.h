// For C++ programs with libtorch that libsonde_torch.so records: scopes, steps, and a recording of the program's own. The
// library is found at run time, so that a program that uses this header needs no other one: where libsonde_torch.so is
// not loaded (LD_PRELOAD, `sonde run`, or linked as sonde::torch), everything here does nothing.
//
//   torch::Tensor Net::forward(torch::Tensor x) {
//     sonde::Scope scope("network-Net");
//     {
//       sonde::Scope block("block1");
//       x = torch::relu(conv1(x));             // Default/network-Net/block1/relu-op0, with the line of `block`
//     }
//     return fc(x.flatten(1));
//   }
#pragma once

#include <dlfcn.h>

#include <source_location>
#include <string>

namespace sonde {
namespace libtorch {

// The function of libsonde_torch.so; null where it is not loaded.
template <typename Function>
Function* function(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace libtorch

// Operators of this thread belong to the innermost scope, and have its line. The outermost scope is the model: without an
// optimizer a step begins whenever it opens, and its operators are of training if gradients are on when it opens. Close
// scopes on the thread that opened them, the last one first.
class Scope {
 public:
  explicit Scope(const std::string& name, std::source_location place = std::source_location::current()) {
    static auto* const open =
        libtorch::function<void(const char*, const char*, unsigned, const char*)>("sonde_torch_open_scope");
    if (open != nullptr) open(name.c_str(), place.file_name(), place.line(), place.function_name());
  }
  ~Scope() {
    static auto* const close = libtorch::function<void()>("sonde_torch_close_scope");
    if (close != nullptr) close();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

// The step ends here. Only for loops that have neither an optimizer of PyTorch's own classes nor an outermost scope.
inline void step() {
  static auto* const end = libtorch::function<void()>("sonde_torch_step");
  if (end != nullptr) end();
}

// A recording from here to the end of the object, where the environment has not begun one. What is wrong with the
// configuration goes to stderr, and the program goes on.
class Recording {
 public:
  explicit Recording(const std::string& config) {
    auto* const start = libtorch::function<int(const char*)>("sonde_torch_start");
    started_ = start != nullptr && start(config.c_str()) != 0;
  }
  ~Recording() {
    auto* const stop = libtorch::function<void()>("sonde_torch_stop");
    if (started_ && stop != nullptr) stop();
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  bool started() const { return started_; }

 private:
  bool started_ = false;
};

}  // namespace sonde
