// Copies of whole tensors to the host, on a stream of ours.
//
//   program's stream   kernel that makes the tensor | event `ready` | …                  | kernel that writes it again
//   our stream                                        waits for it  | copy | event `done`    (waits for `done`)
//
// The allocator knows that our stream reads the memory: that of a tensor that dies meanwhile is kept. A tensor that the next
// kernel overwrites, or whose elements do not lie in C order, is first copied on the device, in the program's stream.
#include <ATen/Functions.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "device_work.h"

namespace sonde_torch {
namespace {

struct Copy {
  ReadingPtr reading;
  std::uint64_t storage;  // that it reads directly; 0: a copy of ours
  c10::Stream stream;     // ours, of the device
  c10::Event done;
};

struct Copies {
  std::mutex mutex;
  InFlight<Copy> in_flight{mutex};
  std::map<c10::DeviceIndex, c10::Stream> streams;  // of ours
  std::vector<c10::Stream> producers;               // streams of the program with tensors that we read
};

Leaked<Copies> g_copies;

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

void hand_over_copy(const Copy& copy, bool lost) {
  lost ? failed(copy.reading, kDeviceFailed) : arrived(copy.reading, SONDE_READ_BYTES);
}

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
  Copies& all = *g_copies;
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
  all.in_flight.add({reading, direct ? request.tensor->storage : 0, ours, std::move(done)});
}

void await_copies_of(std::uint64_t storage, c10::Device device) {
  Copies& all = *g_copies;
  if (all.in_flight.is_empty()) return;
  const std::lock_guard lock(all.mutex);
  // The last copy of a memory comes after the others: they share a stream.
  const auto& parts = all.in_flight.parts();
  const auto last = std::find_if(parts.rbegin(), parts.rend(), [&](const auto& copy) {
    return copy->storage == storage && copy->stream.device() == device;
  });
  if (last == parts.rend()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  (*last)->done.block(guard.getStream(device));
}

void await_copies_everywhere() {
  Copies& all = *g_copies;
  if (all.in_flight.is_empty()) return;
  const std::lock_guard lock(all.mutex);
  std::map<c10::DeviceIndex, const Copy*> last;
  for (const auto& copy : all.in_flight.parts()) {
    if (copy->storage != 0) last[copy->stream.device_index()] = copy.get();
  }
  for (const auto& [index, copy] : last) {
    for (const c10::Stream& stream : all.producers) {
      if (stream.device() != copy->stream.device()) continue;
      try {
        copy->done.block(stream);
      } catch (...) {  // a stream that the program has destroyed
      }
    }
  }
}

void poll_copies() { g_copies->in_flight.poll(hand_over_copy); }

void drain_copies() { g_copies->in_flight.drain(hand_over_copy); }

void forget_copies() { g_copies.renew(); }

}  // namespace sonde_torch
