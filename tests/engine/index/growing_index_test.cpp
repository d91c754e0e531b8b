// The tables of a dump that grows: they are those of the whole dump, in whatever pieces its journals come.
#include "read/index/growing_index.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "catalog/catalog_text.h"
#include "catalog/dump_files.h"
#include "dump/journal/journal.h"
#include "dump/layout/side_names.h"
#include "read/index/index_reader.h"
#include "read/index/index_writer.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// Entries of a rank: steps of two operators, which name equal tensors and files of the step before.
class MadeJournal {
 public:
  MadeJournal() {
    SourceLine line;
    line.file = "train.py";
    line.line = 3;
    Site site;
    site.id = 1;
    site.op_type = "add";
    site.trace = {line};
    writer_.run(R"({"host": "torch", "rank": 0})");
    writer_.site(site);
    writer_.op_name(names_[0]);
    writer_.op_name(names_[1]);
  }

  // Of an engine that serves two requests.
  void begin() {
    Record record = next(RecordKind::step_begin);
    record.attributes = static_cast<std::uint32_t>(step_) + 1;
    const StepRequest first = {.request = "r1", .row = 0, .rows = 2, .position = step_};
    const StepRequest second = {.request = "r2", .row = 2, .rows = 1, .position = 3};
    writer_.attributes({.id = record.attributes, .values = {attribute_of(first), attribute_of(second)}});
    writer_.record(record);
  }
  void end() {
    mark(RecordKind::step_end);
    ++step_;
  }
  // `content`: of what it writes; the first of an equal content has the file, which is entered afterwards.
  void op(std::size_t name, std::uint64_t content, const std::string& file = "") {
    Record record = next(RecordKind::op);
    record.op = &names_[name];
    record.site = 1;
    TensorRecord tensor;
    tensor.is_input = false;
    tensor.wanted = true;
    tensor.dtype = DType::float32;
    tensor.set_shape(Dims(std::vector<std::int64_t>{4}));
    tensor.content = content;
    tensor.has_statistics = true;
    tensor.statistics.count = 4;
    tensor.statistics.nan_count = content % 3;
    const std::uint64_t sequence = record.sequence;
    record.tensors.push_back(std::move(tensor));
    writer_.record(record);
    if (!file.empty()) writer_.file(sequence, false, 0, file);
  }
  void note() { writer_.note("a note"); }
  void finish() { writer_.end("{}"); }
  void name(std::uint32_t id, const std::string& op_name) { writer_.op_name({id, "add", op_name}); }
  // An operator of a step that is over.
  void late_op() {
    step_ = 0;
    op(0, 99);
  }
  const std::string& bytes() { return writer_.buffer(); }

 private:
  Record next(RecordKind kind) {
    Record record;
    record.kind = kind;
    record.sequence = sequence_++;
    record.step = {0, step_};
    record.timestamp_us = 1000 + record.sequence;
    return record;
  }
  void mark(RecordKind kind) { writer_.record(next(kind)); }

  OpName names_[2] = {{1, "add", "Default/add-op0"}, {2, "mul", "Default/mul-op0"}};
  JournalWriter writer_;
  std::uint64_t sequence_ = 0, step_ = 0;
};

std::string run_of(std::uint64_t steps, bool finishes = true) {
  MadeJournal run;
  for (std::uint64_t step = 0; step < steps; ++step) {
    run.begin();
    run.op(0, 1, step == 0 ? "Net/0/0/a.npy" : "");  // the same in all steps
    run.op(1, 2 + step, "Net/0/" + std::to_string(step) + "/b.npy");
    if (step == 1) run.note();
    run.end();
  }
  if (finishes) run.finish();
  return run.bytes();
}

class Growing : public testing::Test {
 protected:
  void append(const std::string& rank, std::string_view bytes) const {
    const fs::path journal = journal_in(dump_.path() / rank / kMetadataDirectory);
    fs::create_directories(journal.parent_path());
    std::ofstream(journal, std::ios::binary | std::ios::app) << bytes;
  }
  std::string whole() const {
    const Result<Catalog> catalog = open_catalog(dump_.path());
    return catalog ? text_of(*catalog) : catalog.error().message;
  }
  std::string grown(GrowingIndex& index) const {
    Result<Catalog> catalog = read_index(index.database(), {});
    if (!catalog) return catalog.error().message;
    catalog->path = dump_.path();
    return text_of(*catalog);
  }
  // Both ranks get their journals in pieces of this size, with a look after each.
  void expect_same_in_pieces(std::size_t piece) {
    const std::string first = run_of(9), second = run_of(7);
    append("rank_0", first.substr(0, 400));
    append("rank_1", second.substr(0, 400));
    Result<GrowingIndex> index = GrowingIndex::open(dump_.path());
    ASSERT_TRUE(index);
    for (std::size_t at = 400; at < std::max(first.size(), second.size()); at += piece) {
      if (at < first.size()) append("rank_0", first.substr(at, piece));
      if (at < second.size()) append("rank_1", second.substr(at, piece));
      const Result<bool> grown = index->grow();
      ASSERT_TRUE(grown) << grown.error().message;
    }
    EXPECT_TRUE(index->has_finished());
    EXPECT_FALSE(*index->grow());
    EXPECT_EQ(grown(*index), whole());
    EXPECT_GT(index->ops_over(), 20);
  }

  TemporaryDirectory dump_;
};

TEST_F(Growing, HasTheTablesOfTheWholeDumpInSmallPieces) { expect_same_in_pieces(37); }
TEST_F(Growing, HasTheTablesOfTheWholeDumpInOnePiece) { expect_same_in_pieces(1 << 20); }

TEST_F(Growing, HasTheLookupsOfAWholeIndex) {
  append("rank_0", run_of(3));
  const auto lookups_of = [](Database& database) {
    std::string names;
    Result<Statement> rows =
        database.prepare("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name");
    while (rows && rows->next()) names += std::string(rows->text(0)) + " ";
    return names;
  };
  Result<GrowingIndex> index = GrowingIndex::open(dump_.path());
  ASSERT_TRUE(index);
  Result<Database> whole = make_index(*open_catalog(dump_.path()), dump_.path(), {});
  ASSERT_TRUE(whole);
  EXPECT_EQ(lookups_of(index->database()), lookups_of(*whole));
}

TEST_F(Growing, ShowsAStepThatGoesOn) {
  MadeJournal run;
  run.begin();
  run.op(0, 1, "Net/0/0/a.npy");
  append("rank_0", run.bytes());
  Result<GrowingIndex> index = GrowingIndex::open(dump_.path());
  ASSERT_TRUE(index);
  const std::size_t before = run.bytes().size();
  EXPECT_EQ(read_index(index->database(), {})->ranks[0].steps[0].ops.size(), 1);
  run.op(1, 2);
  run.end();
  append("rank_0", run.bytes().substr(before));
  EXPECT_TRUE(*index->grow());
  const Catalog catalog = *read_index(index->database(), {});
  ASSERT_EQ(catalog.ranks[0].steps.size(), 1);
  EXPECT_TRUE(catalog.ranks[0].steps[0].ended);
  EXPECT_EQ(catalog.ranks[0].steps[0].ops.size(), 2);
  EXPECT_EQ(index->ops_over(), 0);  // files may still be entered
  EXPECT_FALSE(index->has_finished());
}

TEST_F(Growing, AsksForTheWholeDumpWhereTablesWouldBeWrong) {
  const std::string rest = run_of(3).substr(400);
  const auto open = [&](const std::string& rank) {
    append(rank, run_of(3, false));
    return GrowingIndex::open(dump_.path());
  };
  EXPECT_FALSE(GrowingIndex::open(dump_.path()));  // there is nothing
  Result<GrowingIndex> damaged = open("rank_0");
  ASSERT_TRUE(damaged);
  append("rank_0", std::string(40, '\xff') + rest);
  EXPECT_FALSE(damaged->grow());
  EXPECT_FALSE(GrowingIndex::open(dump_.path()));
  fs::remove_all(dump_.path() / "rank_0");

  Result<GrowingIndex> again = open("rank_1");
  ASSERT_TRUE(again);
  append("rank_1", run_of(1));  // another run
  EXPECT_FALSE(again->grow());
  fs::remove_all(dump_.path() / "rank_1");

  Result<GrowingIndex> joined = open("rank_2");
  ASSERT_TRUE(joined);
  append("rank_3", run_of(1));  // another rank
  EXPECT_FALSE(joined->grow());
  fs::remove_all(dump_.path() / "rank_3");

  MadeJournal late;
  for (std::uint64_t step = 0; step < 3; ++step) {
    late.begin();
    late.op(0, 1 + step);
    late.end();
  }
  fs::remove_all(dump_.path() / "rank_2");
  append("rank_4", late.bytes());
  Result<GrowingIndex> over = GrowingIndex::open(dump_.path());
  ASSERT_TRUE(over);
  const std::size_t before = late.bytes().size();
  late.late_op();
  append("rank_4", late.bytes().substr(before));
  EXPECT_FALSE(over->grow());
}

}  // namespace
}  // namespace sonde
