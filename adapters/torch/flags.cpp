#include "flags.h"

#include <atomic>
#include <utility>

namespace sonde_torch {
namespace {

std::atomic<const Flags*> g_flags{nullptr};

}  // namespace

const Flags* flags() { return g_flags.load(std::memory_order_acquire); }

// The old table is kept: another thread may be using it. set_dump() is called only a few times in a run.
void set_flags(Flags targets) {
  g_flags.store(targets.empty() ? nullptr : new Flags(std::move(targets)), std::memory_order_release);
}

}  // namespace sonde_torch
