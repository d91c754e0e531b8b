// Packages of AOTInductor that were made with taps (python/sonde/compiled/packages.py). Their code calls the functions
// below, which it looks for by the name of sonde_torch_package_2; where Sonde is not loaded, it calls nothing.
#pragma once

#include <cstdint>

extern "C" {

// The code of packages has the same structure.
struct sonde_package_functions {
  // A run of the graph in `table` begins on this thread; `number` belongs to the package, 0 at first. 0: not recorded,
  // and the others are not called.
  int (*begin)(const char* table, std::int64_t* number);
  // The results of node `node`, and those of its inputs that no node makes: handles of tensors, as in PyTorch's C shims.
  void (*tap)(std::int64_t node, void* const* results, std::int64_t result_count, void* const* given,
              std::int64_t given_count);
  void (*name)(const char* name, void* tensor);  // a parameter or buffer in the package
  // `results`: those of the model, handles of tensors; null: it has raised.
  void (*end)(void* const* results, std::int64_t result_count);
};

__attribute__((visibility("default"))) const sonde_package_functions* sonde_torch_package_2(void);
}
