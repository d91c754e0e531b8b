// Tensors in files with free names, mixed trees, and files that must not be trusted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "dump/formats/container.h"
#include "dump/formats/file_names.h"
#include "dump/formats/free_names.h"
#include "dump_files.h"
#include "formats/torch_bytes.h"
#include "read/catalog/catalog.h"
#include "read/catalog/run_history.h"
#include "read/measure/measure.h"

namespace sonde {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

const std::string kNpy = npy("<f4", "(2,)", bytes_of({1, 2}));
const std::string kTensor = pickled_tensor("0", "FloatStorage", 2, 0, {2}, {1});
const std::string kPt = torch_file(kTensor, {{"0", bytes_of({1, 2})}});

// "name:slot" of all tensors of a step.
std::vector<std::string> tensors_of(const CatalogStep& step) {
  std::vector<std::string> out;
  for (const CatalogOp& op : step.ops) {
    for (const CatalogTensor& tensor : op.tensors) {
      out.push_back(std::string(op.op_name) + (tensor.is_input ? ":in" : ":out") + std::to_string(tensor.slot) +
                    (tensor.key.empty() ? "" : " " + std::string(tensor.key)));
    }
  }
  return out;
}

std::string problems_of(const Catalog& catalog) {
  std::string all;
  for (const CatalogProblem& problem : catalog.problems) {
    all += problem.path.filename().string() + ": " + problem.message + "\n";
  }
  return all;
}

TEST(LooseFiles, OfGoldenNamesAreOutputsOfOps) {
  const TemporaryDirectory dump;
  dump.write("conv1.0.1700000000000002.npy", kNpy);
  dump.write("conv1.1.1700000000000003.npy", kNpy);
  dump.write("layer1.bn.0.17.npy", kNpy);  // any number of digits
  Catalog catalog = opened(dump.path());
  EXPECT_THAT(problems_of(catalog), "");
  ASSERT_THAT(catalog.ranks, SizeIs(1));
  EXPECT_EQ(catalog.ranks[0].kind, DumpKind::files);
  EXPECT_THAT(tensors_of(catalog.ranks[0].steps.at(0)), ElementsAre("layer1.bn:out0", "conv1:out0", "conv1:out1"));
  CatalogTensor& tensor = catalog.ranks[0].steps[0].ops[0].tensors[0];
  ASSERT_TRUE(Measurer().measure(catalog.ranks[0], tensor));
  EXPECT_EQ(tensor.statistics->max, 2.0);
}

TEST(LooseFiles, OfFreeNamesAreCalledByTheirPaths) {
  const TemporaryDirectory dump;
  dump.write("layer10/conv.npy", kNpy);
  dump.write("layer2/conv.npy", kNpy);
  dump.write("weights.pt", torch_file("}(" + pickled_text("w") + kTensor + pickled_text("b") + kTensor + "u",
                                      {{"0", bytes_of({1, 2})}}));
  const Catalog catalog = opened(dump.path());
  EXPECT_THAT(tensors_of(catalog.ranks.at(0).steps.at(0)),
              ElementsAre("layer2/conv:out0", "layer10/conv:out0", "weights:out0 w", "weights:out1 b"));
}

TEST(LooseFiles, HaveStepsAndRanksFromDirectoriesThatSaySo) {
  const TemporaryDirectory dump;
  for (const char* name : {"rank_0/step_3/conv.npy", "rank_1/step_3/conv.npy", "rank_1/step_4/a/0/conv.npy"}) {
    dump.write(name, kNpy);
  }
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.ranks, SizeIs(2));
  ASSERT_THAT(catalog.ranks[1].steps, SizeIs(2));
  EXPECT_EQ(catalog.ranks[1].steps[1].id.number, 4);
  EXPECT_THAT(tensors_of(catalog.ranks[1].steps[1]), ElementsAre("a/0/conv:out0"));
}

TEST(LooseFiles, OfTorchAirAreNamedByTheirNodes) {
  const TemporaryDirectory dump;
  const std::string eager = "worldsize1_global_rank0/graph_1/0/";
  dump.write(eager + "cat-aten.cat.default.INPUT.0.0.17.npy", kNpy);
  dump.write(eager + "cat-aten.cat.default.INPUT.0.1.18.npy", kNpy);
  dump.write(eager + "cat-aten.cat.default.INPUT.1.19.npy", kNpy);
  dump.write(eager + "cat-aten.cat.default.OUTPUT.0.20251017071211190258.npy", kNpy);
  const Catalog catalog = opened(dump.path());
  EXPECT_THAT(problems_of(catalog), "");
  EXPECT_THAT(tensors_of(catalog.ranks.at(0).steps.at(0)),
              ElementsAre("cat-aten.cat.default:in0 0.0", "cat-aten.cat.default:in1 0.1", "cat-aten.cat.default:in2 1",
                          "cat-aten.cat.default:out0"));
  EXPECT_EQ(catalog.ranks[0].steps[0].ops[0].op_type, "aten.cat.default");
  EXPECT_EQ(catalog.ranks[0].steps[0].ops[0].tensors.at(3).timestamp_us, 1760685131190258U);
  const TemporaryDirectory captured;
  captured.write("worldsize2_global_rank1/add_1_device_1_0.pt", kPt);
  captured.write("worldsize2_global_rank1/add_1_device_1_1.pt", kPt);
  const Catalog steps = opened(captured.path());
  EXPECT_EQ(steps.ranks.at(0).rank, 1);
  EXPECT_THAT(steps.ranks[0].steps, SizeIs(2));
}

TEST(LooseFiles, OfAtbAreRead) {
  const TemporaryDirectory dump;
  const std::string header = "$Version=1.0\n$Object.Count=1\nformat=2\ndtype=0\ndims=1,2\n$End=1\n";
  dump.write("tensors/0_123/0/3_LinearOperation/before/intensor0.bin", header + bytes_of({1, 2}));
  dump.write("tensors/0_123/0/3_LinearOperation/after/outtensor0.bin", header + bytes_of({3, 4}));
  dump.write("tensors/0_123/0/4_Add/after/outtensor0.bin", header + "short");
  Catalog catalog = opened(dump.path());
  CatalogStep& step = catalog.ranks.at(0).steps.at(0);
  EXPECT_THAT(tensors_of(step), ElementsAre("tensors/0_123/0/3_LinearOperation:in0",
                                            "tensors/0_123/0/3_LinearOperation:out0", "tensors/0_123/0/4_Add:out0"));
  EXPECT_EQ(step.ops[0].op_type, "LinearOperation");
  Measurer measurer;
  ASSERT_TRUE(measurer.measure(catalog.ranks[0], step.ops[0].tensors[0]));
  EXPECT_THAT(measurer.measure(catalog.ranks[0], step.ops[1].tensors[0]).error().message,
              HasSubstr("5 bytes follow the header; (1,2) of float32 need 8"));
}

TEST(Names, OfConvertedContainersAndExceptionsAreTakenApart) {
  TensorFileName name;
  ASSERT_TRUE(parse_tensor_file_name("Add.Default_Add-op1.7.3.1700000000000001.output.0.npy", name));
  EXPECT_EQ(name.op_name, "Default_Add-op1");
  EXPECT_EQ(name.format, "");
  ASSERT_TRUE(parse_tensor_file_name("Add.a_b.7.3.1700000000000001.4.1.2.0.input.1.NCHW.npy", name));
  EXPECT_EQ(name.op_name, "a_b");
  EXPECT_EQ(name.task_id, 7);
  ASSERT_TRUE(parse_tensor_file_name("Default_Add-op1.Add.7.3.17.output.0.ND.npy", name));  // the other way round
  EXPECT_EQ(name.op_type, "Add");
  OpFileName op;
  ASSERT_TRUE(parse_op_file_name("exception_info.5.9.1700000000000001", op));
  EXPECT_EQ(op.task_id, 9);
  EXPECT_FALSE(parse_op_file_name("libfoo.so.1.2.3", op));
  EXPECT_TRUE(parse_op_file_name("Add.Default_Add-op1.7.3.17", op, true));
}

TEST(MixedTree, ShowsEveryDumpInIt) {
  const TemporaryDirectory tree;
  tree.write("a/rank_2/Net/0/5/Add.Default_Add-op0.0.0.17.output.0.DefaultFormat.Float32.npy", kNpy);
  tree.write("b/step0/rank1/dump.json",
             R"({"data": {"Torch.a.0.forward": {"output": [{"type": "t", "dtype": "torch.float32", "shape": []}]}}})");
  tree.write("golden/conv.0.17.npy", kNpy);
  tree.write("checkpoint.pt", kPt);  // with a name of its own: not part of a dump
  const Catalog catalog = opened(tree.path());
  std::vector<std::string> found;
  for (const CatalogRank& rank : catalog.ranks) found.push_back(std::to_string(rank.rank) + " " + rank.dump);
  EXPECT_THAT(found, UnorderedElementsAre("2 a", "1 b", "0 ."));
  EXPECT_THAT(tensors_of(catalog.ranks[0].steps.at(0)), ElementsAre("golden/conv:out0"));
}

TEST(HostileTree, CostsOneProblemPerBadFileAndNeverWaits) {
  const TemporaryDirectory dump, outside;
  const std::string step = "rank_0/Net/0/0/";
  dump.write(step + "Add.good.0.0.1.output.0.DefaultFormat.npy", kNpy);
  outside.write("secret.npy", kNpy);
  const std::filesystem::path at = dump.path() / step;
  const auto named = [&](const char* op) {
    return at / (std::string("Add.") + op + ".0.0.2.output.0.DefaultFormat.npy");
  };
  ASSERT_EQ(::mkfifo(named("pipe").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((at / "statistic.csv").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((at / "mapping.csv").c_str(), 0600), 0);
  std::filesystem::create_symlink(outside.path() / "secret.npy", named("link"));
  std::filesystem::create_symlink(named("loop"), named("loop"));
  std::filesystem::create_directory_symlink("..", at / "above");
  Catalog catalog = opened(dump.path());
  EXPECT_THAT(tensors_of(catalog.ranks.at(0).steps.at(0)), ElementsAre("good:out0"));
  const std::string all = problems_of(catalog);
  EXPECT_THAT(all, HasSubstr("Add.pipe.0.0.2.output.0.DefaultFormat.npy: it is not a regular file"));
  EXPECT_THAT(all, HasSubstr("Add.link.0.0.2.output.0.DefaultFormat.npy: a symbolic link that leaves the dump"));
  EXPECT_THAT(all, HasSubstr("Add.loop.0.0.2.output.0.DefaultFormat.npy: a symbolic link that leads nowhere"));
  EXPECT_THAT(all, HasSubstr("above: a symbolic link to a directory"));
  EXPECT_THAT(all, HasSubstr("statistic.csv: "));
  EXPECT_THAT(all, HasSubstr("mapping.csv: "));
}

TEST(HostileTree, WithAHistoryThatNeverEndsHasNone) {
  const TemporaryDirectory dump;
  for (const char* step : {"3", "9"}) {
    dump.write(std::string("rank_0/Net/0/") + step + "/Add.good.0.0.1.output.0.DefaultFormat.npy", kNpy);
  }
  dump.write("rank_0/execution_order/ms_global_execution_order_graph_0.csv", "3\n5\n9\n");
  const std::filesystem::path history = dump.path() / "rank_0/execution_order/ms_global_execution_order_graph_0.csv";
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.ranks.at(0).steps, SizeIs(2));
  EXPECT_EQ(RunHistory(catalog.ranks[0]).before(1).number, 5);
  std::filesystem::resize_file(history, 65 << 20);
  EXPECT_FALSE(RunHistory(catalog.ranks[0]).before(1).from_history);
}

TEST(HostileTree, OfPtFilesKeepsTheGoodOnes) {
  const TemporaryDirectory dump;
  dump.write("good.pt", kPt);
  dump.write("calls.pt", torch_file(pickled_global("os", "system") + "(" + pickled_text("ls") + "tR", {}));
  dump.write("cut.pt", kPt.substr(0, kPt.size() / 2));
  dump.write("empty.pt", "");
  ASSERT_EQ(::mkfifo((dump.path() / "pipe.pt").c_str(), 0600), 0);
  const Catalog catalog = opened(dump.path());
  EXPECT_THAT(tensors_of(catalog.ranks.at(0).steps.at(0)), ElementsAre("good:out0"));
  EXPECT_THAT(catalog.problems, SizeIs(4));
  EXPECT_THAT(problems_of(catalog), HasSubstr("calls os.system"));
}

TEST(MappingCsv, WithAHeaderIsReadAndPathsInItAreNot) {
  const TemporaryDirectory dump;
  const std::string step = "rank_0/Net/0/0/";
  dump.write(step + "123.npy", kNpy);
  dump.write(step + "456.npy", kNpy);
  dump.write(step + "mapping.csv",
             "hash,name\n123.npy,Add.a.0.0.17.output.0.DefaultFormat.npy\r\n456.npy,../../x.npy\n");
  const Catalog catalog = opened(dump.path());
  EXPECT_THAT(tensors_of(catalog.ranks.at(0).steps.at(0)), UnorderedElementsAre("a:out0", "456:out0"));
  EXPECT_THAT(problems_of(catalog), HasSubstr("mapping.csv: line 3"));
}

}  // namespace
}  // namespace sonde
