// The host's own threads, borrowed to read large tensors: between two operators they wait. The engine has none for this.
#pragma once

#include <cstdint>

namespace sonde {

// As `sonde_pool` of sonde.h.
struct HostPool {
  // The threads that the calling thread may use now, itself included; 1 inside a parallel region.
  std::uint32_t (*threads)() = nullptr;
  // Runs piece(context, i) for each i below `pieces`, each once, on the calling thread and others; returns when all
  // have ended. Null: the host has no pool.
  void (*run)(std::uint32_t pieces, void (*piece)(void* context, std::uint32_t index), void* context) = nullptr;
};

// Any thread, at any time; a call that is under way ends with the former pool.
void set_host_pool(const HostPool& pool);

// The number of pieces into which reading `bytes` is worth cutting here and now; 1: the caller reads them alone.
std::uint32_t host_pool_pieces(std::uint64_t bytes);

inline constexpr std::uint32_t kMostPoolPieces = 16;

// Runs body(i) for each i below `pieces`, at most kMostPoolPieces. `body` must not throw.
template <typename Body>
void run_on_host_pool(std::uint32_t pieces, Body&& body);

namespace detail {
void run_pieces(std::uint32_t pieces, void (*piece)(void* context, std::uint32_t index), void* context);
}  // namespace detail

template <typename Body>
void run_on_host_pool(std::uint32_t pieces, Body&& body) {
  if (pieces == 1) return body(0U);
  detail::run_pieces(
      pieces, [](void* context, std::uint32_t index) { (*static_cast<Body*>(context))(index); }, &body);
}

}  // namespace sonde
