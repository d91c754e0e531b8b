// stream_copy copies what memcpy copies, from and to any address, and writes nothing else. The same for images of
// memory, which the host's pool copies in pieces.
#include "ground/stats/stream_copy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "ground/stats/device.h"
#include "ground/stats/host_pool.h"

namespace sonde {
namespace {

constexpr std::byte kUntouched{0xEE};

std::vector<std::byte> numbered(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 7 + i / 251);
  return out;
}

// The copy, between bytes that must stay as they are.
template <typename Copy>
void expect_copied(Copy copy, std::size_t bytes, std::size_t from, std::size_t to) {
  const std::vector<std::byte> source = numbered(from + bytes);
  std::vector<std::byte> out(to + bytes + 64, kUntouched);
  copy(source.data() + from, bytes, out.data() + to);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool inside = i >= to && i < to + bytes;
    ASSERT_EQ(out[i], inside ? source[from + i - to] : kUntouched) << bytes << " " << from << " " << to << " " << i;
  }
}

TEST(StreamCopy, CopiesAnyNumberOfBytesBetweenAnyAddresses) {
  const auto copy = [](const std::byte* from, std::size_t bytes, std::byte* out) { stream_copy(out, from, bytes); };
  for (const std::size_t bytes : {1U, 15U, 63U, 64U, 65U, 127U, 128U, 200U, 4096U, 5000U})
    for (const std::size_t from : {0U, 1U, 16U, 63U})
      for (const std::size_t to : {0U, 1U, 16U, 63U}) expect_copied(copy, bytes, from, to);
}

// A pool of three threads, whose pieces run one after the other.
void run_in_turn(std::uint32_t pieces, void (*piece)(void*, std::uint32_t), void* context) {
  for (std::uint32_t i = pieces; i-- > 0;) piece(context, i);
}

TEST(StreamCopy, AnImageInPiecesIsComplete) {
  set_host_pool({.threads = [] { return 3U; }, .run = run_in_turn});
  for (const std::size_t bytes : {100'000U, 128U << 10, 131'073U, (1U << 20) - 1, (1U << 20) + 4097})
    expect_copied(host_access().copy_block, bytes, 1, 2);
  set_host_pool({});
}

}  // namespace
}  // namespace sonde
