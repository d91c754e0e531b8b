// Dumps that MindSpore wrote: no journal, only names and tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dump_files.h"
#include "read/catalog/catalog.h"

namespace sonde {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::string kOneNumber = npy("<f4", "(1,)", bytes_of({1}));

TEST(ForeignDump, OfTwoPointSevenIsReadFromFileNames) {
  const TemporaryDirectory dump;
  const std::filesystem::path step = "rank_3/Net/0/7";
  dump.write(step / "Add.Default_net_Add-op0.0.0.1001.input.0.DefaultFormat.Float32.npy", kOneNumber);
  dump.write(step / "Add.Default_net_Add-op0.0.0.1003.output.0.DefaultFormat.Float32.npy", kOneNumber);
  dump.write(step / "Add.Default_net_Add-op0.0.0.1002.input.1.DefaultFormat.BFloat16.npy", kOneNumber);
  dump.write(step / "ReLU.Default_ReLU-op0.0.0.1004.output.0.DefaultFormat.Float32.npy", kOneNumber);
  dump.write(step / "Parameter.conv1_weight.0.0.1009.output.0.DefaultFormat.Float32.npy", kOneNumber);
  dump.write("rank_3/execution_order/ms_execution_order_graph_0.csv",
             "NodeExecutionOrder-FullNameWithScope\nDefault/net/Add-op0\nDefault/ReLU-op0\n");
  const Catalog catalog = opened(dump.path());
  EXPECT_THAT(catalog.problems, IsEmpty());
  ASSERT_THAT(catalog.ranks, SizeIs(1));
  EXPECT_EQ(catalog.ranks[0].rank, 3);
  ASSERT_THAT(catalog.ranks[0].steps, SizeIs(1));
  const CatalogStep& found = catalog.ranks[0].steps[0];
  EXPECT_EQ(found.id, (StepId{0, 7}));
  EXPECT_THAT(names_of(found), ElementsAre("Default/net/Add-op0", "Default/ReLU-op0", "conv1_weight"));
  EXPECT_TRUE(found.ops[2].is_parameter);
  ASSERT_THAT(found.ops[0].tensors, SizeIs(3));
  EXPECT_TRUE(found.ops[0].tensors[0].is_input);
  EXPECT_EQ(found.ops[0].tensors[1].slot, 1);
  EXPECT_EQ(found.ops[0].tensors[1].dtype, DType::bfloat16);
  EXPECT_FALSE(found.ops[0].tensors[2].is_input);
}

TEST(ForeignDump, OfTwoPointZeroIsReadToo) {
  const TemporaryDirectory dump;
  const std::filesystem::path step = "rank_0/Net/1/0";
  dump.write(step / "Conv2D.Conv2D-op77.0.0.1001.output.0.DefaultFormat.npy", kOneNumber);
  dump.write(step / "Parameter.moments.conv1.weight.0.0.1002.output.0.DefaultFormat.npy", kOneNumber);
  dump.write("rank_0/Net/1/constants/Parameter.data-0.0.0.1.output.0.DefaultFormat.npy", kOneNumber);
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.ranks.at(0).steps, SizeIs(1));
  EXPECT_THAT(names_of(catalog.ranks[0].steps[0]), ElementsAre("Conv2D-op77", "moments.conv1.weight", "data-0"));
  EXPECT_EQ(catalog.ranks[0].steps[0].ops[0].tensors[0].dtype, DType::undefined);
  EXPECT_EQ(catalog.ranks[0].steps[0].ops[2].tensors[0].file,
            "Net/1/constants/Parameter.data-0.0.0.1.output.0.DefaultFormat.npy");
}

TEST(ForeignDump, OfTwoPointZeroGetsItsScopesFromTheExecutionOrder) {
  const TemporaryDirectory dump;
  const std::filesystem::path step = "rank_0/Net/0/0";
  for (const char* op :
       {"Conv2D.Conv2D-op77", "ReluGrad.ReluGrad-op80", "Add.Add-op0", "Mul.Mul-op99", "Parameter.Conv2D-op77"}) {
    dump.write(step / (std::string(op) + ".0.0.1001.output.0.DefaultFormat.npy"), kOneNumber);
  }
  dump.write("rank_0/execution_order/ms_execution_order_graph_0.csv",
             "NodeExecutionOrder-FullNameWithScope\nDefault/net-Net/Conv2D-op77\n"
             "Gradients/Default/net-Net/gradReLU/ReluGrad-op80\nDefault/a/Add-op0\nDefault/b/Add-op0\n");
  dump.write("rank_0/graphs/step_3/ms_execution_order_graph_0.csv",
             "NodeExecutionOrder-FullNameWithScope\nDefault/net-Net/Conv2D-op77\nDefault/later/Mul-op99\n");
  const Catalog catalog = opened(dump.path());
  const CatalogStep& found = catalog.ranks.at(0).steps.at(0);
  EXPECT_THAT(names_of(found), testing::UnorderedElementsAre("Default/net-Net/Conv2D-op77",
                                                             "Gradients/Default/net-Net/gradReLU/ReluGrad-op80",
                                                             "Add-op0", "Default/later/Mul-op99", "Conv2D-op77"));
  for (const CatalogOp& op : found.ops) {
    EXPECT_EQ(op.phase == Phase::backward, op.op_type == "ReluGrad") << op.op_name;
  }
}

TEST(ForeignDump, ConstantsOfAGraphJoinItsFirstStep) {
  const TemporaryDirectory dump;
  const std::string tensor = "Add.Add-op1.0.0.1001.output.0.DefaultFormat.npy";
  for (const char* step : {"10", "9"}) dump.write(std::filesystem::path("rank_0/Net/0") / step / tensor, kOneNumber);
  dump.write("rank_0/Net/1/9/" + tensor, kOneNumber);
  dump.write("rank_0/Net/0/constants/Parameter.data-0.0.0.1.output.0.DefaultFormat.npy", kOneNumber);
  dump.write("rank_0/Net/0/constants/statistic.csv",
             "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value\n"
             "Parameter,data-0,0,0,1,output,0,4,float32,\"(1)\",2.5\n");
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.ranks.at(0).steps, SizeIs(3));
  const auto& steps = catalog.ranks[0].steps;
  EXPECT_THAT(names_of(steps[0]), ElementsAre("Add-op1", "data-0"));  // graph 0, step 9
  EXPECT_THAT(steps[0].ops[1].tensors, SizeIs(1));
  EXPECT_EQ(steps[0].ops[1].tensors[0].statistics->max, 2.5);
  EXPECT_THAT(names_of(steps[1]), ElementsAre("Add-op1"));
  EXPECT_THAT(names_of(steps[2]), ElementsAre("Add-op1"));
  EXPECT_THAT(names_of(opened(dump.path() / "rank_0/Net/0/9").ranks.at(0).steps.at(0)), ElementsAre("Add-op1"));
}

TEST(ForeignDump, JoinsRowsOfTheTableToFiles) {
  const TemporaryDirectory dump;
  const std::filesystem::path step = "rank_0/Net/0/0";
  dump.write(step / "statistic.csv",
             "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value\n"
             "Mul,Default/Mul-op0,0,0,1005,output,0,4,float32,\"[1]\",2.5,\n"
             "Add,Default/Add-op0,0,0,1001,output,0,4,float32,\"[1]\",1,\n");
  dump.write(step / "Add.Default_Add-op0.0.0.1001.output.0.DefaultFormat.Float32.npy", kOneNumber);
  const Catalog catalog = opened(dump.path());
  const CatalogStep& found = catalog.ranks.at(0).steps.at(0);
  EXPECT_THAT(names_of(found), ElementsAre("Default/Mul-op0", "Default/Add-op0"));  // the table's order
  EXPECT_EQ(found.ops[0].tensors[0].file, "");
  EXPECT_EQ(found.ops[0].tensors[0].statistics->max, 2.5);
  ASSERT_THAT(found.ops[1].tensors, SizeIs(1));
  EXPECT_THAT(found.ops[1].tensors[0].file, HasSubstr("Net/0/0/Add.Default_Add-op0"));
}

TEST(ForeignDump, KeepsTwoRunsOfAnOpInOneStepApart) {
  const TemporaryDirectory dump;
  const std::filesystem::path step = "rank_0/Net/0/0";
  for (const char* time : {"1001", "2001"}) {
    dump.write(step / ("Add.Default_Add-op0.0.0." + std::string(time) + ".output.0.DefaultFormat.Float32.npy"),
               kOneNumber);
  }
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.ranks.at(0).steps.at(0).ops, SizeIs(2));
  EXPECT_EQ(catalog.ranks[0].steps[0].ops[0].tensors[0].timestamp_us, 1001);
  EXPECT_EQ(catalog.ranks[0].steps[0].ops[1].tensors[0].timestamp_us, 2001);
}

TEST(ForeignDump, FindsLongNamesThroughTheirMapping) {
  const TemporaryDirectory dump;
  dump.write("rank_0/Net/0/0/93028471.npy", kOneNumber);
  dump.write("rank_0/Net/0/0/mapping.csv",
             "93028471.npy,Add.Default_long_Add-op0.0.0.1001.output.0.DefaultFormat.Float32.npy\n");
  const Catalog catalog = opened(dump.path());
  const CatalogStep& step = catalog.ranks.at(0).steps.at(0);
  EXPECT_THAT(names_of(step), ElementsAre("Default_long_Add-op0"));
  EXPECT_EQ(step.ops[0].tensors[0].file, "Net/0/0/93028471.npy");
}

TEST(ForeignDump, ABadTableCostsOneProblem) {
  const TemporaryDirectory dump;
  dump.write("rank_0/Net/0/0/statistic.csv", "garbage\nmore garbage\n");
  dump.write("rank_0/Net/0/1/Add.Default_Add-op0.0.0.1.output.0.DefaultFormat.Float32.npy", kOneNumber);
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.problems, SizeIs(1));
  EXPECT_THAT(catalog.problems[0].path.string(), HasSubstr("Net/0/0/statistic.csv"));
  EXPECT_THAT(catalog.ranks.at(0).steps, SizeIs(2));
}

TEST(ForeignDump, CanBeOpenedAtAnyLevel) {
  const TemporaryDirectory dump;
  for (const char* step : {"0", "1"}) {
    dump.write(
        std::filesystem::path("rank_5/Net/0") / step / "Add.Default_Add-op0.0.0.1.output.0.DefaultFormat.Float32.npy",
        kOneNumber);
  }
  EXPECT_THAT(opened(dump.path() / "rank_5").ranks.at(0).steps, SizeIs(2));
  const Catalog step = opened(dump.path() / "rank_5/Net/0/1");
  EXPECT_EQ(step.ranks.at(0).rank, 5);
  ASSERT_THAT(step.ranks[0].steps, SizeIs(1));
  EXPECT_EQ(step.ranks[0].steps[0].id.number, 1);
}

}  // namespace
}  // namespace sonde
