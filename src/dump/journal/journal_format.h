// Numbers of the journal, format v1, that the writer and the reader share. The text:
// docs/format.md, "Journal".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sonde::journal_format {

// A run starts with 16 bytes: magic, version, XXH32 of the twelve bytes before. The first byte is not text and the last
// is a line feed, so that a transfer that changes line ends is noticed.
inline constexpr std::string_view kMagic = "\x89SONDEJ\n";
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 16;

// An entry: checksum (4), payload length (4), type (1), payload. The checksum covers all that follows it.
inline constexpr std::size_t kEntryBytes = 9;
// Writers never make longer payloads, so a reader may refuse them before it allocates memory.
inline constexpr std::uint32_t kLongestPayload = 1U << 28;

// Limits of the byte-by-byte search after damage: longer entries of these types are skipped, and the total number of
// bytes whose checksum is computed is bounded.
inline constexpr std::uint32_t kLongestFoundRecord = 1U << 24;
inline constexpr std::uint32_t kLongestFoundDefinition = 1U << 20;

enum class Entry : std::uint8_t { run = 1, site = 2, op_name = 3, record = 4, file = 5, end = 6, attributes = 7 };

// Flags of a record.
inline constexpr std::uint8_t kFailed = 1;
inline constexpr std::uint8_t kCompletes = 2;

// Flags of a tensor: the optional fields that follow.
inline constexpr std::uint64_t kIsInput = 1;
inline constexpr std::uint64_t kWanted = 2;
inline constexpr std::uint64_t kHasContent = 4;
inline constexpr std::uint64_t kHasSource = 8;
inline constexpr std::uint64_t kHasName = 16;
inline constexpr std::uint64_t kHasTimestamp = 32;
inline constexpr std::uint64_t kHasStatistics = 64;
inline constexpr std::uint64_t kSkipped = 128;
inline constexpr std::uint64_t kHasMd5 = 256;
inline constexpr std::uint64_t kHasSha1 = 512;
inline constexpr std::uint64_t kIsConstant = 1024;
inline constexpr std::uint64_t kCompactStatistics = 2048;  // with kHasStatistics: their other form
inline constexpr std::uint64_t kTimeOfRecord = 4096;       // instead of kHasTimestamp
inline constexpr std::uint64_t kNearSource = 8192;         // with kHasSource: so many records before its own
inline constexpr std::uint64_t kHasPlacement = 16384;
inline constexpr std::uint64_t kKnownTensorFlags = 32767;

// Flags of compact statistics: the counts that follow since they are not 0, and how the rest is given.
inline constexpr std::uint8_t kSomeNan = 1;  // 2 and 4: some +inf, some -inf
inline constexpr std::uint8_t kSomeZero = 8;
inline constexpr std::uint8_t kFloatLimits = 16;  // max and min are f32
inline constexpr std::uint8_t kOneNumber =
    32;  // min and sum equal max, the sum of squares its square: they are left out
inline constexpr std::uint8_t kCountOfShape = 64;  // the count is the product of the sizes
inline constexpr std::uint8_t kKnownStatisticsFlags = 127;

// Calls visit(flag, count) for the counts that compact statistics leave out where they are 0.
template <typename Statistics, typename Visit>
void for_each_flagged_count(Statistics& statistics, Visit&& visit) {
  std::uint8_t flag = kSomeNan;
  const auto visit_next = [&](auto& count) {
    visit(flag, count);
    flag = static_cast<std::uint8_t>(flag << 1);
  };
  for_each_non_finite_count(visit_next, statistics);
  visit(kSomeZero, statistics.zero_count);
}

// flags, slot, dtype and rank take at least a byte each, so a tensor count beyond payload / 4 is wrong.
inline constexpr std::size_t kSmallestTensor = 4;

}  // namespace sonde::journal_format
