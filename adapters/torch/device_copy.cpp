// Copies of whole tensors to the host, on a stream of ours.
//
//   program's stream   kernel that makes the tensor | copy on the device | event `ready` | ...
//   our stream                                                             waits for it  | copy to the host | event `done`
//
// So the program may write or free the tensor at once, also by kernels that PyTorch does not show. The allocator knows that
// our stream reads the copy. If too many bytes of such copies are under way, or the device has no memory for one, the tensor
// itself is copied to the host, and the program's stream waits for `done`: as a whole, or piece by piece if its elements do
// not lie in the order of the file.
#include <ATen/Functions.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "device_work.h"
#include "synchronized.h"

namespace sonde_torch {
namespace {

constexpr std::uint64_t kMostStagedBytes = 64 << 20;  // of copies on all devices
constexpr std::int64_t kPieceBytes = 8 << 20;

struct Copy {
  ReadingPtr reading;
  std::uint64_t staged_bytes;
  c10::Stream stream;  // ours, of the device
  c10::Event done;
};

using Streams = std::map<c10::DeviceIndex, c10::Stream>;

struct Copies {
  Synchronized<Streams> streams;  // of ours. The lock also keeps the copies of a stream in its order.
  InFlight<Copy> in_flight;
  std::atomic<std::uint64_t> staged_bytes{0};  // under way
};

Leaked<Copies> g_copies;

c10::Stream stream_of_ours(Streams& all, c10::Device device) {
  const auto known = all.find(device.index());
  if (known != all.end()) return known->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream made = guard.getNewStream(device);
  all.emplace(device.index(), made);
  return made;
}

void hand_over_copy(const Copy& copy, bool lost) {
  g_copies->staged_bytes -= copy.staged_bytes;
  lost ? failed(copy.reading, kDeviceFailed) : arrived(copy.reading, SONDE_READ_BYTES);
}

// Undefined: too many bytes of such copies are under way, or the device has no memory.
at::Tensor staged_copy(const Copies& all, const at::Tensor& source) {
  if (all.staged_bytes + source.nbytes() > kMostStagedBytes) return {};
  try {
    at::Tensor staged = at::empty(source.sizes(), source.options());
    staged.copy_(source, true);
    return staged;
  } catch (const c10::OutOfMemoryError&) {
    return {};
  }
}

at::Tensor memory_of_piece(const at::Tensor& source) {
  const std::int64_t most = kPieceBytes / static_cast<std::int64_t>(source.element_size());
  return at::empty({std::min(most, source.numel())}, source.options());
}

// From the program's stream to ours, and back by `done`.
struct Way {
  const c10::Stream producer, ours;
  c10::Event done;

  void send(const at::Tensor& to, const at::Tensor& from) {
    c10::Event ready(producer.device_type());
    ready.record(producer);
    ready.block(ours);
    const OnStream current(ours);
    to.copy_(from, true);
    done.record(ours);
  }

  // In C order. Each piece is put in order in the memory of `piece`, which the next one takes when it has been copied.
  void send_in_pieces(const at::Tensor& to, const at::Tensor& from, const at::Tensor& piece) {
    if (from.numel() <= piece.numel()) {
      const at::Tensor ordered = piece.narrow(0, 0, from.numel()).view(from.sizes());
      ordered.copy_(from, true);
      send(to, ordered);
      done.block(producer);
      return;
    }
    std::int64_t dim = 0;
    while (from.size(dim) == 1) ++dim;
    const std::int64_t half = from.size(dim) / 2;
    send_in_pieces(to.narrow(dim, 0, half), from.narrow(dim, 0, half), piece);
    send_in_pieces(to.narrow(dim, half, from.size(dim) - half), from.narrow(dim, half, from.size(dim) - half), piece);
  }
};

}  // namespace

void begin_copy(const ReadingPtr& reading, const at::Tensor& source, const sonde_device_read& request) {
  const c10::Device device = source.device();
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream producer = guard.getStream(device);
  Copies& all = *g_copies;
  const at::Tensor staged = staged_copy(all, source);
  const bool as_it_lies = source.is_contiguous() && !source.is_conj() && !source.is_neg();
  const at::Tensor piece = staged.defined() || as_it_lies ? at::Tensor() : memory_of_piece(source);
  const at::Tensor to = pinned_tensor(request.owner, source.sizes(), source.scalar_type());
  const auto streams = all.streams.lock();
  Way way{producer, stream_of_ours(*streams, device), c10::Event(device.type())};
  if (staged.defined()) {
    way.send(to, staged);
    guard.recordDataPtrOnStream(staged.storage().data_ptr(), way.ours);
  } else if (piece.defined()) {
    way.send_in_pieces(to, source, piece);
  } else {
    way.send(to, source);
    way.done.block(producer);
  }
  const std::uint64_t staged_bytes = staged.defined() ? staged.nbytes() : 0;
  reading->parts.fetch_add(1);
  all.staged_bytes += staged_bytes;
  all.in_flight.add({reading, staged_bytes, way.ours, std::move(way.done)});
}

bool are_copies_under_way() { return !g_copies->in_flight.is_empty(); }

void poll_copies() { g_copies->in_flight.poll(hand_over_copy); }

void drain_copies() { g_copies->in_flight.drain(hand_over_copy); }

}  // namespace sonde_torch
