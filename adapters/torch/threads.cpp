#include "threads.h"

#include <map>

#include "leaked.h"
#include "synchronized.h"

namespace sonde_torch {
namespace {

constexpr std::size_t kMostEnded = 32;  // threads; each has half a megabyte

struct AllOwners {
  std::map<std::uint64_t, std::shared_ptr<SequenceOwners>> by_thread;  // threads are numbered as they come
  std::size_t look_at = kMostEnded;  // at so many entries, some threads will have ended
};

Synchronized<AllOwners>& all_owners() { return table_of_process<Synchronized<AllOwners>>(); }

// The oldest go first.
void forget_ended(AllOwners& all) {
  const auto ended = [](const auto& item) { return item.second.use_count() == 1; };
  std::size_t count = 0;
  for (const auto& item : all.by_thread) count += ended(item) ? 1 : 0;
  for (auto it = all.by_thread.begin(); it != all.by_thread.end() && count > kMostEnded / 2;) {
    if (ended(*it)) {
      it = all.by_thread.erase(it);
      --count;
    } else {
      ++it;
    }
  }
  all.look_at = all.by_thread.size() + kMostEnded;
}

}  // namespace

std::shared_ptr<SequenceOwners> sequence_owners(std::uint64_t thread) {
  const auto all = all_owners().lock();
  const auto [it, fresh] = all->by_thread.try_emplace(thread);
  if (!fresh) return it->second;
  it->second = std::make_shared<SequenceOwners>();
  const std::shared_ptr<SequenceOwners> owners = it->second;
  if (all->by_thread.size() > all->look_at) forget_ended(*all);
  return owners;
}

std::uint32_t site_of_sequence(std::uint64_t thread, std::int64_t sequence) {
  const auto all = all_owners().lock();
  const auto it = all->by_thread.find(thread);
  return it != all->by_thread.end() ? it->second->get(sequence) : 0;
}

void forget_sequence_owners() {
  const auto all = all_owners().lock();
  for (auto& [thread, owners] : all->by_thread) owners->clear();
}

}  // namespace sonde_torch
