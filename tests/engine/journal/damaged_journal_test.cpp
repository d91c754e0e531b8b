// A reader of journals trusts nothing: killed writers, flipped bits and false sizes.
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstdint>
#include <random>

#include "dump/journal/journal.h"
#include "dump/journal/journal_format.h"
#include "sample.h"

extern "C" int fuzz_journal(const std::uint8_t* data, std::size_t size);

namespace sonde {
namespace {

using journal_format::kEntryBytes;
using journal_format::kHeaderBytes;

Journal parsed(std::string_view bytes) {
  Result<Journal> journal = parse_journal(bytes, "journal");
  EXPECT_TRUE(journal) << journal.error().message;
  return std::move(*journal);
}

void set_u32(std::string& bytes, std::size_t offset, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) bytes[offset + i] = static_cast<char>(value >> (8 * i));
}

// One entry with a right length and checksum around any payload.
std::string entry(std::uint8_t type, std::string_view payload) {
  std::string bytes(kEntryBytes, '\0');
  bytes[8] = static_cast<char>(type);
  bytes.append(payload);
  set_u32(bytes, 4, static_cast<std::uint32_t>(payload.size()));
  set_u32(bytes, 0, XXH32(bytes.data() + 4, bytes.size() - 4, 0));
  return bytes;
}

std::vector<std::size_t> entry_ends(const std::string& run) {
  std::vector<std::size_t> ends;
  for (std::size_t at = kHeaderBytes; at < run.size();) {
    std::uint32_t payload = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      payload |= static_cast<std::uint32_t>(static_cast<unsigned char>(run[at + 4 + i])) << (8 * i);
    }
    at += kEntryBytes + payload;
    ends.push_back(at);
  }
  return ends;
}

TEST(DamagedJournal, CutAtAnyByteKeepsEveryWholeEntry) {
  const std::string whole = write(sample_run());
  const std::vector<std::size_t> ends = entry_ends(whole);
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const Journal journal = parsed(std::string_view(whole).substr(0, size));
    std::size_t last = size < kHeaderBytes ? 0 : kHeaderBytes;
    std::size_t entries = 0;
    for (const std::size_t end : ends) {
      if (end > size) break;
      last = end;
      ++entries;
    }
    EXPECT_EQ(journal.torn_bytes, size - last) << size;
    ASSERT_EQ(journal.runs.size(), entries > 0 ? 1U : 0U) << size;
    if (entries == 0) continue;
    const JournalRun& run = journal.runs[0];
    const std::size_t found = 1 + run.sites.size() + run.op_names.size() + run.attributes.size() + run.records.size() +
                              (run.end_json.empty() ? 0 : 1);
    EXPECT_EQ(found, entries > 6 ? entries - 1 : entries) << size;  // the seventh is a file
  }
}

TEST(DamagedJournal, ARunBehindATornTailIsFound) {
  const std::string first = write(sample_run());
  const std::string second = write(sample_run());
  for (std::size_t size = kHeaderBytes; size < first.size(); ++size) {
    const Journal journal = parsed(first.substr(0, size) + second);
    ASSERT_FALSE(journal.runs.empty()) << size;
    EXPECT_EQ(journal.runs.back().records.size(), 3) << size;
    EXPECT_EQ(journal.runs.back().end_json, sample_run().end) << size;
  }
}

TEST(DamagedJournal, AFlippedBitCostsOneEntryAndIsReported) {
  const std::string first = write(sample_run());
  const std::vector<std::size_t> ends = entry_ends(first);
  for (std::size_t entry = 1; entry < ends.size(); ++entry) {
    std::string bytes = first + write(sample_run());
    bytes[ends[entry - 1] + kEntryBytes + 1] ^= 4;
    const Journal journal = parsed(bytes);
    ASSERT_EQ(journal.runs.size(), 2) << entry;
    ASSERT_EQ(journal.gaps.size(), 1) << entry;
    EXPECT_EQ(journal.gaps[0].offset, ends[entry - 1]);
    EXPECT_EQ(journal.gaps[0].bytes, ends[entry] - ends[entry - 1]);
    EXPECT_FALSE(journal.gaps[0].is_tail);
    const JournalRun &damaged = journal.runs[0], &whole = journal.runs[1];
    const auto count = [](const JournalRun& run) {
      return run.sites.size() + run.op_names.size() + run.attributes.size() + run.records.size() +
             (run.end_json.empty() ? 0 : 1);
    };
    const bool is_file = first[ends[entry - 1] + 8] == 5;
    EXPECT_EQ(count(damaged), count(whole) - (is_file ? 0 : 1)) << entry;
  }
}

TEST(DamagedJournal, AFlippedLengthDoesNotHideTheEntriesBehindIt) {
  const std::string whole = write(sample_run());
  const std::vector<std::size_t> ends = entry_ends(whole);
  for (const std::size_t byte : {4U, 5U, 6U, 7U}) {
    std::string bytes = whole;
    bytes[ends[1] + byte] ^= 1;
    const Journal journal = parsed(bytes);
    ASSERT_EQ(journal.runs.size(), 1);
    EXPECT_EQ(journal.runs[0].records.size(), 3) << byte;
    EXPECT_EQ(journal.runs[0].end_json, sample_run().end);
    EXPECT_EQ(journal.torn_bytes, ends[2] - ends[1]);
    EXPECT_FALSE(journal.gaps[0].is_tail);
  }
}

TEST(DamagedJournal, ARunWithoutItsHeaderOrItsFirstEntryIsStillThere) {
  const std::string first = write(sample_run());
  for (const std::size_t byte : {0U, 9U, 13U, 18U, 26U}) {  // of the header, then of the run's entry
    std::string bytes = first;
    bytes[byte] ^= 32;
    const Journal journal = parsed(bytes);
    ASSERT_EQ(journal.runs.size(), 1) << byte;
    EXPECT_EQ(journal.runs[0].records.size(), 3) << byte;
    EXPECT_EQ(journal.runs[0].header_json.empty(), byte >= kHeaderBytes);
    EXPECT_EQ(journal.gaps.size(), 1);
  }
}

TEST(DamagedJournal, ASecondRunWhoseBeginningIsLostDoesNotJoinTheFirst) {
  for (const bool finished : {true, false}) {
    const std::string first = write(sample_run(), finished);
    const std::string second = write(sample_run());
    std::string bytes = first + second;
    for (std::size_t i = 0; i < entry_ends(second)[0]; ++i) bytes[first.size() + i] ^= 0x55;  // header and run
    const Journal journal = parsed(bytes);
    ASSERT_EQ(journal.runs.size(), 2) << finished;
    for (const JournalRun& run : journal.runs) EXPECT_EQ(run.records.size(), 3);
    EXPECT_TRUE(journal.runs[1].header_json.empty());
  }
}

TEST(DamagedJournal, WhatAKilledWriterLeavesIsATailAndDamageIsNot) {
  const std::string whole = write(sample_run());
  const std::vector<std::size_t> ends = entry_ends(whole);
  for (std::size_t size = ends[3] + 1; size < ends[4]; ++size) {
    const Journal journal = parsed(whole.substr(0, size) + whole);
    ASSERT_EQ(journal.gaps.size(), 1) << size;
    EXPECT_TRUE(journal.gaps[0].is_tail) << size;
  }
  std::string bytes = whole;
  bytes[ends[ends.size() - 2] + kEntryBytes] ^= 1;  // the last entry, whose length is correct
  EXPECT_FALSE(parsed(bytes).gaps.at(0).is_tail);
}

// If every byte may begin an entry, the time of the search is bounded.
TEST(DamagedJournal, BytesThatAllLookLikeEntriesAreGivenUp) {
  const std::string whole = write(sample_run());
  const std::string bytes = whole + std::string(std::size_t{8} << 20, '\x01') + whole;
  const Journal journal = parsed(bytes);
  ASSERT_EQ(journal.runs.size(), 2);
  EXPECT_EQ(journal.runs[1].records.size(), 3);
}

TEST(DamagedJournal, AFileWhoseRecordIsLostIsKept) {
  const std::string whole = write(sample_run());
  const std::vector<std::size_t> ends = entry_ends(whole);
  std::size_t lost = 0;
  for (std::size_t entry = 1; entry < ends.size(); ++entry) {
    if (whole[ends[entry - 1] + 8] != 4) continue;
    std::string bytes = whole;
    bytes[ends[entry - 1] + kEntryBytes + 1] ^= 8;
    const Journal journal = parsed(bytes);
    ASSERT_EQ(journal.runs.size(), 1);
    lost += journal.runs[0].lone_files.size();
  }
  EXPECT_EQ(lost, sample_run().files.size());
}

TEST(DamagedJournal, RandomDamageNeverDoesMoreThanLoseEntries) {
  const std::string whole = write(sample_run()) + write(sample_run()) + write(sample_run(), false);
  std::mt19937_64 random(20251121);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    const std::uint64_t flips = 1 + random() % 4;
    for (std::uint64_t i = 0; i < flips; ++i) {
      bytes[8 + random() % (bytes.size() - 8)] ^= static_cast<char>(1 + random() % 255);
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const Result<Journal> journal = parse_journal(bytes, "journal");
    if (!journal) continue;  // a header with another version and a correct checksum
    EXPECT_LE(journal->torn_bytes, bytes.size());
    EXPECT_LE(journal->runs.size(), 3);
  }
}

// Flips, drops, repeats and moves pieces of whole journals, the same ones every time.
TEST(DamagedJournal, TheFuzzEntryHoldsOverMutatedJournals) {
  const std::string seeds[] = {write(sample_run()), write(sample_run(), false) + write(sample_run()),
                               write(sample_run()) + write(sample_run(), false)};
  std::mt19937_64 random(20261122);
  for (const std::string& seed : seeds) {
    for (int round = 0; round < 5000; ++round) {
      std::string bytes = seed;
      for (std::uint64_t edits = 1 + random() % 4; edits > 0 && !bytes.empty(); --edits) {
        const std::size_t at = random() % bytes.size();
        const std::size_t length = std::min<std::size_t>(random() % 60, bytes.size() - at);
        switch (random() % 4) {
          case 0:
            bytes[at] = static_cast<char>(random());
            break;
          case 1:
            bytes.erase(at, length);
            break;
          case 2:
            bytes.insert(random() % bytes.size(), bytes.substr(at, length));
            break;
          default:
            bytes.resize(at);
        }
      }
      EXPECT_EQ(fuzz_journal(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
    }
  }
}

TEST(DamagedJournal, ARunThatMendsAnotherJoinsIt) {
  JournalWriter writer;
  writer.run(R"({"mends":0})");
  const OpName name{77, "relu", "Default/relu-op9"};
  writer.op_name(name);
  Record record;
  record.sequence = 1000;
  record.op = &name;
  TensorRecord& tensor = record.tensors.emplace_back();
  tensor.dtype = DType::float32;
  tensor.shape = dims({2});
  writer.record(record);
  writer.file(1000, false, 0, "Net/0/5/relu.npy");
  writer.file(1, true, 0, "Net/0/5/late.npy");  // of a record that run 0 has
  writer.end("{}");
  const Journal journal = parsed(write(sample_run(), false) + writer.buffer());
  ASSERT_EQ(journal.runs.size(), 1);
  EXPECT_EQ(journal.runs[0].header_json, sample_run().header);
  EXPECT_TRUE(journal.runs[0].end_json.empty());
  ASSERT_EQ(journal.runs[0].records.size(), 4);
  EXPECT_EQ(journal.runs[0].records.back().tensors.at(0).file, "Net/0/5/relu.npy");
  EXPECT_EQ(journal.runs[0].op_names.back().op_name, "Default/relu-op9");
}

// The checksum of every entry is corrected, so that the damage reaches the fields.
TEST(DamagedJournal, RandomFieldsBehindRightChecksumsAreSurvived) {
  std::mt19937_64 random(3);
  const std::string whole = write(sample_run());
  const std::vector<std::size_t> ends = entry_ends(whole);
  std::uint64_t malformed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole.substr(0, ends[0]);
    for (std::size_t i = 1; i < ends.size(); ++i) {
      std::string payload = whole.substr(ends[i - 1] + kEntryBytes, ends[i] - ends[i - 1] - kEntryBytes);
      if (random() % 2) payload[random() % payload.size()] ^= static_cast<char>(random());
      if (random() % 8 == 0) payload.resize(random() % payload.size());
      bytes += entry(static_cast<std::uint8_t>(whole[ends[i - 1] + 8]), payload);
    }
    const Journal journal = parsed(bytes);
    EXPECT_EQ(journal.torn_bytes, 0);
    malformed += journal.malformed_entries;
  }
  EXPECT_GT(malformed, 1000);
}

TEST(DamagedJournal, PureNoiseIsSurvived) {
  std::mt19937_64 random(4);
  const std::string header = write(sample_run()).substr(0, kHeaderBytes);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = header;
    for (std::size_t i = random() % 512; i > 0; --i) bytes.push_back(static_cast<char>(random()));
    const Journal journal = parsed(bytes);
    EXPECT_EQ(journal.torn_bytes, bytes.size() - kHeaderBytes);
    for (std::uint8_t type = 1; type <= 6; ++type) {
      parsed(header + entry(type, std::string_view(bytes).substr(kHeaderBytes)));
    }
  }
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

TEST(DamagedJournal, LiesAboutSizesAskForNoMemory) {
  const std::string start = write(sample_run()).substr(0, kHeaderBytes);
  const std::string huge = varint(~0ULL);
  const std::string fields(9, '\0');  // kind, flags and seven zero fields of a record
  const std::string one_tensor = varint(1);
  const std::string lies[] = {
      entry(4, fields + huge),                                                            // the note
      entry(4, fields + varint(0) + huge),                                                // how many tensors
      entry(4, fields + varint(0) + one_tensor + "\x02" + huge),                          // the slot
      entry(4, fields + varint(0) + one_tensor + std::string("\x02\x00\x0b", 3) + huge),  // the rank
      entry(5, varint(1) + std::string(2, '\0') + huge + "a"),                            // a file's name
      entry(3, varint(1) + varint(1ULL << 62) + "a"),                                     // an op's type
  };
  for (const std::string& lie : lies) {
    const Journal journal = parsed(start + lie);
    EXPECT_EQ(journal.malformed_entries, 1);
    EXPECT_EQ(journal.torn_bytes, 0);
  }
}

TEST(DamagedJournal, AnEntryLongerThanTheFileIsATornTail) {
  std::string bytes = write(sample_run());
  const std::size_t whole = bytes.size();
  std::string liar = entry(6, "{}");
  set_u32(liar, 4, 0xFFFFFFFF);
  const Journal journal = parsed(bytes + liar);
  EXPECT_EQ(journal.torn_bytes, liar.size());
  ASSERT_EQ(journal.gaps.size(), 1);
  EXPECT_EQ(journal.gaps[0].offset, whole);
}

}  // namespace
}  // namespace sonde
