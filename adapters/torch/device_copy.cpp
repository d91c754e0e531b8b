// Copies of whole tensors to the host, on a stream of ours.
//
//   program's stream   kernel that makes the tensor | event `ready` | …                  | kernel that writes it again
//   our stream                                        waits for it  | copy | event `done`    (waits for `done`)
//
// The allocator knows that our stream reads the memory: that of a tensor that dies meanwhile is kept. A tensor that the next
// kernel overwrites, or whose elements do not lie in C order, is first copied on the device, in the program's stream.
#include <ATen/Functions.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "device_work.h"

namespace sonde_torch {
namespace {

struct Copy {
  ReadingPtr reading;
  std::uint64_t storage;  // that it reads directly; 0: a copy of ours
  c10::Device device;
  c10::Event done;
};

struct Copies {
  std::mutex mutex;
  std::deque<std::shared_ptr<Copy>> in_flight;      // of one device: in the order of its stream
  std::map<c10::DeviceIndex, c10::Stream> streams;  // of ours
  std::vector<c10::Stream> producers;               // streams of the program with tensors that we read
  std::atomic<std::size_t> count{0};
  std::atomic<int> handing_over{0};  // threads that have taken ended copies
};

std::atomic<Copies*>& copies_pointer() {
  static std::atomic<Copies*> pointer{new Copies};  // leaked: threads may outlive static destruction
  return pointer;
}
Copies& copies() { return *copies_pointer().load(); }

// Locked.
c10::Stream stream_of_ours(Copies& all, c10::Device device) {
  const auto known = all.streams.find(device.index());
  if (known != all.streams.end()) return known->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream made = guard.getNewStream(device);
  all.streams.emplace(device.index(), made);
  return made;
}

// Locked. Streams that the program waits on later, where operators are not observed.
void remember_producer(Copies& all, const c10::Stream& producer) {
  if (std::ranges::find(all.producers, producer) == all.producers.end()) all.producers.push_back(producer);
}

constexpr const char* kCopyLost = "the device failed before it had been read";

}  // namespace

void begin_copy(const ReadingPtr& reading, const at::Tensor& source, const sonde_device_read& request) {
  const c10::Device device = source.device();
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream producer = guard.getStream(device);
  at::Tensor from = source;
  const bool as_it_lies = from.is_contiguous() && !from.is_conj() && !from.is_neg();
  bool direct = as_it_lies && request.overwritten == 0;
  bool program_waits = false;
  if (!direct) {
    try {
      at::Tensor staged = at::empty(from.sizes(), from.options());
      staged.copy_(from, true);
      from = std::move(staged);
    } catch (const c10::OutOfMemoryError&) {
      if (!as_it_lies) throw;
      direct = program_waits = true;
    }
  }
  const at::Tensor to = pinned_tensor(request.owner, from.sizes(), from.scalar_type());
  Copies& all = copies();
  const std::lock_guard lock(all.mutex);
  const c10::Stream ours = stream_of_ours(all, device);
  c10::Event ready(device.type());
  ready.record(producer);
  ready.block(ours);
  c10::Event done(device.type());
  {
    const OnStream current(ours);
    to.copy_(from, true);
    done.record(ours);
  }
  guard.recordDataPtrOnStream(from.storage().data_ptr(), ours);
  if (program_waits) done.block(producer);
  remember_producer(all, producer);
  reading->parts.fetch_add(1);
  all.in_flight.push_back(
      std::make_shared<Copy>(Copy{reading, direct ? request.tensor->storage : 0, device, std::move(done)}));
  all.count = all.in_flight.size();
}

void await_copies_of(std::uint64_t storage, c10::Device device) {
  Copies& all = copies();
  if (all.count.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(all.mutex);
  // The last copy of a memory comes after the others: they share a stream.
  const auto last = std::find_if(all.in_flight.rbegin(), all.in_flight.rend(),
                                 [&](const auto& copy) { return copy->storage == storage && copy->device == device; });
  if (last == all.in_flight.rend()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  (*last)->done.block(guard.getStream(device));
}

void await_copies_everywhere() {
  Copies& all = copies();
  if (all.count.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(all.mutex);
  std::map<c10::DeviceIndex, const Copy*> last;
  for (const auto& copy : all.in_flight) {
    if (copy->storage != 0) last[copy->device.index()] = copy.get();
  }
  for (const auto& [index, copy] : last) {
    for (const c10::Stream& stream : all.producers) {
      if (stream.device() != copy->device) continue;
      try {
        copy->done.block(stream);
      } catch (...) {  // a stream that the program has destroyed
      }
    }
  }
}

void poll_copies() {
  Copies& all = copies();
  if (all.count.load(std::memory_order_relaxed) == 0) return;
  std::vector<std::shared_ptr<Copy>> ended;
  bool lost = false;
  {
    const std::lock_guard lock(all.mutex);
    std::map<c10::DeviceIndex, bool> busy;  // a stream ends its work in order
    const auto has_ended = [&](const std::shared_ptr<Copy>& copy) {
      bool& waits = busy[copy->device.index()];
      try {
        if (!waits && !lost) waits = !copy->done.query();
      } catch (...) {
        lost = true;
      }
      if (lost || !waits) ended.push_back(copy);
      return lost || !waits;
    };
    std::erase_if(all.in_flight, has_ended);
    all.count = all.in_flight.size();
    all.handing_over.fetch_add(1);
  }
  for (const auto& copy : ended) lost ? failed(copy->reading, kCopyLost) : arrived(copy->reading, SONDE_READ_BYTES);
  all.handing_over.fetch_sub(1);
}

void drain_copies() {
  Copies& all = copies();
  std::deque<std::shared_ptr<Copy>> waiting;
  {
    const std::lock_guard lock(all.mutex);
    waiting = all.in_flight;
  }
  // Outside the lock: other threads may need it to finish an operator. Meanwhile writers still find the copies.
  try {
    for (const auto& copy : waiting) copy->done.synchronize();
  } catch (...) {  // poll_copies() finds out
  }
  poll_copies();
  while (all.handing_over.load() > 0) std::this_thread::yield();
}

void forget_copies() { copies_pointer().store(new Copies); }

}  // namespace sonde_torch
