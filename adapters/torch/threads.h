// Finds the forward op that made an autograd node, by the thread it ran on and its sequence number there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace sonde_torch {

// The last 65,536 sequence numbers of one thread; older ones are forgotten. Written by that thread, read by any.
class SequenceOwners {
 public:
  void set(std::int64_t sequence, std::uint32_t site) {
    slots_[index(sequence)].store(pack(sequence, site), std::memory_order_relaxed);
  }
  // 0 if the op is unknown.
  std::uint32_t get(std::int64_t sequence) const {
    const std::uint64_t packed = slots_[index(sequence)].load(std::memory_order_relaxed);
    return (packed >> 24) == static_cast<std::uint64_t>(sequence) + 1 ? static_cast<std::uint32_t>(packed & 0xFFFFFF)
                                                                      : 0;
  }
  void clear() {
    for (std::size_t i = 0; i < kSlots; ++i) slots_[i].store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kSlots = 1 << 16;
  static std::size_t index(std::int64_t sequence) { return static_cast<std::size_t>(sequence) % kSlots; }
  static std::uint64_t pack(std::int64_t sequence, std::uint32_t site) {
    return (static_cast<std::uint64_t>(sequence) + 1) << 24 | (site & 0xFFFFFF);
  }
  std::unique_ptr<std::atomic<std::uint64_t>[]> slots_ { new std::atomic<std::uint64_t>[ kSlots ]() };
};

// The numbers of a thread, by at::RecordFunction::currentThreadId(). Its owner counts as the thread itself: of threads
// that have ended only the last few are kept, for backward passes that begin elsewhere.
std::shared_ptr<SequenceOwners> sequence_owners(std::uint64_t thread);
// The site of that op on that thread; 0 if it is unknown.
std::uint32_t site_of_sequence(std::uint64_t thread, std::int64_t sequence);
void forget_sequence_owners();  // of all threads

}  // namespace sonde_torch
