#include "dump/journal/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "dump/journal/journal_format.h"
#include "sample.h"

namespace sonde {
namespace {

Journal parsed(const std::string& bytes) {
  Result<Journal> journal = parse_journal(bytes, "journal");
  EXPECT_TRUE(journal) << journal.error().message;
  return std::move(*journal);
}

TEST(Journal, GivesBackSitesAndNamesAsTheyWere) {
  const SampleRun sample = sample_run();
  const Journal journal = parsed(write(sample));
  ASSERT_EQ(journal.runs.size(), 1);
  const JournalRun& run = journal.runs[0];
  EXPECT_EQ(run.header_json, sample.header);
  EXPECT_EQ(run.end_json, sample.end);
  ASSERT_EQ(run.sites.size(), 2);
  const Site& site = run.sites[1];
  EXPECT_EQ(site.id, 2);
  EXPECT_EQ(site.phase, Phase::backward);
  EXPECT_EQ(site.op_type, "convolution_backward");
  EXPECT_EQ(site.scope, "network-AlexNet/features/0-Conv2d");
  EXPECT_EQ(site.forward_op_type, "conv2d");
  EXPECT_EQ(site.forward_site, 1);
  EXPECT_EQ(site.trace, sample.sites[1].trace);
  EXPECT_EQ(site.trace.at(0).line, 175);
  ASSERT_EQ(run.attributes.size(), 1);
  EXPECT_EQ(run.attributes[0].id, 1);
  EXPECT_EQ(run.attributes[0].values, sample.attributes[0].values);
  ASSERT_EQ(run.op_names.size(), 2);
  EXPECT_EQ(run.op_names[1].id, 2);
  EXPECT_EQ(run.op_names[1].op_type, "Parameter");
  EXPECT_EQ(run.op_names[1].op_name, "features.0.weight");
}

TEST(Journal, GivesBackEveryFieldOfARecord) {
  SampleRun sample = sample_run();
  sample.records[1].op = &sample.op_names[0];
  const Journal journal = parsed(write(sample));
  const JournalRun& run = journal.runs.at(0);
  ASSERT_EQ(run.records.size(), 3);
  EXPECT_EQ(run.records[0].kind, RecordKind::step_begin);
  const JournalRecord& record = run.records[1];
  EXPECT_EQ(record.kind, RecordKind::op);
  EXPECT_EQ(record.sequence, 1);
  EXPECT_EQ(record.step, (StepId{1, 1ULL << 40}));
  EXPECT_EQ(record.op, 1);
  EXPECT_EQ(record.site, 2);
  EXPECT_EQ(record.thread, 65535);
  EXPECT_TRUE(record.failed);
  EXPECT_EQ(record.attributes, 1);
  EXPECT_EQ(record.call_number, 300);
  EXPECT_EQ(record.timestamp_us, 1763723013123456);
  EXPECT_EQ(run.records[2].kind, RecordKind::note);
  EXPECT_EQ(run.records[2].note, "complex tensors have no statistics");
  EXPECT_FALSE(run.records[2].failed);
}

TEST(Journal, GivesBackEveryFieldOfATensor) {
  const SampleRun sample = sample_run();
  const Journal journal = parsed(write(sample));
  const JournalRun& run = journal.runs.at(0);
  const std::vector<JournalTensor>& tensors = run.records.at(1).tensors;
  ASSERT_EQ(tensors.size(), 3);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const JournalTensor& is = tensors[i];
    const TensorRecord& was = sample.records[1].tensors[i];
    SCOPED_TRACE(i);
    EXPECT_EQ(is.is_input, was.is_input);
    EXPECT_EQ(is.slot, was.slot);
    EXPECT_EQ(is.dtype, was.dtype);
    EXPECT_EQ(is.shape, was.shape);
    EXPECT_EQ(is.content, was.content);
    EXPECT_EQ(is.source, was.source);
    EXPECT_EQ(is.source_slot, was.source_slot);
    EXPECT_EQ(is.parameter, was.parameter);
    EXPECT_EQ(is.placement, was.placement);
    EXPECT_EQ(is.wanted, was.wanted);
    EXPECT_EQ(is.has_statistics, was.has_statistics);
    EXPECT_EQ(is.statistics, was.statistics);
    EXPECT_EQ(is.md5, was.md5);
    EXPECT_EQ(is.sha1, was.sha1);
    EXPECT_EQ(is.timestamp_us, was.timestamp_us);
    EXPECT_EQ(tensors[i].skipped, was.skipped == nullptr ? "" : was.skipped);
  }
  EXPECT_TRUE(std::signbit(tensors[1].statistics.sum));
}

TEST(Journal, GivesBackStatisticsOfEveryForm) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Statistics usual{.count = 6, .positive_count = 3, .negative_count = 3, .max = 1.5, .min = -2.5, .sum = 0.1};
  usual.sum_squares = 0.3;
  Statistics counts = usual;
  counts.count = 106;
  counts.nan_count = 10;
  counts.positive_inf_count = 1;  // among the positive ones
  counts.negative_inf_count = 2;
  counts.zero_count = 90;
  Statistics doubles = usual;
  doubles.max = 0.1;
  const Statistics one{.count = 1, .positive_count = 1, .max = 0.1, .min = 0.1, .sum = 0.1, .sum_squares = 0.1 * 0.1};
  const Statistics none{.count = 2, .nan_count = 2, .max = -kInf, .min = kInf};
  Statistics minus_zero{.count = 1, .zero_count = 1, .max = -0.0, .min = -0.0, .sum = -0.0, .sum_squares = 0.0};
  Statistics odd = usual;
  odd.negative_count = 7;  // does not follow from the others
  const std::pair<Statistics, std::vector<std::int64_t>> forms[] = {
      {usual, {2, 3}}, {counts, {106}},   {doubles, {2, 3}}, {one, {}},
      {none, {2}},     {minus_zero, {1}}, {odd, {6}},        {usual, {7}},  // another shape than that of what was read
  };
  SampleRun sample = sample_run();
  sample.records.resize(1);
  Record& record = sample.records[0];
  record.kind = RecordKind::op;
  record.timestamp_us = 1763723013123456;
  record.tensors.clear();
  for (const auto& [statistics, shape] : forms) {
    TensorRecord& tensor = record.tensors.emplace_back();
    tensor.set_shape(dims(shape));
    tensor.has_statistics = true;
    tensor.statistics = statistics;
    tensor.timestamp_us = record.timestamp_us + (record.tensors.size() == 1 ? 1 : 0);
  }
  const Journal journal = parsed(write(sample));
  const std::vector<JournalTensor>& tensors = journal.runs.at(0).records.at(0).tensors;
  ASSERT_EQ(tensors.size(), std::size(forms));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(tensors[i].statistics, forms[i].first) << i;
    EXPECT_EQ(std::signbit(tensors[i].statistics.max), std::signbit(forms[i].first.max)) << i;
    EXPECT_EQ(std::signbit(tensors[i].statistics.sum), std::signbit(forms[i].first.sum)) << i;
    EXPECT_EQ(tensors[i].timestamp_us, record.timestamp_us + (i == 0 ? 1 : 0)) << i;
  }
}

// docs/format.md promises it to runs of weeks.
TEST(Journal, TakesAtMostFortyBytesForATensorWithStatistics) {
  Record record;
  record.sequence = 1'000'000;
  record.timestamp_us = 1763723013123456;
  TensorRecord tensor;
  tensor.is_input = true;
  tensor.slot = 1;
  tensor.dtype = DType::float32;
  tensor.set_shape(dims({64, 256}));
  tensor.content = 2'000'000;
  tensor.source = 999'990;
  tensor.timestamp_us = record.timestamp_us;
  tensor.has_statistics = true;
  tensor.statistics = {.count = 16384, .positive_count = 8000, .negative_count = 8384, .max = 1.5, .min = -2};
  tensor.statistics.sum = 0.1;
  tensor.statistics.sum_squares = 0.3;
  JournalWriter without, with;
  without.record(record);
  record.tensors.push_back(std::move(tensor));
  with.record(record);
  EXPECT_LE(with.buffer().size() - without.buffer().size(), 40U);
}

TEST(Journal, JoinsAFileToItsSlotWhicheverWasWrittenFirst) {
  SampleRun sample = sample_run();
  JournalWriter later;
  later.file(1, true, 1, "late.npy");
  const Journal journal = parsed(write(sample, false) + later.buffer());
  const JournalRun& run = journal.runs.at(0);
  EXPECT_EQ(run.records[1].tensors[0].file, "late.npy");
  EXPECT_EQ(run.records[1].tensors[1].file, sample.files[0].file);
  EXPECT_EQ(run.records[1].tensors[2].file, "");
}

TEST(Journal, HasNoEndWhenTheRunWasKilled) {
  const Journal journal = parsed(write(sample_run(), false));
  EXPECT_EQ(journal.runs.at(0).end_json, "");
  EXPECT_EQ(journal.torn_bytes, 0);
}

TEST(Journal, KeepsSeveralRunsApart) {
  SampleRun second = sample_run();
  second.header = R"({"rank":1})";
  second.sites.clear();
  const Journal journal = parsed(write(sample_run()) + write(second, false));
  ASSERT_EQ(journal.runs.size(), 2);
  EXPECT_EQ(journal.runs[0].sites.size(), 2);
  EXPECT_EQ(journal.runs[1].header_json, second.header);
  EXPECT_EQ(journal.runs[1].sites.size(), 0);
  EXPECT_EQ(journal.runs[1].records.size(), 3);
  EXPECT_EQ(journal.runs[1].end_json, "");
}

TEST(Journal, SkipsAnEntryOfATypeItDoesNotKnow) {
  // An `end` entry with type 200 and a corrected checksum (computed once with the reference XXH32).
  const std::string foreign("\xdb\x03\x12\xbc\x02\x00\x00\x00\xc8{}", 11);
  const std::string whole = write(sample_run(), false) + foreign + write(sample_run());
  const Journal journal = parsed(whole);
  EXPECT_EQ(journal.runs.size(), 2);
  EXPECT_EQ(journal.torn_bytes, 0);
  EXPECT_EQ(journal.malformed_entries, 0);
}

TEST(Journal, RefusesAFileThatIsNone) {
  const Result<Journal> journal = parse_journal("Op Type,Op Name,Task ID", "statistic.csv");
  ASSERT_FALSE(journal);
  EXPECT_EQ(journal.error().code, ErrorCode::corrupt);
  EXPECT_THAT(journal.error().message, testing::HasSubstr("'statistic.csv'"));
}

TEST(Journal, RefusesAVersionItDoesNotKnow) {
  // The header of version 2, with a correct checksum.
  const std::string later("\x89SONDEJ\n\x02\x00\x00\x00\x05\x5c\x9c\x1a", 16);
  const Result<Journal> journal = parse_journal(later, "journal");
  ASSERT_FALSE(journal);
  EXPECT_EQ(journal.error().code, ErrorCode::unsupported);
  EXPECT_THAT(journal.error().message, testing::HasSubstr("version 2"));
}

TEST(Journal, IsReadFromAFile) {
  const std::filesystem::path file = testing::TempDir() + "journal";
  std::ofstream(file, std::ios::binary) << write(sample_run());
  const Result<Journal> journal = read_journal(file);
  ASSERT_TRUE(journal) << journal.error().message;
  EXPECT_EQ(journal->runs.size(), 1);
  std::filesystem::remove(file);
}

TEST(Journal, SaysWhichFileIsMissing) {
  const Result<Journal> missing = read_journal("/nowhere/journal");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_THAT(missing.error().message, testing::HasSubstr("'/nowhere/journal'"));
  EXPECT_FALSE(read_journal("/tmp"));
  EXPECT_FALSE(read_journal("/dev/zero"));
}

}  // namespace
}  // namespace sonde
