// The scopes that the program has opened (sonde::Scope), and its calls of models: what Python's frames are elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sonde_torch {

struct OpenScope {
  std::string name;
  std::string file, function;
  std::uint32_t line = 0;
};

// Of one thread.
struct Scopes {
  std::vector<OpenScope> open;  // outermost first
  std::uint64_t hash = 0;       // of those; 0: none is open
  std::string script_root;      // "network-Net", while a method of a TorchScript module runs
};
Scopes& scopes();  // of this thread

void open_scope(const char* name, const char* file, std::uint32_t line, const char* function);
void close_scope();

// The call of a model, from its begin to its end: a step may begin with it. `identity`: the same for the same model. Does
// nothing inside another one, or inside Optimizer.step.
class RootCall {
 public:
  explicit RootCall(const void* identity);
  ~RootCall();
  RootCall(const RootCall&) = delete;
  RootCall& operator=(const RootCall&) = delete;

 private:
  bool outermost_;
};

// The same for a scope, whose begin and end are two calls.
bool enter_root(const void* identity);
void leave_root();

}  // namespace sonde_torch
