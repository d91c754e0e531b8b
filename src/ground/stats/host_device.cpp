// Host memory: read where it lies.
#include <xxhash.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>

#include "ground/stats/device.h"
#include "ground/stats/finite.h"
#include "ground/stats/host_pool.h"
#include "ground/stats/stream_copy.h"
#include "ground/tensor/walk.h"

namespace sonde {
namespace {

// Images of memory that is about to be overwritten, which nobody reads if the operator does nothing wrong. Large ones on
// the host's pool.
void copy_block(const std::byte* from, std::size_t bytes, std::byte* out) {
  if (bytes < kLeastStreamedBytes) {
    std::memcpy(out, from, bytes);
    return;
  }
  const std::uint32_t pieces = host_pool_pieces(bytes);
  run_on_host_pool(pieces, [&](std::uint32_t piece) {
    constexpr std::size_t kPage = 4096;
    const auto begin = [&](std::size_t i) { return i == pieces ? bytes : bytes * i / pieces / kPage * kPage; };
    stream_copy(out + begin(piece), from + begin(piece), begin(piece + 1) - begin(piece));
  });
}

void copy_first(const TensorView& view, std::size_t elements, std::byte* out) {
  const std::size_t item_bytes = info(view.dtype).item_bytes;
  Cursor cursor(view);
  while (const std::size_t count = elements > 0 ? cursor.read(out, elements) : 0) {
    out += count * item_bytes;
    elements -= count;
  }
}

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

std::uint64_t fingerprint(const TensorView& view) {
  if (view.elements() == 0) return 0;
  if (view.is_c_contiguous()) return XXH3_64bits(view.data, view.bytes());
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  XXH3_64bits_reset(state.get());
  const std::size_t item_bytes = info(view.dtype).item_bytes;
  std::array<std::byte, 16384> buffer;
  Cursor cursor(view);
  while (const std::size_t count = cursor.read(buffer.data(), buffer.size() / item_bytes)) {
    XXH3_64bits_update(state.get(), buffer.data(), count * item_bytes);
  }
  return XXH3_64bits_digest(state.get());
}

constexpr DeviceAccess kHost = {
    .name = "host",
    .summarize = summarize,
    .summarize_and_copy = summarize_and_copy,
    .copy_c_order = copy_c_order,
    .copy_block = copy_block,
    .copy_first = copy_first,
    .all_finite = all_finite,
    .fingerprint = fingerprint,
    .md5_hex = md5_hex,
    .sha1_hex = sha1_hex,
};

}  // namespace

const DeviceAccess& host_access() { return kHost; }

}  // namespace sonde
