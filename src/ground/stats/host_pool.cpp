#include "ground/stats/host_pool.h"

#include <algorithm>
#include <atomic>

namespace sonde {
namespace {

// Two words that change together only when a host registers its pool: `run` is stored last and loaded first.
std::atomic<std::uint32_t (*)()> g_threads{nullptr};
std::atomic<void (*)(std::uint32_t, void (*)(void*, std::uint32_t), void*)> g_run{nullptr};

// Waking a thread costs some microseconds, in which one thread reads 100 KB.
constexpr std::uint64_t kLeastBytesPerPiece = 256 << 10;

}  // namespace

void set_host_pool(const HostPool& pool) {
  g_run.store(nullptr, std::memory_order_release);
  g_threads.store(pool.threads, std::memory_order_release);
  if (pool.threads != nullptr) g_run.store(pool.run, std::memory_order_release);
}

std::uint32_t host_pool_pieces(std::uint64_t bytes) {
  if (bytes < 2 * kLeastBytesPerPiece || g_run.load(std::memory_order_acquire) == nullptr) return 1;
  const auto threads = g_threads.load(std::memory_order_acquire);
  if (threads == nullptr) return 1;
  const std::uint64_t most = std::min<std::uint64_t>(bytes / kLeastBytesPerPiece, kMostPoolPieces);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(threads(), 1, most));
}

void detail::run_pieces(std::uint32_t pieces, void (*piece)(void* context, std::uint32_t index), void* context) {
  const auto run = g_run.load(std::memory_order_acquire);
  if (run != nullptr) return run(pieces, piece, context);
  for (std::uint32_t i = 0; i < pieces; ++i) piece(context, i);
}

}  // namespace sonde
