// Which message is in which lane, their ends, and the scalar kernel.
#include "ground/stats/multi_hash.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace sonde {
namespace {

constexpr std::uint32_t kFirstWords[kHashWords] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

std::uint32_t load_little(const std::byte* data) {
  std::uint32_t word = 0;
  for (int i = 3; i >= 0; --i) word = word << 8 | std::to_integer<std::uint32_t>(data[i]);
  return word;
}

std::uint32_t load_big(const std::byte* data) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | std::to_integer<std::uint32_t>(data[i]);
  return word;
}

template <int kStep>
inline void md5_step(std::uint32_t (&s)[4], const std::uint32_t (&words)[16]) {
  constexpr int kA = (64 - kStep) % 4, kB = (65 - kStep) % 4, kC = (66 - kStep) % 4, kD = (67 - kStep) % 4;
  const std::uint32_t b = s[kB], c = s[kC], d = s[kD];
  std::uint32_t sum = s[kA] + words[md5_word(kStep)] + kMd5Sines[kStep];
  if constexpr (kStep < 16) {
    sum += (b & (c ^ d)) ^ d;
  } else if constexpr (kStep < 32) {
    sum += (c & ~d) + (b & d);
  } else if constexpr (kStep < 48) {
    sum += c ^ d ^ b;
  } else {
    sum += c ^ (b | ~d);
  }
  s[kA] = b + std::rotl(sum, md5_rotation(kStep));
}

template <int... kSteps>
inline void md5_block(std::uint32_t (&s)[4], const std::uint32_t (&words)[16], std::integer_sequence<int, kSteps...>) {
  (md5_step<kSteps>(s, words), ...);
}

void add_md5_blocks(HashStates& states, const std::byte* const* data, std::size_t blocks) {
  std::uint32_t s[4];
  for (std::size_t i = 0; i < 4; ++i) s[i] = states.words[i][0];
  for (const std::byte* at = data[0]; blocks > 0; --blocks, at += kHashBlock) {
    std::uint32_t words[16], before[4];
    for (std::size_t i = 0; i < 16; ++i) words[i] = load_little(at + 4 * i);
    std::ranges::copy(s, before);
    md5_block(s, words, std::make_integer_sequence<int, 64>());
    for (std::size_t i = 0; i < 4; ++i) s[i] += before[i];
  }
  for (std::size_t i = 0; i < 4; ++i) states.words[i][0] = s[i];
}

template <int kStep>
inline void sha1_step(std::uint32_t (&s)[5], std::uint32_t (&words)[16]) {
  constexpr int kA = (80 - kStep) % 5, kB = (81 - kStep) % 5, kC = (82 - kStep) % 5, kD = (83 - kStep) % 5,
                kE = (84 - kStep) % 5;
  if constexpr (kStep >= 16) {
    words[kStep % 16] =
        std::rotl(words[(kStep + 13) % 16] ^ words[(kStep + 8) % 16] ^ words[(kStep + 2) % 16] ^ words[kStep % 16], 1);
  }
  const std::uint32_t b = s[kB], c = s[kC], d = s[kD];
  std::uint32_t sum = s[kE] + words[kStep % 16] + kSha1Constants[kStep / 20];
  if constexpr (kStep < 20) {
    sum += (b & (c ^ d)) ^ d;
  } else if constexpr (kStep >= 40 && kStep < 60) {
    sum += (b & (c | d)) | (c & d);
  } else {
    sum += b ^ c ^ d;
  }
  s[kE] = sum + std::rotl(s[kA], 5);
  s[kB] = std::rotl(b, 30);
}

template <int... kSteps>
inline void sha1_block(std::uint32_t (&s)[5], std::uint32_t (&words)[16], std::integer_sequence<int, kSteps...>) {
  (sha1_step<kSteps>(s, words), ...);
}

void add_sha1_blocks(HashStates& states, const std::byte* const* data, std::size_t blocks) {
  std::uint32_t s[5];
  for (std::size_t i = 0; i < 5; ++i) s[i] = states.words[i][0];
  for (const std::byte* at = data[0]; blocks > 0; --blocks, at += kHashBlock) {
    std::uint32_t words[16], before[5];
    for (std::size_t i = 0; i < 16; ++i) words[i] = load_big(at + 4 * i);
    std::ranges::copy(s, before);
    sha1_block(s, words, std::make_integer_sequence<int, 80>());
    for (std::size_t i = 0; i < 5; ++i) s[i] += before[i];
  }
  for (std::size_t i = 0; i < 5; ++i) states.words[i][0] = s[i];
}

bool is_big_endian(HashAlgorithm algorithm) { return algorithm == HashAlgorithm::sha1; }

std::size_t words_of(HashAlgorithm algorithm) { return algorithm == HashAlgorithm::md5 ? 4 : 5; }

}  // namespace

const HashKernel& scalar_hash_kernel() {
  static constexpr HashKernel kScalar = {"scalar", {{{1, add_md5_blocks}}}, {{{1, add_sha1_blocks}}}};
  return kScalar;
}

std::string hex_of(const HashMessage& message) {
  constexpr char kDigits[] = "0123456789abcdef";
  if (!message.done) return {};
  std::string text;
  for (std::size_t i = 0; i < 4 * words_of(message.algorithm); ++i) {
    text += kDigits[message.digest[i] >> 4];
    text += kDigits[message.digest[i] & 15];
  }
  return text;
}

MultiHash::MultiHash(HashAlgorithm algorithm, const HashKernel& kernel) : algorithm_(algorithm) {
  const auto of = [&](const HashKernel& one) { return algorithm == HashAlgorithm::md5 ? one.md5 : one.sha1; };
  std::size_t count = 0;
  // Alone, a message is faster in ordinary registers than in a lane of many.
  if (of(kernel)[0].lanes > 1) widths_[count++] = of(scalar_hash_kernel())[0];
  for (const HashWidth& width : of(kernel)) {
    if (count == 0 || width.lanes > widths_[count - 1].lanes) widths_[count++] = width;
  }
  most_ = widths_[count - 1].lanes;
}

void MultiHash::add(HashMessage& message) {
  message.algorithm = algorithm_;
  message.done = false;
  waiting_.push_back(&message);
}

void MultiHash::run(std::size_t most_blocks) {
  // The longest first, so that the lanes end together; but none waits for a longer one that came later.
  std::stable_sort(waiting_.begin() + static_cast<std::ptrdiff_t>(std::max(sorted_, next_)), waiting_.end(),
                   [](const HashMessage* a, const HashMessage* b) { return a->bytes > b->bytes; });
  sorted_ = waiting_.size();
  while (most_blocks > 0) {
    fill();
    if (active_ == 0) break;
    const HashWidth& used = width();
    const std::byte* data[kMostHashLanes];
    std::size_t blocks = most_blocks;
    for (std::size_t lane = 0; lane < active_; ++lane) {
      data[lane] = lanes_[lane].at;
      blocks = std::min(blocks, lanes_[lane].blocks);
    }
    // Lanes without a message read another one's bytes; what they find is not used.
    for (std::size_t lane = active_; lane < used.lanes; ++lane) data[lane] = data[0];
    used.add(states_, data, blocks);
    most_blocks -= blocks;
    for (std::size_t lane = active_; lane-- > 0;) {
      if (advance(lane, blocks)) continue;
      finish(lane);
      if (next_ < waiting_.size()) {
        begin(lane, *waiting_[next_++]);
      } else if (--active_ != lane) {
        move(active_, lane);
      }
    }
  }
  if (next_ == waiting_.size()) {
    waiting_.clear();
    next_ = sorted_ = 0;
  } else if (next_ > waiting_.size() / 2) {
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(next_));
    sorted_ -= std::exchange(next_, 0);
  }
}

void MultiHash::fill() {
  while (active_ < most_ && next_ < waiting_.size()) begin(active_++, *waiting_[next_++]);
}

void MultiHash::begin(std::size_t index, HashMessage& message) {
  Lane& lane = lanes_[index];
  const std::size_t whole = message.bytes / kHashBlock, rest = message.bytes % kHashBlock;
  lane.message = &message;
  lane.tail_blocks = rest + 9 > kHashBlock ? 2 : 1;
  lane.tail.fill(std::byte{0});
  if (rest > 0) std::memcpy(lane.tail.data(), message.data + whole * kHashBlock, rest);
  lane.tail[rest] = std::byte{0x80};
  const std::uint64_t bits = std::uint64_t{message.bytes} * 8;
  std::byte* length = lane.tail.data() + lane.tail_blocks * kHashBlock - 8;
  for (std::size_t i = 0; i < 8; ++i) {
    length[is_big_endian(algorithm_) ? 7 - i : i] = static_cast<std::byte>(bits >> 8 * i);
  }
  lane.at = message.data;
  lane.blocks = whole;
  if (whole == 0) advance(index, 0);
  for (std::size_t i = 0; i < kHashWords; ++i) states_.words[i][index] = kFirstWords[i];
}

// False: the message has no more blocks.
bool MultiHash::advance(std::size_t index, std::size_t blocks) {
  Lane& lane = lanes_[index];
  lane.at += blocks * kHashBlock;
  lane.blocks -= blocks;
  if (lane.blocks > 0) return true;
  lane.at = lane.tail.data();
  lane.blocks = std::exchange(lane.tail_blocks, 0);
  return lane.blocks > 0;
}

void MultiHash::finish(std::size_t index) {
  HashMessage& message = *lanes_[index].message;
  for (std::size_t i = 0; i < 4 * words_of(algorithm_); ++i) {
    const std::size_t byte = is_big_endian(algorithm_) ? 3 - i % 4 : i % 4;
    message.digest[i] = static_cast<std::uint8_t>(states_.words[i / 4][index] >> 8 * byte);
  }
  message.done = true;
}

void MultiHash::move(std::size_t from, std::size_t to) {
  const bool in_tail = lanes_[from].tail_blocks == 0;
  const std::ptrdiff_t offset = in_tail ? lanes_[from].at - lanes_[from].tail.data() : 0;
  lanes_[to] = lanes_[from];
  if (in_tail) lanes_[to].at = lanes_[to].tail.data() + offset;
  for (auto& word : states_.words) word[to] = word[from];
}

const HashWidth& MultiHash::width() const {
  std::size_t i = 0;
  while (widths_[i].lanes < active_) ++i;
  return widths_[i];
}

}  // namespace sonde
