#include "pool.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>

#include "setup.h"

namespace sonde_torch {
namespace {

// GCC's entry to a parallel region, which LLVM's and Intel's runtimes have too. It is found by name in the runtime that
// libtorch itself uses: an adapter compiled with -fopenmp could get another one, with threads of its own.
using Parallel = void (*)(void (*body)(void*), void* data, unsigned threads, unsigned flags);
Parallel g_parallel = nullptr;
// A child of fork() has no thread of its parent's team, and a runtime that has had one may wait for them.
bool g_forked = false;

Parallel find_parallel() {
  Dl_info torch{};
  if (dladdr(reinterpret_cast<void*>(&at::get_num_threads), &torch) == 0) return nullptr;
  void* library = dlopen(torch.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* found = dlsym(library, "GOMP_parallel");  // of the library and of those that it needs
  dlclose(library);
  return reinterpret_cast<Parallel>(found);
}

// PyTorch's own functions for this: with other values the runtime would end its threads and start new ones.
std::uint32_t threads() {
  if (g_forked || is_inert() || at::in_parallel_region()) return 1;
  return static_cast<std::uint32_t>(std::max(at::get_num_threads(), 1));
}

struct Pieces {
  std::uint32_t count;
  void (*piece)(void*, std::uint32_t);
  void* context;
  std::atomic<std::uint32_t> next{0};
};

void work(void* data) {
  Pieces& pieces = *static_cast<Pieces*>(data);
  for (;;) {
    const std::uint32_t i = pieces.next.fetch_add(1, std::memory_order_relaxed);
    if (i >= pieces.count) return;
    pieces.piece(pieces.context, i);
  }
}

void run(std::uint32_t count, void (*piece)(void*, std::uint32_t), void* context) {
  Pieces pieces{count, piece, context};
  g_parallel(work, &pieces, 0, 0);
}

}  // namespace

void forget_pool() { g_forked = true; }

void lend_pool() {
  if (g_parallel == nullptr) g_parallel = find_parallel();
  if (g_parallel == nullptr) return;
  sonde_pool pool{};
  pool.size = sizeof pool;
  pool.threads = threads;
  pool.run = run;
  api().set_pool(&pool);
}

}  // namespace sonde_torch
