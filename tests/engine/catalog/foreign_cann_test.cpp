// Dumps that CANN wrote, or MindSpore 1.2: no journal, files of whole ops, tables of ops, raw elements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dump/formats/container.h"
#include "dump/journal/journal.h"
#include "dump_files.h"
#include "read/catalog/catalog.h"
#include "read/catalog/dump_tree.h"
#include "read/catalog/statistic_table.h"
#include "read/measure/measure.h"

namespace sonde {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::string kTime = "20260102030405";
const std::string kStamp = "1700000000000001";

// An op that adds 1 to its input.
std::string add_one(const std::string& op_name, float value = 1) {
  Container container;
  container.op_name = op_name;
  ContainerTensor tensor;
  tensor.data_type = 1;
  tensor.shape = {1};
  tensor.bytes = 4;
  container.inputs = {tensor, {}};  // the second is not a tensor
  container.outputs = {tensor};
  return container_head(container) + bytes_of({value}) + bytes_of({value + 1});
}

TEST(ForeignCann, OfAModelIsReadFromItsContainers) {
  const TemporaryDirectory dump;
  const std::filesystem::path step = std::filesystem::path(kTime) / "3" / "Net" / "1" / "7";
  dump.write(step / ("Add.Default_net_Add-op0.5.2." + kStamp), add_one("Default/net/Add-op0"));
  dump.write(step / ("Opdebug.Node_OpDebug.5.2." + kStamp), "not an op");
  const Catalog catalog = opened(dump.path());
  EXPECT_THAT(catalog.problems, IsEmpty());
  ASSERT_THAT(catalog.ranks, SizeIs(1));
  EXPECT_EQ(catalog.ranks[0].rank, 3U);
  ASSERT_THAT(catalog.ranks[0].steps, SizeIs(1));
  EXPECT_EQ(catalog.ranks[0].steps[0].id, (StepId{1, 7}));
  ASSERT_THAT(catalog.ranks[0].steps[0].ops, SizeIs(1));
  const CatalogOp& op = catalog.ranks[0].steps[0].ops[0];
  EXPECT_EQ(op.op_name, "Default/net/Add-op0");
  ASSERT_THAT(op.tensors, SizeIs(2));
  CatalogTensor output = op.tensors[1];
  ASSERT_TRUE(Measurer().measure(catalog.ranks[0], output));
  EXPECT_EQ(output.statistics->max, 2);
}

TEST(ForeignCann, WithAHashForANameIsLookedUp) {
  const TemporaryDirectory dump;
  const std::filesystem::path step = std::filesystem::path(kTime) / "0" / "Net" / "0" / "0";
  dump.write(step / "12345678901234567890", add_one("Default/net/Add-op0"));
  dump.write(step / "mapping.csv", "12345678901234567890,Add.Default_net_Add-op0.5.2." + kStamp + "\n");
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.ranks.at(0).steps.at(0).ops, SizeIs(1));
  EXPECT_EQ(catalog.ranks[0].steps[0].ops[0].op_type, "Add");
}

TEST(ForeignCann, ThatIsDamagedIsAProblemAndTheRestIsThere) {
  const TemporaryDirectory dump;
  const std::filesystem::path step = std::filesystem::path(kTime) / "0" / "Net" / "0" / "0";
  dump.write(step / ("Add.a.1.0." + kStamp), add_one("a").substr(0, 40));
  dump.write(step / ("Add.b.2.0." + kStamp), add_one("b"));
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.problems, SizeIs(1));
  EXPECT_EQ(catalog.problems[0].path.filename(), "Add.a.1.0." + kStamp);
  EXPECT_THAT(catalog.problems[0].message, HasSubstr("byte 0 says that the header has"));
  EXPECT_THAT(catalog.ranks.at(0).steps.at(0).ops, SizeIs(1));
}

TEST(ForeignCann, TableOfAnOpGivesItsStatistics) {
  const TemporaryDirectory dump;
  const std::filesystem::path step = std::filesystem::path(kTime) / "0" / "Net" / "0" / "0";
  dump.write(step / ("Add.Default_Add-op0.5.2." + kStamp + ".csv"),
             "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count,Nan Count,"
             "Negative Inf Count,Positive Inf Count\n"
             "Input,0,24,DT_FLOAT,ND,2x3,2.5,-1,0.5,6,1,0,0\n"
             "Output,0,2,DT_BF16,NC1HWC0,-,,,,,,,\n");
  const Catalog catalog = opened(dump.path());
  EXPECT_THAT(catalog.problems, IsEmpty());
  const std::vector<CatalogTensor>& tensors = catalog.ranks.at(0).steps.at(0).ops.at(0).tensors;
  ASSERT_THAT(tensors, SizeIs(2));
  EXPECT_EQ(tensors[0].statistics->max, 2.5);
  EXPECT_EQ(tensors[0].statistics->nan_count, 1U);
  EXPECT_THAT(tensors[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(tensors[1].dtype, DType::bfloat16);
  EXPECT_FALSE(tensors[1].statistics->max);
}

TEST(OpTableReader, TakesRowsThatLackTheirCount) {
  const Result<StatisticTable> table = parse_op_table(
      "Input/Output,Index,Data Size,Data Type,Format,Shape,Count,Max Value,l2norm\n"
      "Input,0,4,UNKNOW,ND,1,NA,NA\n"
      "Output,1,4,DT_FLOAT,ND,NA,1,2,3\n"
      "Sideways,1,4,DT_FLOAT,ND,1,1,2,3\n",
      {"Add", "a", 0, 0, 7, true});
  ASSERT_TRUE(table);
  ASSERT_THAT(table->rows, SizeIs(2));
  EXPECT_FALSE(table->rows[0].statistics.count);
  EXPECT_EQ(table->rows[1].statistics.l2norm, 3);
  EXPECT_EQ(table->problem, "line 4: column 'Input/Output': found 'Sideways', expected Input or Output");
}

TEST(ForeignOld, OfVersionOneTwoIsReadFromItsNames) {
  const TemporaryDirectory dump;
  const std::filesystem::path step = "Net/device_2/iteration_4";
  dump.write(step / "Default--net--Add-op7_output_0_shape_1_Float32_DefaultFormat.bin", bytes_of({5}));
  dump.write(step / "conv.weight_output_0_shape_1_Float32_DefaultFormat.bin", bytes_of({6}));
  dump.write("Net/device_2/execution_order/ms_execution_order_graph_0.csv",
             "NodeExecutionOrder-FullNameWithScope\nDefault/net/Add-op7\n");
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.ranks, SizeIs(1));
  EXPECT_EQ(catalog.ranks[0].rank, 2U);
  const CatalogStep& found = catalog.ranks[0].steps.at(0);
  EXPECT_EQ(found.id, (StepId{0, 4}));
  ASSERT_THAT(found.ops, SizeIs(2));
  EXPECT_EQ(found.ops[0].op_name, "Default/net/Add-op7");
  EXPECT_TRUE(found.ops[1].is_parameter);
  CatalogTensor tensor = found.ops[0].tensors.at(0);
  ASSERT_TRUE(Measurer().measure(catalog.ranks[0], tensor));
  EXPECT_EQ(tensor.statistics->max, 5);
}

TEST(DumpTree, FindsRankAndStepInEveryTree) {
  const auto at = [](const std::string& directory) {
    const StepPlace place = place_of("/dump/" + directory, "/dump");
    return place.rank_directory.string() + " " + std::to_string(place.rank) + " " + std::to_string(place.step.graph) +
           "/" + std::to_string(place.step.number);
  };
  EXPECT_EQ(at("rank_3/Net/1/7"), "/dump/rank_3 3 1/7");
  EXPECT_EQ(at(kTime + "/2/Net/1/7"), "/dump/" + kTime + "/2 2 1/7");
  EXPECT_EQ(at(kTime + "/2"), "/dump/" + kTime + "/2 2 0/0");
  EXPECT_EQ(at(kTime + "/2/7"), "/dump/" + kTime + "/2 2 0/7");
  EXPECT_EQ(at("7/" + kTime + "/2/Net/1/0"), "/dump 2 1/7");
  EXPECT_EQ(at("worldsize8_global_rank5/" + kTime + "/2/graph_2/2/7"),
            "/dump/worldsize8_global_rank5/" + kTime + "/2 5 1/7");
  EXPECT_EQ(at("Net/device_2/iteration_7"), "/dump/Net/device_2 2 0/7");
  EXPECT_EQ(at("Net/device_2/graph_1/iteration_7"), "/dump/Net/device_2 2 1/7");
  EXPECT_EQ(at("device_2/Net_graph_1/1/7"), "/dump/device_2 2 1/7");
}

TEST(DumpTree, KnowsWhichPartOfARankIsMeant) {
  const auto part = [](const std::string& rank, const std::string& inside) {
    const StepFilter filter = filter_of(rank, inside);
    return (filter.graph ? std::to_string(*filter.graph) : "all") + "/" +
           (filter.number ? std::to_string(*filter.number) : "all");
  };
  EXPECT_EQ(part("/dump/rank_0", "Net/1"), "1/all");
  EXPECT_EQ(part("/dump/rank_0", "Net/1/7"), "1/7");
  EXPECT_EQ(part("/dump/Net/device_0", "graph_1"), "1/all");
  EXPECT_EQ(part("/dump/Net/device_0", "iteration_7"), "0/7");
  EXPECT_EQ(part("/dump/" + kTime + "/0", "graph_2"), "1/all");
  EXPECT_EQ(part("/dump/" + kTime + "/0", "graph_2/2/7"), "1/7");
  EXPECT_EQ(part("/dump", "7"), "all/7");
  EXPECT_EQ(part("/dump", "7/" + kTime + "/0/Net/1"), "1/7");
}

TEST(ForeignCann, OfTwoRunsIsNotTakenForOne) {
  const TemporaryDirectory dump;
  const std::string inside = "/0/Net/0/0/Add.a.1.0." + kStamp;
  dump.write(kTime + inside, add_one("a"));
  dump.write("20260102030406" + inside, add_one("a"));
  const Catalog both = opened(dump.path());
  ASSERT_THAT(both.ranks, SizeIs(2));
  EXPECT_EQ(both.ranks[0].dump, kTime);
  EXPECT_EQ(both.ranks[1].dump, "20260102030406");
  EXPECT_THAT(opened(dump.path() / kTime).ranks, SizeIs(1));
}

TEST(ForeignCann, OfRanksThatBeganInDifferentSecondsIsOneDump) {
  const TemporaryDirectory dump;
  dump.write(kTime + "/0/Net/0/0/Add.a.1.0." + kStamp, add_one("a"));
  dump.write("20260102030406/1/Net/0/0/Add.a.1.0." + kStamp, add_one("a"));
  EXPECT_THAT(opened(dump.path()).ranks, SizeIs(2));
}

// In o2 a journal is at the top; it must not hide files of another layout in the same directory.
TEST(DumpTree, OfO2DoesNotHideAnotherDump) {
  const TemporaryDirectory dump;
  JournalWriter journal;
  journal.run("{}");
  journal.end("{}");
  dump.write(".dump_metadata/device_0/sonde/journal", journal.buffer());
  dump.write("7/" + kTime + "/0/Net/0/0/Add.a.1.0." + kStamp, add_one("a"));
  EXPECT_TRUE(open_catalog(dump.path()));
  dump.write("rank_0/Net/0/0/Add.a.0.0.1.output.0.DefaultFormat.npy", npy("<f4", "(1,)", bytes_of({1})));
  const Catalog both = opened(dump.path());
  ASSERT_THAT(both.ranks, SizeIs(2));
  EXPECT_TRUE(both.ranks[0].has_journal);
  EXPECT_THAT(both.ranks[1].steps, SizeIs(1));
}

}  // namespace
}  // namespace sonde
