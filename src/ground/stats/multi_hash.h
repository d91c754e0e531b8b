// MultiHash: MD5 or SHA-1 of many messages at once. One message is hashed word after word, so a core has most of its
// vector units idle; with one message in each lane it reads several GB/s.
//
//   MultiHash hash(HashAlgorithm::md5);
//   for (HashMessage& message : messages) hash.add(message);
//   hash.run();                                  // all of them; hex_of(message) is the text
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ground/stats/hash_kernels.h"

namespace sonde {

enum class HashAlgorithm : std::uint8_t { md5, sha1 };

struct HashMessage {
  const std::byte* data = nullptr;  // any address; null only without bytes
  std::size_t bytes = 0;
  HashAlgorithm algorithm = HashAlgorithm::md5;  // set by add()
  bool done = false;
  std::array<std::uint8_t, 4 * kHashWords> digest{};
};

// 32 or 40 lower-case hex digits. Empty if it is not done.
std::string hex_of(const HashMessage& message);

// For one thread at a time.
class MultiHash {
 public:
  explicit MultiHash(HashAlgorithm algorithm, const HashKernel& kernel = chosen_hash_kernel());

  // Borrowed, with its bytes, until it is done.
  void add(HashMessage& message);
  // Goes on until no message is left, or until each lane had `most_blocks` blocks of 64 bytes. Messages may be added
  // between two calls: one that is much longer than the others then shares the lanes with new ones.
  void run(std::size_t most_blocks = std::numeric_limits<std::size_t>::max());
  bool is_idle() const { return active_ == 0 && next_ == waiting_.size(); }
  std::size_t messages() const { return active_ + waiting_.size() - next_; }  // not done

 private:
  struct Lane {
    HashMessage* message = nullptr;
    const std::byte* at = nullptr;
    std::size_t blocks = 0;       // at `at`
    std::size_t tail_blocks = 0;  // to come after them
    alignas(16) std::array<std::byte, 2 * kHashBlock> tail;
  };

  void fill();
  void begin(std::size_t lane, HashMessage& message);
  bool advance(std::size_t lane, std::size_t blocks);
  void finish(std::size_t lane);
  void move(std::size_t from, std::size_t to);
  const HashWidth& width() const;

  const HashAlgorithm algorithm_;
  HashWidths widths_{};
  std::size_t most_ = 1;  // lanes of the widest
  std::vector<HashMessage*> waiting_;
  std::size_t next_ = 0;    // of those in waiting_
  std::size_t sorted_ = 0;  // of those in waiting_, in the order in which they begin
  std::size_t active_ = 0;
  HashStates states_{};
  std::array<Lane, kMostHashLanes> lanes_;
};

}  // namespace sonde
