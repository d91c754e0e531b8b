// Dumps with a journal.
#include "read/catalog/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dump/journal/journal.h"
#include "dump_files.h"
#include "read/measure/measure.h"

namespace sonde {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kJournal = "rank_0/.dump_metadata/sonde/journal";

Statistics statistics(double value) {
  Statistics statistics;
  statistics.count = 1;
  statistics.max = statistics.min = statistics.sum = value;
  statistics.sum_squares = value * value;
  return statistics;
}

// Writes a journal as a small run would: `relu` reads a parameter and is read by `add`.
class SmallRun {
 public:
  SmallRun() {
    writer_.run(R"({"host":"torch 2.13.0","command":"train.py","saved_data":"full","started_us":5})");
    Site site;
    site.id = 1;
    site.op_type = "relu";
    site.trace = {{"/home/user/train.py", "forward", 12}};
    writer_.site(site);
    for (const OpName& name : {relu_, add_, weight_}) writer_.op_name(name);
  }

  void step(StepId step, bool ended = true) {
    record(RecordKind::step_begin, step, nullptr, {});
    TensorRecord input = tensor(true, 0);
    input.parameter = weight_.id;
    input.wanted = false;
    std::vector<TensorRecord> relu;
    relu.push_back(std::move(input));
    relu.push_back(with_statistics(tensor(false, 0), 2.5));
    const std::uint64_t source = record(RecordKind::op, step, &relu_, std::move(relu));
    TensorRecord again = tensor(true, 1);
    again.source = source;
    std::vector<TensorRecord> add;
    add.push_back(with_statistics(tensor(false, 0), -1));
    add.push_back(std::move(again));
    record(RecordKind::op, step, &add_, std::move(add));
    if (ended) record(RecordKind::step_end, step, nullptr, {});
  }

  void file(std::uint64_t sequence, const std::string& name) { writer_.file(sequence, false, 0, name); }
  void end() { writer_.end(R"({"ended_us":9})"); }
  std::string bytes() { return writer_.buffer(); }

 private:
  static TensorRecord tensor(bool is_input, std::uint32_t slot) {
    TensorRecord tensor;
    tensor.is_input = is_input;
    tensor.slot = slot;
    tensor.dtype = DType::float32;
    const std::int64_t shape[] = {1};
    tensor.shape = Dims(shape);
    tensor.content = 7 + slot;
    return tensor;
  }
  static TensorRecord with_statistics(TensorRecord tensor, double value) {
    tensor.content = 0;
    tensor.has_statistics = true;
    tensor.statistics = statistics(value);
    return tensor;
  }
  std::uint64_t record(RecordKind kind, StepId step, const OpName* op, std::vector<TensorRecord> tensors) {
    Record record;
    record.kind = kind;
    record.sequence = sequence_++;
    record.step = step;
    record.op = op;
    record.site = op == &relu_ ? 1 : 0;
    record.tensors = std::move(tensors);
    writer_.record(record);
    return record.sequence;
  }

  JournalWriter writer_;
  OpName relu_{1, "relu", "Default/relu-op0"}, add_{2, "add", "Default/add-op0"};
  OpName weight_{3, "Parameter", "weight"};
  std::uint64_t sequence_ = 0;
};

TEST(Catalog, GivesStepsAndOpsInTheirOrder) {
  const TemporaryDirectory dump;
  SmallRun run;
  run.step({0, 3});
  run.step({1, 0});
  run.end();
  dump.write(kJournal, run.bytes());
  const Catalog catalog = opened(dump.path());
  EXPECT_THAT(catalog.problems, IsEmpty());
  ASSERT_THAT(catalog.ranks, SizeIs(1));
  const CatalogRank& rank = catalog.ranks[0];
  EXPECT_TRUE(rank.has_journal);
  ASSERT_THAT(rank.runs, SizeIs(1));
  EXPECT_TRUE(rank.runs[0].finished);
  EXPECT_EQ(rank.runs[0].host, "torch 2.13.0");
  EXPECT_EQ(rank.runs[0].ended_us, 9);
  ASSERT_THAT(rank.steps, SizeIs(2));
  EXPECT_EQ(rank.steps[0].id, (StepId{0, 3}));
  EXPECT_TRUE(rank.steps[0].ended);
  ASSERT_THAT(rank.steps[0].ops, SizeIs(2));
  const CatalogOp& relu = rank.steps[0].ops[0];
  EXPECT_EQ(relu.op_name, "Default/relu-op0");
  EXPECT_EQ(relu.source_file, "/home/user/train.py");
  EXPECT_EQ(relu.line, 12);
  EXPECT_EQ(relu.tensors.at(0).parameter, "weight");
  EXPECT_EQ(relu.tensors.at(1).statistics->max, 2.5);
  EXPECT_EQ(find_op(rank.steps[0], "Default/add-op0")->sequence, relu.sequence + 1);
  EXPECT_EQ(find_op(rank.steps[0], "Default/sub-op0"), nullptr);
}

TEST(Catalog, PutsInputsFirst) {
  const TemporaryDirectory dump;
  SmallRun run;
  run.step({0, 0});
  dump.write(kJournal, run.bytes());
  const Catalog catalog = opened(dump.path());
  const CatalogOp& add = catalog.ranks[0].steps[0].ops[1];
  EXPECT_TRUE(add.tensors[0].is_input);
  EXPECT_EQ(add.tensors[0].source, catalog.ranks[0].steps[0].ops[0].sequence);
  EXPECT_FALSE(add.tensors[1].is_input);
}

TEST(Catalog, ShowsWhatAKilledRunLeft) {
  const TemporaryDirectory dump;
  SmallRun run;
  run.step({0, 0});
  run.step({0, 1}, false);
  dump.write(kJournal, run.bytes().substr(0, run.bytes().size() - 3));
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.ranks.at(0).steps, SizeIs(2));
  EXPECT_FALSE(catalog.ranks[0].runs[0].finished);
  EXPECT_FALSE(catalog.ranks[0].steps[1].ended);
  EXPECT_THAT(catalog.ranks[0].steps[1].ops, SizeIs(1));
  ASSERT_THAT(catalog.problems, SizeIs(1));
  EXPECT_THAT(catalog.problems[0].message, HasSubstr("the last entry breaks off"));
}

TEST(Catalog, KeepsRunsIntoOneDirectoryApart) {
  const TemporaryDirectory dump;
  SmallRun first, second;
  first.step({0, 0});
  first.end();
  second.step({0, 0});
  dump.write(kJournal, first.bytes() + second.bytes());
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.ranks.at(0).runs, SizeIs(2));
  ASSERT_THAT(catalog.ranks[0].steps, SizeIs(2));
  EXPECT_EQ(catalog.ranks[0].steps[0].run, 0);
  EXPECT_EQ(catalog.ranks[0].steps[1].run, 1);
}

TEST(Catalog, SortsRanksByNumber) {
  const TemporaryDirectory dump;
  for (const char* rank : {"rank_10", "rank_2"}) {
    SmallRun run;
    run.step({0, 0});
    dump.write(std::filesystem::path(rank) / ".dump_metadata/sonde/journal", run.bytes());
  }
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.ranks, SizeIs(2));
  EXPECT_EQ(catalog.ranks[0].rank, 2);
  EXPECT_EQ(catalog.ranks[1].rank, 10);
}

TEST(Catalog, TakesOnlyThePartThatWasOpened) {
  const TemporaryDirectory dump;
  SmallRun run;
  run.step({0, 0});
  run.step({0, 1});
  run.step({1, 1});
  dump.write(kJournal, run.bytes());
  std::filesystem::create_directories(dump.path() / "rank_0/Net/0/1");
  EXPECT_THAT(opened(dump.path() / "rank_0").ranks[0].steps, SizeIs(3));
  EXPECT_THAT(opened(dump.path() / "rank_0/Net/0").ranks[0].steps, SizeIs(2));
  const Catalog step = opened(dump.path() / "rank_0/Net/0/1/");
  ASSERT_THAT(step.ranks[0].steps, SizeIs(1));
  EXPECT_EQ(step.ranks[0].steps[0].id, (StepId{0, 1}));
}

TEST(Catalog, UsesNoFileOutsideTheDump) {
  const TemporaryDirectory dump;
  SmallRun run;
  run.step({0, 0});
  run.file(1, "../../etc/passwd");
  run.file(2, "/etc/passwd");
  dump.write(kJournal, run.bytes());
  const Catalog catalog = opened(dump.path());
  for (const CatalogOp& op : catalog.ranks[0].steps[0].ops) {
    for (const CatalogTensor& tensor : op.tensors) EXPECT_EQ(tensor.file, "");
  }
  ASSERT_THAT(catalog.problems, SizeIs(1));
  EXPECT_THAT(catalog.problems[0].message, HasSubstr("outside the dump"));
}

TEST(Catalog, SaysWhatADirectoryThatIsNoDumpHolds) {
  const TemporaryDirectory directory;
  directory.write("notes/todo.txt", "buy milk");
  const Result<Catalog> none = open_catalog(directory.path());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::corrupt);
  EXPECT_THAT(none.error().message, HasSubstr("found 1 files in 2 directories (such as 'todo.txt')"));
  EXPECT_THAT(none.error().message, HasSubstr(directory.path().string()));
  EXPECT_THAT(none.error().message, HasSubstr("expected rank_N"));
  EXPECT_EQ(open_catalog(directory.path() / "no").error().code, ErrorCode::not_found);
  EXPECT_EQ(open_catalog(directory.path() / "notes/todo.txt").error().code, ErrorCode::corrupt);
}

TEST(Catalog, DistinguishesTwoDumps) {
  const TemporaryDirectory directory;
  for (const char* name : {"first", "second"}) {
    SmallRun run;
    run.step({0, 0});
    directory.write(std::filesystem::path(name) / kJournal, run.bytes());
  }
  const Catalog both = opened(directory.path());
  ASSERT_THAT(both.ranks, SizeIs(2));
  EXPECT_EQ(both.ranks[0].dump, "first");
  EXPECT_EQ(both.ranks[1].dump, "second");
  EXPECT_THAT(both.ranks[0].steps, SizeIs(1));
  EXPECT_EQ(opened(directory.path() / "first").ranks.at(0).dump, "");
}

TEST(Catalog, GoesOnWithNamesAndTablesWhereTheJournalIsNone) {
  const TemporaryDirectory dump;
  dump.write(kJournal, "something else");
  dump.write("rank_0/Net/0/4/relu.Default_relu-op0.0.0.17.output.0.DefaultFormat.Float32.npy",
             npy("<f4", "(2,)", bytes_of({1, 2})));
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.problems, SizeIs(1));
  EXPECT_THAT(catalog.problems[0].message, HasSubstr("are used instead"));
  ASSERT_THAT(catalog.ranks, SizeIs(1));
  EXPECT_FALSE(catalog.ranks[0].has_journal);
  EXPECT_EQ(catalog.ranks[0].steps.at(0).id.number, 4);
}

TEST(Catalog, MeasuresTensorsThatHaveOnlyAFile) {
  const TemporaryDirectory dump;
  const char* name = "relu.Default_relu-op0.0.0.17.output.0.DefaultFormat.Float32.npy";
  dump.write(std::filesystem::path("rank_0/Net/0/4") / name, npy("<f4", "(2,2,)", bytes_of({1, -2, 3, 0})));
  Catalog catalog = opened(dump.path());
  CatalogTensor& tensor = catalog.ranks[0].steps[0].ops[0].tensors[0];
  EXPECT_FALSE(tensor.statistics.has_value());
  Measurer measurer;
  const Status measured = measurer.measure(catalog.ranks[0], tensor);
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(tensor.statistics->max, 3);
  EXPECT_EQ(tensor.statistics->min, -2);
  EXPECT_EQ(tensor.statistics->avg, 0.5);
  EXPECT_EQ(tensor.statistics->zero_count, 1);
  EXPECT_THAT(tensor.shape, testing::ElementsAre(2, 2));
}

TEST(KnownStatistics, OfNoElementAreFinite) {
  EXPECT_TRUE(known(Statistics()).all_finite());
  EXPECT_EQ(known(Statistics()).max, std::nullopt);
}

TEST(KnownStatistics, LargeSquaresAreNoInfinity) {
  Statistics large = statistics(1e300);
  EXPECT_TRUE(known(large).all_finite());
  large.positive_inf_count = 1;
  EXPECT_FALSE(known(large).all_finite());
}

}  // namespace
}  // namespace sonde
