// Saved indexes: their content, when they are valid, and how damaged ones are treated.
#include "read/index/index.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <thread>
#include <tuple>

#include "catalog/catalog_text.h"
#include "catalog/dump_files.h"
#include "dump/graph/host_graph.h"
#include "dump/journal/journal.h"
#include "read/index/index_file.h"
#include "read/index/index_reader.h"
#include "read/index/index_schema.h"
#include "read/index/index_sums.h"
#include "read/index/index_writer.h"
#include "read/index/partial_catalog.h"
#include "read/index/sealed_file.h"
#include "read/measure/health.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kStep = "rank_0/Net/0/0";
constexpr const char* kNpy = "rank_0/Net/0/0/Add.Default_Add-op1.0.0.1700000000000002.output.0.DefaultFormat.npy";

// Two ranks of three steps, with tables, tensors, a long name and an execution order; unchanged for an hour.
class SmallTree {
 public:
  SmallTree() {
    for (const std::string rank : {"rank_0", "rank_1"}) {
      directory_.write(rank + "/execution_order/ms_execution_order_graph_0.csv", "Default/Add-op1\nDefault/Mul-op2\n");
      for (const std::string step : {"0", "1", "2"}) write_step(rank + "/Net/0/" + step);
    }
    rest();
  }

  const fs::path& path() const { return directory_.path(); }
  fs::path operator/(const char* file) const { return path() / file; }
  void write(const fs::path& file, std::string_view bytes) const { directory_.write(file, bytes); }

  // Sets all times to an hour ago.
  void rest() const {
    const auto then = fs::file_time_type::clock::now() - std::chrono::hours(1);
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path())) fs::last_write_time(entry, then);
    fs::last_write_time(path(), then);
  }

 private:
  void write_step(const std::string& step) const {
    directory_.write(
        step + "/statistic.csv",
        "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,"
        "L2Norm Value,NaN Count\n"
        "Add,Default/Add-op1,0,0,1700000000000001,input,0,4,float32,\"(1)\",2,-0,2,0\n"
        "Add,Default/Add-op1,0,0,1700000000000002,output,0,4,float32,\"(1)\",nan,-inf,nan,1\n");
    const std::string one = npy("<f4", "(1,)", bytes_of({1}));
    directory_.write(step + "/Add.Default_Add-op1.0.0.1700000000000002.output.0.DefaultFormat.npy", one);
    directory_.write(step + "/Mul.Default_Mul-op2.0.0.1700000000000003.output.0.DefaultFormat.npy", one);
    directory_.write(step + "/123.npy", one);
    directory_.write(step + "/mapping.csv",
                     "123.npy,Sub.Default_Sub-op3.0.0.1700000000000004.input.0.DefaultFormat.npy\n");
  }

  TemporaryDirectory directory_;
};

class SavedIndex : public testing::Test {
 protected:
  void SetUp() override { ::setenv("XDG_CACHE_HOME", cache_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("XDG_CACHE_HOME"); }

  static fs::path built(const fs::path& dump) {
    const Result<IndexReport> report = build_index(dump);
    EXPECT_TRUE(report) << report.error().message;
    return report ? report->file : fs::path();
  }

  static std::string text_from_index(const fs::path& dump) {
    Result<Index> index = Index::open(dump);
    if (!index) return index.error().message;
    const Result<Catalog> catalog = index->load();
    return catalog ? text_of(*catalog) : catalog.error().message;
  }

  static std::string text_from_dump(const fs::path& dump) {
    const Result<Catalog> catalog = open_catalog(dump);
    return catalog ? text_of(*catalog) : catalog.error().message;
  }

  TemporaryDirectory cache_;
};

// --- the content -----------------------------------------------------------------------------------------------------

// Every field has a value of its own, including the awkward ones.
Catalog full_catalog() {
  static const std::vector<SourceLine> trace = {{"a \"b\"\n.py", "f", 7, 1, 8, 2}, {"b.py", "", 9, 0, 0, 0}};
  static const std::vector<Attribute> attributes = {
      {"stride", AttributeKind::integers, {1, -2, std::numeric_limits<std::int64_t>::min()}, {}, ""},
      {"p", AttributeKind::reals, {}, {0.1, -0.0, std::numeric_limits<double>::infinity(), std::nan("")}, ""},
      {"dtype", AttributeKind::text, {}, {}, "float32"}};
  Catalog catalog;
  catalog.path = "dump";
  catalog.problems.push_back({"/x/y", "line 3: bad"});
  CatalogRank& rank = catalog.ranks.emplace_back();
  rank.rank = 4'000'000'000;
  rank.kind = DumpKind::msprobe;
  rank.dump = "one";
  rank.directory = "/x/\xff\xfe";  // not UTF-8
  rank.metadata = "/x/m";
  rank.has_host_data_flow = true;
  CatalogRun& run = rank.runs.emplace_back();
  run.finished = true;
  run.host = "torch";
  run.command = "train.py --name 'x'";
  run.layout = "mindspore-2.7";
  run.saved_data = "full";
  run.net_name = "Net";
  run.error = "disk full";
  run.pid = 3;
  run.started_us = 1;
  run.ended_us = 2;
  run.bytes_read = 5;
  run.bytes_written = 6;
  run.notes = {"first", "second"};
  HostGraph graph;
  graph.lines["a.py"][7] = "y = x + 1";
  rank.host_graphs.push_back(std::make_shared<const HostGraph>(graph));
  for (std::uint64_t number = 0; number < 3; ++number) {
    CatalogStep& step = rank.steps.emplace_back();
    step.id = {1, number};
    step.started_us = 10;
    step.ended_us = 20;
    step.ended = number > 0;
    step.directory = "Net/0";
    if (number == 1) continue;  // a step without ops
    CatalogOp op;
    op.is_module = true;
    op.failed = true;
    op.phase = Phase::recompute;
    op.op_name = "Default/relu-op0";
    op.op_type = "relu";
    op.scope = "layers/0";
    op.parent = "Module.0";
    op.source_file = "a.py";
    op.line = 7;
    op.function = "forward";
    op.trace = &trace;
    op.attributes = &attributes;
    op.sequence = number;
    op.timestamp_us = 30;
    op.thread = 2;
    CatalogTensor input;
    input.is_input = true;
    input.slot = 3;
    input.parameter = std::string_view("weight");
    input.key = "attn_mask";
    input.skipped = std::string_view("no data");
    input.wanted = false;
    input.content = std::numeric_limits<std::uint64_t>::max();
    input.source = 0;
    input.source_slot = kInnerSlot;
    input.source_is_likely = true;
    input.constant = -0.0;
    CatalogTensor output;
    output.dtype = DType::bfloat16;
    output.set_shape({2, 0, std::numeric_limits<std::int64_t>::max()});
    output.file = "Net/0/relu.Default_relu-op0.0.0.1700000000000001.output.0.DefaultFormat.npy";
    output.md5 = "d41d8cd98f00b204e9800998ecf8427e";
    output.sha1 = std::string_view("a\0b", 3);
    output.timestamp_us = 40;
    output.constant = std::nan("");
    KnownStatistics& s = output.statistics.emplace();
    s.max = std::nan("");
    s.min = -0.0;
    s.avg = 5e-324;
    s.l2norm = std::numeric_limits<double>::infinity();
    s.count = std::numeric_limits<std::uint64_t>::max();
    s.nan_count = 0;
    CatalogTensor scalar;
    scalar.slot = 1;
    scalar.has_shape = true;
    scalar.statistics.emplace().max = 3;
    scalar.file = "name";
    op.tensors = {input, output, output, scalar};
    op.tensors[2].file = ".1.npy";
    op.tensors[2].statistics.emplace();
    step.ops.push_back(op);
    CatalogOp parameter;
    parameter.is_parameter = true;
    parameter.op_name = "Default/relu-op0";  // of another type
    parameter.op_type = "Parameter";
    step.ops.push_back(parameter);
  }
  return catalog;
}

TEST_F(SavedIndex, KeepsEveryField) {
  const Catalog catalog = full_catalog();
  const fs::path file = cache_.path() / "index?#%41.sqlite";
  const Status written = write_index(catalog, "/x", {}, file);
  ASSERT_TRUE(written) << written.error().message;
  ASSERT_TRUE(check_seal(file));
  Result<Database> database = Database::open(file);
  ASSERT_TRUE(database);
  ASSERT_TRUE(check_index(*database, file, "/x"));
  Result<Catalog> read = read_index(*database, {});
  ASSERT_TRUE(read) << read.error().message;
  read->path = "dump";
  EXPECT_EQ(text_of(*read), text_of(catalog));
  const auto& ops = read->ranks[0].steps[0].ops;
  EXPECT_EQ(ops[0].op_name.data(), ops[1].op_name.data()) << "texts of a catalog are kept once";
}

TEST_F(SavedIndex, KeepsEachSettingOfARun) {
  const DumpSettings each[] = {
      {}, {.only_overflows = true}, {.only_exceptions = true}, {.inputs_after = true}, {.reread = true}};
  Catalog catalog;
  CatalogRank& rank = catalog.ranks.emplace_back();
  for (const DumpSettings& settings : each) rank.runs.emplace_back().settings = settings;
  const fs::path file = cache_.path() / "x.sqlite";
  ASSERT_TRUE(write_index(catalog, "/x", {}, file));
  Result<Database> database = Database::open(file);
  ASSERT_TRUE(database);
  const Result<Catalog> read = read_index(*database, {});
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->ranks[0].runs.size(), std::size(each));
  for (std::size_t i = 0; i < std::size(each); ++i) EXPECT_EQ(read->ranks[0].runs[i].settings, each[i]) << i;
}

TEST_F(SavedIndex, KeepsTheNameOfEveryType) {
  for (const DTypeInfo& row : all_dtypes()) EXPECT_EQ(dtype_from_name(row.lower), row.dtype) << row.lower;
}

TEST_F(SavedIndex, IsTheCatalogOfTheDump) {
  const SmallTree dump;
  built(dump.path());
  EXPECT_EQ(text_from_index(dump.path()), text_from_dump(dump.path()));
  EXPECT_THAT(text_from_index(dump.path()), HasSubstr("'Default/Mul-op2'"));
}

TEST_F(SavedIndex, OfAPartOfADumpIsThatPart) {
  const SmallTree dump;
  built(dump / "rank_1");
  EXPECT_EQ(text_from_index(dump / "rank_1"), text_from_dump(dump / "rank_1"));
  EXPECT_FALSE(Index::open(dump.path()));
}

TEST_F(SavedIndex, CountsWhatStepsComeTo) {
  const SmallTree dump;
  fs::remove(dump / "rank_0/Net/0/1/123.npy");
  fs::create_hard_link(dump / "rank_0/Net/0/0/123.npy", dump / "rank_0/Net/0/1/123.npy");
  dump.rest();
  built(dump.path());
  CatalogQuery query;
  query.with_ops = false;
  const Result<Catalog> catalog = Index::open(dump.path())->load(query);
  ASSERT_TRUE(catalog);
  const CatalogStep& first = catalog->ranks[0].steps[0];
  EXPECT_THAT(first.ops, IsEmpty());
  EXPECT_EQ(first.sum->ops, 3);
  EXPECT_EQ(first.sum->tensors, 4);
  EXPECT_EQ(first.sum->files, 3);
  EXPECT_EQ(first.sum->bytes, 3 * 132);
  EXPECT_EQ(first.sum->new_bytes, 3 * 132);
  EXPECT_EQ(catalog->ranks[0].steps[1].sum->bytes, 3 * 132);
  EXPECT_EQ(catalog->ranks[0].steps[1].sum->new_bytes, 2 * 132) << "one file has a name in the step before";

  Catalog whole = opened(dump.path());
  StepCounter counter;
  for (std::size_t i = 0; i < whole.ranks[0].steps.size(); ++i) {
    std::vector<CatalogOp*> ops;
    for (CatalogOp& op : whole.ranks[0].steps[i].ops) ops.push_back(&op);
    const StepSum counted = counter.count(whole.ranks[0], ops), &saved = *catalog->ranks[0].steps[i].sum;
    EXPECT_EQ(std::tie(counted.ops, counted.parameters, counted.tensors, counted.files),
              std::tie(saved.ops, saved.parameters, saved.tensors, saved.files));
    EXPECT_EQ(std::tie(counted.bytes, counted.new_bytes), std::tie(saved.bytes, saved.new_bytes));
  }
}

TEST_F(SavedIndex, CountsAFileOnceThatASymbolicLinkNamesToo) {
  const SmallTree dump;
  fs::remove(dump / "rank_0/Net/0/1/123.npy");
  fs::create_symlink(dump / "rank_0/Net/0/0/123.npy", dump / "rank_0/Net/0/1/123.npy");
  dump.rest();
  built(dump.path());
  CatalogQuery query;
  query.with_ops = false;
  const Result<Catalog> catalog = Index::open(dump.path())->load(query);
  ASSERT_TRUE(catalog);
  EXPECT_EQ(catalog->ranks[0].steps[0].sum->new_bytes, 3 * 132);
  EXPECT_EQ(catalog->ranks[0].steps[1].sum->bytes, 3 * 132);
  EXPECT_EQ(catalog->ranks[0].steps[1].sum->new_bytes, 2 * 132);
}

TEST_F(SavedIndex, GivesTheOpsOfAStepWhenTheyAreNeeded) {
  const SmallTree dump;
  built(dump.path());
  Result<PartialCatalog> partial = PartialCatalog::open(dump.path());
  ASSERT_TRUE(partial) << partial.error().message;
  const Catalog whole = opened(dump.path());
  partial->read_ops(0, 1);
  partial->read_ops(0, 1);
  EXPECT_THAT(partial->catalog().ranks[0].steps[0].ops, IsEmpty());
  const std::vector<CatalogOp>&ops = partial->catalog().ranks[0].steps[1].ops, &expected = whole.ranks[0].steps[1].ops;
  ASSERT_EQ(ops.size(), expected.size());
  for (std::size_t i = 0; i < ops.size(); ++i) EXPECT_EQ(ops[i].op_name, expected[i].op_name);
  std::vector<std::string> outputs;
  partial->each_output(0, 0, [&](const OutputSize& output) {
    EXPECT_EQ(output.min, -std::numeric_limits<double>::infinity());
    EXPECT_FALSE(output.max) << "NaN";
    outputs.push_back(std::string(output.op_name) + " " + std::to_string(output.place) + "." +
                      std::to_string(output.position));
  });
  EXPECT_THAT(outputs, ElementsAre("Default/Add-op1 0.1")) << "files alone have no statistics";
  EXPECT_TRUE(partial->check());
}

TEST_F(SavedIndex, SaysThatAStepCouldNotBeRead) {
  const SmallTree dump;
  const fs::path file = built(dump.path());
  Result<PartialCatalog> partial = PartialCatalog::open(dump.path());
  ASSERT_TRUE(partial);
  fs::resize_file(file, 1);
  for (std::size_t step = 0; step < 2; ++step) partial->read_ops(0, step);
  EXPECT_FALSE(partial->check());
}

TEST_F(SavedIndex, KnowsWhichStepsAreFine) {
  const SmallTree dump;  // a NaN in each step
  const std::string header =
      "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Type,Shape,Max Value,Min Value\n";
  const std::string row = "Add,Default/Add-op1,0,0,1700000000000001,output,0,float32,\"(1)\",2,1\n";
  dump.write("rank_0/Net/0/3/statistic.csv", header + row);
  dump.write("rank_0/Net/0/4/statistic.csv", header + row);
  dump.write("rank_0/Net/0/4/Mul.Default_Mul-op2.0.0.1700000000000003.output.0.DefaultFormat.npy",
             npy("<f4", "(1,)", bytes_of({1})));  // its values are only in the file
  dump.rest();
  built(dump.path());
  Result<Index> index = Index::open(dump.path());
  ASSERT_TRUE(index);
  CatalogQuery query;
  query.with_ops = false;
  const Result<Catalog> catalog = index->load(query);
  const Result<Catalog> whole = index->load();
  ASSERT_TRUE(catalog && whole);
  std::vector<bool> fine;
  for (std::size_t i = 0; i < 5; ++i) {
    const CatalogStep& step = catalog->ranks[0].steps[i];
    ASSERT_TRUE(step.health && step.ops.empty());
    fine.push_back(step.health->is_fine);
    const StepHealth expected = health_of(whole->ranks[0].steps[i]);
    EXPECT_EQ(std::tie(step.health->known, step.health->not_recorded, step.health->is_fine),
              std::tie(expected.known, expected.not_recorded, expected.is_fine));
  }
  EXPECT_THAT(fine, ElementsAre(false, false, false, true, false));
  EXPECT_EQ(catalog->ranks[0].steps[3].health->known, 1);
}

TEST_F(SavedIndex, TellsTheProgressOfBothHalves) {
  const SmallTree dump;
  std::map<std::string, std::vector<std::uint64_t>, std::less<>> done;
  const Result<IndexReport> report =
      build_index(dump.path(), {}, [&](std::string_view work, std::uint64_t parts, std::uint64_t all) {
        EXPECT_EQ(all, 6);
        done[std::string(work)].push_back(parts);
      });
  ASSERT_TRUE(report);
  EXPECT_THAT(done["reading step"], ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(done["writing step"], ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(done.size(), 2);
}

// --- queries ---------------------------------------------------------------------------------------------------------

std::vector<std::string> names_in(const CatalogStep& step) {
  std::vector<std::string> names;
  for (const CatalogOp& op : step.ops) names.emplace_back(op.op_name);
  return names;
}

TEST_F(SavedIndex, LoadsTheStepsAndOpsThatAreAskedFor) {
  const SmallTree dump;
  built(dump.path());
  Result<Index> index = Index::open(dump.path());
  ASSERT_TRUE(index);
  CatalogQuery query;
  query.rank = 1;
  query.steps = [](std::uint64_t step) { return step == 2; };
  query.ops = [](std::string_view, std::string_view op_type) { return op_type == "Mul"; };
  Result<Catalog> catalog = index->load(query);
  ASSERT_TRUE(catalog);
  EXPECT_THAT(names_in(catalog->ranks[0].steps[2]), IsEmpty());
  EXPECT_THAT(names_in(catalog->ranks[1].steps[1]), IsEmpty());
  EXPECT_THAT(names_in(catalog->ranks[1].steps[2]), ElementsAre("Default/Mul-op2"));
  EXPECT_EQ(catalog->ranks[1].steps[2].ops[0].tensors.size(), 1);
  query.ops = nullptr;
  query.file = "Mul.Default_Mul-op2.0.0.1700000000000003.output.0.DefaultFormat.npy";
  catalog = index->load(query);
  EXPECT_THAT(names_in(catalog->ranks[1].steps[2]), ElementsAre("Default/Mul-op2"));
}

TEST_F(SavedIndex, LoadsTheFirstOpOfEachNameWithItsSums) {
  const SmallTree dump;
  built(dump.path());
  Result<Index> index = Index::open(dump.path());
  ASSERT_TRUE(index);
  CatalogQuery query;
  query.first_of_name = true;
  query.steps = [](std::uint64_t step) { return step > 0; };
  Result<Catalog> catalog = index->load(query);
  ASSERT_TRUE(catalog);
  EXPECT_THAT(names_in(catalog->ranks[0].steps[0]), IsEmpty());
  EXPECT_THAT(names_in(catalog->ranks[0].steps[1]),
              ElementsAre("Default/Add-op1", "Default/Mul-op2", "Default_Sub-op3"));
  EXPECT_THAT(names_in(catalog->ranks[0].steps[2]), IsEmpty());
  EXPECT_THAT(names_in(catalog->ranks[1].steps[1]), IsEmpty());
  const CatalogOp& add = catalog->ranks[0].steps[1].ops[0];
  ASSERT_TRUE(add.sum);
  EXPECT_EQ(add.tensors.size(), 2);
  EXPECT_EQ(std::tie(add.sum->times, add.sum->recorded), std::make_tuple(4, 8)) << "two ranks of two steps";
  query.ops = [](std::string_view, std::string_view op_type) { return op_type == "Mul"; };
  catalog = index->load(query);
  ASSERT_TRUE(catalog);
  EXPECT_THAT(names_in(catalog->ranks[0].steps[1]), ElementsAre("Default/Mul-op2"));
  EXPECT_EQ(catalog->ranks[0].steps[1].ops[0].sum->recorded, 4);
}

// a -> b -> c, and d apart.
TEST_F(SavedIndex, LoadsNeighboursByDataFlowAndByName) {
  Catalog catalog;
  CatalogRank& rank = catalog.ranks.emplace_back();
  rank.runs.emplace_back();
  CatalogStep& step = rank.steps.emplace_back();
  for (const char* name : {"a", "b", "c", "d"}) {
    CatalogOp& op = step.ops.emplace_back();
    op.op_name = op.op_type = name;
    op.sequence = step.ops.size();
    op.tensors.resize(1);
  }
  step.ops[1].tensors[0].source = 1;
  step.ops[2].tensors[0].source = 2;
  const fs::path file = cache_.path() / "x.sqlite";
  const auto asked = [&](const char* name) {
    fs::remove(file);
    EXPECT_TRUE(write_index(catalog, "/x", {}, file));
    CatalogQuery query;
    query.ops = [&](std::string_view op_name, std::string_view) { return op_name == name; };
    query.with_neighbours = true;
    Result<Database> database = Database::open(file);
    return names_in(read_index(*database, query)->ranks[0].steps[0]);
  };
  EXPECT_THAT(asked("a"), ElementsAre("a", "b"));
  EXPECT_THAT(asked("b"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(asked("d"), ElementsAre("d"));
  step.ops[3].tensors[0].parameter = std::string_view("a");
  step.ops[0].is_parameter = true;
  EXPECT_THAT(asked("a"), ElementsAre("a", "b", "d"));
}

// --- when it is valid ------------------------------------------------------------------------------------------------

struct Change {
  const char* name;
  void (*make)(const SmallTree& dump);
};

class ChangedDump : public SavedIndex, public testing::WithParamInterface<Change> {};

TEST_P(ChangedDump, HasNoIndex) {
  const SmallTree dump;
  built(dump.path());
  ASSERT_TRUE(Index::open(dump.path()));
  GetParam().make(dump);
  const Result<Index> index = Index::open(dump.path());
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().code, ErrorCode::busy);
  EXPECT_THAT(index.error().message, HasSubstr("out of date"));
  const Result<Catalog> catalog = open_catalog(dump.path(), CatalogQuery());
  ASSERT_TRUE(catalog);
  EXPECT_EQ(text_of(*catalog), text_from_dump(dump.path()));
}

// In place, with the same length, and with the old time.
void rewrite(const fs::path& file) {
  const auto then = fs::last_write_time(file);
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-2, std::ios::end);
  stream.put('7');
  stream.close();
  fs::last_write_time(file, then);
}

INSTANTIATE_TEST_SUITE_P(
    Each, ChangedDump,
    testing::Values(
        Change{"AddedFile", [](const SmallTree& dump) { dump.write(std::string(kStep) + "/x.npy", "x"); }},
        Change{"RemovedFile", [](const SmallTree& dump) { fs::remove(dump / kNpy); }},
        Change{"RenamedFile", [](const SmallTree& dump) { fs::rename(dump / kNpy, dump / "rank_0/Net/0/0/y.npy"); }},
        Change{"RewrittenTensor", [](const SmallTree& dump) { rewrite(dump / kNpy); }},
        Change{"RewrittenTable", [](const SmallTree& dump) { rewrite(dump / "rank_1/Net/0/2/statistic.csv"); }},
        Change{
            "LongerTable",
            [](const SmallTree& dump) { std::ofstream(dump / "rank_1/Net/0/2/statistic.csv", std::ios::app) << "x"; }},
        Change{"RewrittenMapping", [](const SmallTree& dump) { rewrite(dump / "rank_0/Net/0/1/mapping.csv"); }},
        Change{"RewrittenOrder",
               [](const SmallTree& dump) { rewrite(dump / "rank_0/execution_order/ms_execution_order_graph_0.csv"); }},
        Change{"AddedStep", [](const SmallTree& dump) { fs::create_directory(dump / "rank_0/Net/0/3"); }},
        Change{"AddedRank", [](const SmallTree& dump) { fs::create_directory(dump / "rank_2"); }},
        Change{"AddedJournal", [](const SmallTree& dump) { dump.write("rank_0/.dump_metadata/sonde/journal", "x"); }},
        Change{"AddedGraphs", [](const SmallTree& dump) { fs::create_directory(dump / "rank_0/graphs"); }},
        Change{"RemovedStep", [](const SmallTree& dump) { fs::remove_all(dump / "rank_0/Net/0/2"); }},
        Change{"ReplacedDirectory",
               [](const SmallTree& dump) {
                 const fs::path step = dump / "rank_0/Net/0/2";
                 const auto then = fs::last_write_time(step), above = fs::last_write_time(step.parent_path());
                 fs::rename(step, dump / "rank_0/Net/0/old");
                 fs::copy(dump / "rank_0/Net/0/1", step);
                 fs::remove_all(dump / "rank_0/Net/0/old");
                 fs::last_write_time(step, then);
                 fs::last_write_time(step.parent_path(), above);
               }}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_F(SavedIndex, OfAPartSeesWhatLiesBesideIt) {
  const SmallTree dump;
  built(dump / "rank_0/Net/0");
  ASSERT_TRUE(Index::open(dump / "rank_0/Net/0"));
  rewrite(dump / "rank_0/execution_order/ms_execution_order_graph_0.csv");
  EXPECT_FALSE(Index::open(dump / "rank_0/Net/0"));
}

TEST_F(SavedIndex, OutlivesAVisit) {
  const SmallTree dump;
  built(dump.path());
  text_from_dump(dump.path());
  std::ifstream(dump / kNpy).get();
  EXPECT_TRUE(Index::open(dump.path()));
}

TEST_F(SavedIndex, IsNotMadeOfARunThatGoesOn) {
  const TemporaryDirectory dump;
  JournalWriter journal;
  journal.run("{}");
  dump.write("rank_0/.dump_metadata/sonde/journal", journal.buffer());
  const Result<IndexReport> report = build_index(dump.path());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::busy);
  EXPECT_THAT(report.error().message, HasSubstr("still being written"));
  EXPECT_TRUE(fs::is_empty(cache_.path()));
  // Killed long ago.
  fs::last_write_time(dump.path() / "rank_0/.dump_metadata/sonde/journal",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  for (const char* directory : {"rank_0/.dump_metadata/sonde", "rank_0/.dump_metadata", "rank_0", "."}) {
    fs::last_write_time(dump.path() / directory, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  EXPECT_TRUE(build_index(dump.path()));
}

TEST_F(SavedIndex, WaitsUntilTheDumpIsAtRest) {
  const SmallTree dump;
  fs::last_write_time(dump / kNpy, fs::file_time_type::clock::now() - std::chrono::milliseconds(1900));
  built(dump.path());
  EXPECT_EQ(text_from_index(dump.path()), text_from_dump(dump.path()));
}

// --- damage --------------------------------------------------------------------------------------------------------------

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void put(const fs::path& file, std::string_view bytes) { std::ofstream(file, std::ios::binary) << bytes; }

TEST_F(SavedIndex, IsNotBelievedWhenAByteOfAnyPageIsWrong) {
  const SmallTree dump;
  const fs::path file = built(dump.path());
  const std::string whole = content_of(file);
  constexpr std::size_t kPage = 16384;
  ASSERT_GT(whole.size(), 10 * kPage);
  const std::string expected = text_from_dump(dump.path());
  std::size_t refused = 0;
  for (std::size_t page = 0; page < whole.size(); page += kPage) {
    const std::size_t offset = std::min(page + page / kPage * 4099 % kPage, whole.size() - 1);  // another place in each
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto put_byte = [&](char byte) { stream.seekp(static_cast<std::streamoff>(offset)).put(byte).flush(); };
    put_byte(static_cast<char>(whole[offset] ^ 0x41));
    ASSERT_FALSE(check_seal(file)) << "byte " << offset;
    Result<Index> index = Index::open(dump.path());
    const Result<Catalog> catalog = index ? index->load() : index.error();
    ASSERT_TRUE(!catalog || text_of(*catalog) == expected) << "byte " << offset;
    refused += catalog ? 0 : 1;
    const Result<Catalog> opened = open_catalog(dump.path(), CatalogQuery());
    ASSERT_TRUE(opened && text_of(*opened) == expected) << "byte " << offset;
    put_byte(whole[offset]);
  }
  EXPECT_GT(refused, 5) << "only a page that is not read, such as that of a lookup, may be wrong";
  EXPECT_TRUE(Index::open(dump.path()));
}

TEST_F(SavedIndex, IsNotBelievedWhenItIsCutOff) {
  const SmallTree dump;
  const fs::path file = built(dump.path());
  const std::string whole = content_of(file);
  for (const std::size_t bytes : {0UL, 1UL, 15UL, 100UL, 16384UL, whole.size() / 2, whole.size() - 1}) {
    put(file, std::string_view(whole).substr(0, bytes));
    ASSERT_FALSE(Index::open(dump.path())) << bytes;
  }
  put(file, whole + "x");
  EXPECT_FALSE(Index::open(dump.path()));
}

// With valid seals: an index of another writer, and one of another version.
TEST_F(SavedIndex, IsNotBelievedWhenItIsAnothers) {
  const SmallTree dump, other;
  const fs::path file = built(dump.path());
  const fs::path of_other = built(other.path());
  fs::copy_file(of_other, file, fs::copy_options::overwrite_existing);
  EXPECT_THAT(Index::open(dump.path()).error().message, HasSubstr("of another dump"));
  for (const char* sql :
       {"PRAGMA user_version=99", "PRAGMA application_id=1", "DROP TABLE tensors", "DELETE FROM sources"}) {
    fs::remove(file);
    ASSERT_TRUE(write_index(*open_catalog(dump.path()), dump.path(), *TreeSnapshot::take(dump.path(), {}), file));
    {
      fs::resize_file(file, SealedFile::open(file)->bytes());
      Result<Database> database = Database::create(file);
      ASSERT_TRUE(database->execute(sql));
    }
    ASSERT_TRUE(seal_index(file));
    Result<Index> index = Index::open(dump.path());
    EXPECT_FALSE(index && index->load()) << sql;
  }
}

TEST_F(SavedIndex, IsNeverMissed) {
  const SmallTree dump;
  const std::string expected = text_from_dump(dump.path());
  const fs::path file = index_file_of(fs::canonical(dump.path()));
  const auto opened = [&] {
    const Result<Catalog> catalog = open_catalog(dump.path(), CatalogQuery());
    return catalog ? text_of(*catalog) : catalog.error().message;
  };
  EXPECT_EQ(opened(), expected);
  fs::create_directories(file);  // a directory in its place
  EXPECT_EQ(opened(), expected);
  EXPECT_FALSE(build_index(dump.path()));
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);  // without a writer
  EXPECT_EQ(opened(), expected);
  ::setenv("XDG_CACHE_HOME", "/dev/null", 1);  // no directory
  EXPECT_EQ(opened(), expected);
  EXPECT_FALSE(build_index(dump.path()));
  ::setenv("SONDE_INDEX", "off", 1);
  EXPECT_EQ(opened(), expected);
  ::unsetenv("SONDE_INDEX");
}

TEST_F(SavedIndex, IsWholeWhenManyMakeItAtOnce) {
  const SmallTree dump;
  const std::string expected = text_from_dump(dump.path());
  {
    std::vector<std::jthread> builders;
    for (int i = 0; i < 4; ++i) {
      builders.emplace_back([&] {
        for (int j = 0; j < 3; ++j) EXPECT_TRUE(build_index(dump.path()));
      });
    }
    for (int i = 0; i < 20; ++i) {
      const Result<Catalog> catalog = open_catalog(dump.path(), CatalogQuery());
      EXPECT_TRUE(catalog && text_of(*catalog) == expected);
    }
  }
  EXPECT_EQ(text_from_index(dump.path()), expected);
  std::size_t files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(index_directory())) files += entry.exists();
  EXPECT_EQ(files, 1) << "nothing is left of the others";
}

TEST_F(SavedIndex, OfADumpThatIsGoneGoesWithTheNextOne) {
  const SmallTree dump;
  fs::path gone;
  {
    const SmallTree other;
    gone = built(other.path());
  }
  ASSERT_TRUE(fs::exists(gone));
  const fs::path kept = built(dump.path());
  EXPECT_FALSE(fs::exists(gone));
  EXPECT_TRUE(fs::exists(kept));
}

}  // namespace
}  // namespace sonde
