#include "threads.h"

#include <mutex>
#include <unordered_map>

namespace sonde_torch {

namespace {

struct AllOwners {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::unique_ptr<SequenceOwners>> by_thread;
};

AllOwners& all_owners() {
  static auto* leaked = new AllOwners;  // host threads may outlive static destruction
  return *leaked;
}

}  // namespace

SequenceOwners& sequence_owners(std::uint64_t thread) {
  AllOwners& all = all_owners();
  const std::lock_guard lock(all.mutex);
  auto& owners = all.by_thread[thread];
  if (owners == nullptr) owners = std::make_unique<SequenceOwners>();
  return *owners;
}

void forget_sequence_owners() {
  AllOwners& all = all_owners();
  const std::lock_guard lock(all.mutex);
  for (auto& [thread, owners] : all.by_thread) owners->clear();
}

}  // namespace sonde_torch
