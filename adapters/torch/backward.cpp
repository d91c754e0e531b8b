#include "backward.h"

#if __has_include(<torch/csrc/autograd/node.h>)
#include <torch/csrc/autograd/node.h>
#else  // PyTorch up to 2.9
#include <torch/csrc/autograd/function.h>
#endif

#include <atomic>
#include <limits>
#include <unordered_map>

#include "threads.h"

namespace sonde_torch {
namespace {

// AccumulateGrad has no sequence number of its own.
constexpr std::uint64_t kLeaf = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kMostLeaves = 1 << 16;

std::atomic<std::uint64_t> g_epoch{1};

// The producers of the leaves' gradients, by the address of their nodes. The producer runs before, on this thread.
struct Leaves {
  std::unordered_map<const torch::autograd::Node*, std::uint32_t> producers;
  std::uint64_t epoch = 0;
};

Leaves& leaves() {
  thread_local Leaves mine;
  const std::uint64_t epoch = g_epoch.load(std::memory_order_acquire);
  if (mine.epoch != epoch || mine.producers.size() > kMostLeaves) {
    mine.producers.clear();
    mine.epoch = epoch;
  }
  return mine;
}

}  // namespace

std::uint32_t site_of_current_node(bool unknown) {
  const auto node = torch::autograd::get_current_node();
  if (!node) return 0;
  Leaves& mine = leaves();
  if (node->sequence_nr() == kLeaf) {
    const auto known = mine.producers.find(node.get());
    return known != mine.producers.end() ? known->second : 0;
  }
  const auto sequence = static_cast<std::int64_t>(node->sequence_nr());
  const std::uint32_t site = unknown ? 0 : site_of_sequence(node->thread_id(), sequence);
  for (const torch::autograd::Edge& edge : node->next_edges()) {
    if (edge.function && edge.function->sequence_nr() == kLeaf) mine.producers[edge.function.get()] = site;
  }
  return site;
}

void forget_nodes() {
  g_epoch.fetch_add(1);
  forget_sequence_owners();
}

}  // namespace sonde_torch
