#include "backward.h"

#if __has_include(<torch/csrc/autograd/node.h>)
#include <torch/csrc/autograd/node.h>
#else  // PyTorch up to 2.9
#include <torch/csrc/autograd/function.h>
#endif

#include <limits>
#include <unordered_map>

#include "leaked.h"
#include "synchronized.h"
#include "threads.h"

namespace sonde_torch {
namespace {

// AccumulateGrad has no sequence number of its own.
constexpr std::uint64_t kLeaf = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kMostLeaves = 1 << 16;

// The producers of the leaves' gradients, by the address of their nodes. The producer runs before, on its device's thread;
// the leaf may be on another device.
using Producers = std::unordered_map<const torch::autograd::Node*, std::uint32_t>;

Leaked<Synchronized<Producers>> g_leaves;

}  // namespace

std::uint32_t site_of_current_node(bool unknown) {
  const auto node = torch::autograd::get_current_node();
  if (!node) return 0;
  Synchronized<Producers>& leaves = *g_leaves;
  if (node->sequence_nr() == kLeaf) {
    const auto producers = leaves.lock();
    const auto known = producers->find(node.get());
    return known != producers->end() ? known->second : 0;
  }
  const auto sequence = static_cast<std::int64_t>(node->sequence_nr());
  const std::uint32_t site = unknown ? 0 : site_of_sequence(node->thread_id(), sequence);
  for (const torch::autograd::Edge& edge : node->next_edges()) {
    if (!edge.function || edge.function->sequence_nr() != kLeaf) continue;
    const auto producers = leaves.lock();
    if (producers->size() > kMostLeaves) producers->clear();
    (*producers)[edge.function.get()] = site;
  }
  return site;
}

void forget_nodes() {
  g_leaves.renew();
  forget_sequence_owners();
}

}  // namespace sonde_torch
