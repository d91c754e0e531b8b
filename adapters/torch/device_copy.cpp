// Copies of whole tensors to the host, on a stream of ours.
//
//   program's stream   kernel that makes the tensor | copy on the device | event `ready` | ...
//   our stream                                                             waits for it  | copy to the host | event `done`
//
// So the program may write or free the tensor at once, also by kernels that PyTorch does not show. The allocator knows that
// our stream reads the copy. If too many bytes of such copies are under way, or the device has no memory for one, the tensor
// itself is copied to the host, and the program's stream waits for `done`.
#include <ATen/Functions.h>

#include <atomic>
#include <map>
#include <mutex>

#include "device_work.h"

namespace sonde_torch {
namespace {

constexpr std::uint64_t kMostStagedBytes = 64 << 20;  // of copies on all devices

struct Copy {
  ReadingPtr reading;
  std::uint64_t staged_bytes;
  c10::Stream stream;  // ours, of the device
  c10::Event done;
};

struct Copies {
  std::mutex mutex;
  InFlight<Copy> in_flight{mutex};
  std::map<c10::DeviceIndex, c10::Stream> streams;  // of ours
  std::atomic<std::uint64_t> staged_bytes{0};       // under way
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

void hand_over_copy(const Copy& copy, bool lost) {
  g_copies->staged_bytes -= copy.staged_bytes;
  lost ? failed(copy.reading, kDeviceFailed) : arrived(copy.reading, SONDE_READ_BYTES);
}

}  // namespace

void begin_copy(const ReadingPtr& reading, const at::Tensor& source, const sonde_device_read& request) {
  const c10::Device device = source.device();
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream producer = guard.getStream(device);
  Copies& all = *g_copies;
  at::Tensor from = source;
  std::uint64_t staged_bytes = 0;
  const bool as_it_lies = from.is_contiguous() && !from.is_conj() && !from.is_neg();
  if (!as_it_lies || all.staged_bytes + from.nbytes() <= kMostStagedBytes) {
    try {
      at::Tensor staged = at::empty(from.sizes(), from.options());
      staged.copy_(from, true);
      from = std::move(staged);
      staged_bytes = from.nbytes();
    } catch (const c10::OutOfMemoryError&) {
      if (!as_it_lies) throw;
    }
  }
  const at::Tensor to = pinned_tensor(request.owner, from.sizes(), from.scalar_type());
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
  if (staged_bytes == 0) done.block(producer);
  reading->parts.fetch_add(1);
  all.staged_bytes += staged_bytes;
  all.in_flight.add({reading, staged_bytes, ours, std::move(done)});
}

void poll_copies() { g_copies->in_flight.poll(hand_over_copy); }

void drain_copies() { g_copies->in_flight.drain(hand_over_copy); }

void forget_copies() { g_copies.renew(); }

}  // namespace sonde_torch
