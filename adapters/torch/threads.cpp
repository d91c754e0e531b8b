#include "threads.h"

#include <mutex>
#include <unordered_map>

namespace sonde_torch {

SequenceOwners& sequence_owners(std::uint64_t thread) {
  static auto* mutex = new std::mutex;
  static auto* all = new std::unordered_map<std::uint64_t, std::unique_ptr<SequenceOwners>>;
  const std::lock_guard lock(*mutex);
  auto& owners = (*all)[thread];
  if (owners == nullptr) owners = std::make_unique<SequenceOwners>();
  return *owners;
}

}  // namespace sonde_torch
