// The files beside the tensors of an op: tables, overflow records, arguments; and the containers of a run.
#include "record/writer/op_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "dump/formats/tensor_file.h"
#include "dump_fixture.h"
#include "record/writer/container_file.h"

namespace sonde {
namespace {

using test::kStep;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

const std::vector<Category> kDefault = {
    Category::positive_inf_count, Category::max, Category::min, Category::avg, Category::nan_count,
    Category::negative_inf_count};

TensorRecord measured(DType dtype, std::vector<std::int64_t> shape, Statistics statistics) {
  TensorRecord tensor;
  tensor.dtype = dtype;
  tensor.shape = Dims(shape);
  tensor.content = 1;
  tensor.has_statistics = true;
  tensor.statistics = statistics;
  return tensor;
}

std::string row(const TensorRecord& tensor, const std::vector<Category>& columns, bool quirks = false) {
  std::string text;
  OpTableForm(columns, quirks).append_row(tensor, text);
  return text;
}

TEST(OpTable, HasTheHeaderOfTheDefaultColumnsInWhateverOrderTheyAreAskedFor) {
  const std::string front = "Input/Output,Index,Data Size,Data Type,Format,Shape,";
  EXPECT_EQ(OpTableForm(kDefault, false).header(),
            front + "Max Value,Min Value,Avg Value,Count,Nan Count,Negative Inf Count,Positive Inf Count\n");
  const std::vector<Category> chosen = {Category::l2norm, Category::min};
  EXPECT_EQ(OpTableForm(chosen, false).header(), front + "Count,Min Value,l2norm\n");
}

TEST(OpTable, WritesRowsAsCannDoes) {
  Statistics of;
  of.count = 6;
  of.max = 1234567;
  of.min = -2.5;
  of.sum = 2;
  TensorRecord tensor = measured(DType::float32, {2, 3}, of);
  tensor.is_input = true;
  tensor.slot = 3;
  EXPECT_EQ(row(tensor, kDefault), "Input,3,24,DT_FLOAT,ND,2x3,1.23457e+06,-2.5,0.333333,6,0,0,0\n");
  tensor.is_input = false;
  tensor.dtype = DType::int32;
  tensor.shape = Dims();
  EXPECT_EQ(row(tensor, {Category::max}), "Output,3,4,DT_INT32,ND,-,1,1234567\n");
  const std::vector<std::int64_t> image = {1, 2, 3, 4};
  tensor.shape = Dims(image);
  tensor.format = Format::nhwc;
  EXPECT_THAT(row(tensor, kDefault), HasSubstr(",DT_INT32,NHWC,1x2x3x4,"));
}

TEST(OpTable, LeavesNaNOutOfTheExtremesUnlessQuirksAreAskedFor) {
  Statistics of;
  of.count = 4;
  of.nan_count = 1;
  of.positive_inf_count = 1;
  of.min = 1;
  of.max = 2;
  of.first_is_nan = true;
  const TensorRecord tensor = measured(DType::float16, {4}, of);
  EXPECT_EQ(row(tensor, kDefault), "Output,0,8,DT_FLOAT16,ND,4,inf,1,nan,4,1,0,1\n");
  EXPECT_EQ(row(tensor, kDefault, true), "Output,0,8,DT_FLOAT16,ND,4,nan,nan,nan,4,1,0,1\n");
}

TEST(OpTable, SaysNAWhereNothingCanBeComputed) {
  TensorRecord tensor = measured(DType::complex64, {2}, {});
  tensor.has_statistics = false;
  EXPECT_EQ(row(tensor, kDefault), "Output,0,16,DT_COMPLEX64,ND,2,NA,NA,NA,2,NA,NA,NA\n");
  EXPECT_EQ(row(tensor, {Category::max}), "Output,0,16,DT_COMPLEX64,ND,2,2,NA\n");
  // CANN's own writer omits a cell here.
  EXPECT_EQ(row(tensor, {Category::max}, true), "Output,0,16,DT_COMPLEX64,ND,2,NA\n");
}

TEST(OpTable, OfATypeThatCannDoesNotHaveSaysSo) {
  Statistics of;
  of.count = 1;
  of.max = of.min = 3e10;
  EXPECT_THAT(row(measured(DType::float8_e4m3fnuz, {1}, of), kDefault), HasSubstr(",UNKNOWN,"));
  EXPECT_THAT(row(measured(DType::float8_e4m3fnuz, {1}, of), kDefault, true), HasSubstr(",UNKNOW,"));
  EXPECT_THAT(row(measured(DType::float64, {1}, of), {Category::max}), HasSubstr(",3e+10\n"));
  EXPECT_THAT(row(measured(DType::float64, {1}, of), {Category::max}, true), HasSubstr(",-2147483648\n"));
}

TEST(KernelArguments, AreTextsByName) {
  Attribute stride{"stride", AttributeKind::integers, {1, 2}, {}, ""};
  Attribute ceil_mode{"ceil_mode", AttributeKind::boolean, {0}, {}, ""};
  Attribute alpha{"alpha", AttributeKind::real, {}, {0.5}, ""};
  EXPECT_EQ(kernel_arguments_json({stride, ceil_mode, alpha}),
            "{\n    \"alpha\": \"0.5\",\n    \"ceil_mode\": \"False\",\n    \"stride\": \"[1, 2]\"\n}");
  EXPECT_EQ(kernel_arguments_json({}), "null");
  EXPECT_EQ(kernel_arguments_name("Default/network-Net/a.b-C/conv2d-op0"),
            "conv2d.Default_network-Net_a_b-C_conv2d-op0.json");
}

// --- the files of a run ----------------------------------------------------------------------------------------------

struct Runs : testing::Test {
  test::TemporaryDirectory directory;
  Plan plan = test::plan_for(directory.path() / "dump", SavedData::tensor);
  std::string attributes;

  void use(LayoutKind kind) {
    plan.sonde.layout = kind;
    plan.sonde.version = info(kind).release;
  }
  // Names of the files outside .dump_metadata, times as T; of those that end with `end`.
  std::vector<std::string> files(const std::string& end = "") {
    std::vector<std::string> names;
    for (const std::string& name : test::files_below(plan.path)) {
      if (name.find(".dump_metadata") != std::string::npos || !name.ends_with(end)) continue;
      names.push_back(std::regex_replace(name, std::regex("(^|[/.])[0-9]{14,16}(?=[/.]|$)"), "$1T"));
    }
    return names;
  }
  std::filesystem::path path(const std::string& end) {
    for (const std::string& name : test::files_below(plan.path)) {
      if (name.ends_with(end) && name.find(".dump_metadata") == std::string::npos) return plan.path / name;
    }
    return {};
  }
  // One op with two inputs that are equal and an output.
  Record add(test::Host& host, const std::string& name = "Default/network-Net/add-op0") {
    TensorRecord left = host.tensor({1, 2}, 1), right = host.tensor({1, 2}, 1), sum = host.tensor({2, 4}, 2);
    left.is_input = right.is_input = true;
    right.slot = 2;  // slot 1 is None
    Record record = host.record(host.op(name), kStep, std::move(left), std::move(right), std::move(sum));
    record.task_id = 65536 + 7;
    return record;
  }
  void run(bool overflowed = false, const Attributes& arguments = {}) {
    test::Host host(plan);
    ASSERT_TRUE(host.is_open()) << host.refused().message;
    host.begin(kStep);
    if (arguments.id != 0) host->define(arguments);
    Record record = add(host);
    record.overflowed = overflowed;
    record.attributes = arguments.id;
    host->push(std::move(record));
    host.end(kStep);
    host->finish();
    ASSERT_FALSE(host->error()) << host->error()->message;
  }
};
using WholeOps = Runs;
using OverflowRecords = Runs;
using SideFiles = Runs;

TEST_F(WholeOps, LieInOneFileWithEmptyPlacesForMissingSlots) {
  use(LayoutKind::acl);
  run();
  EXPECT_THAT(files(), ElementsAre("T/0/Net/0/0/add.Default_network-Net_add-op0.7.0.T"));
  const std::vector<std::string> all = test::files_below(plan.path);
  const auto name =
      std::ranges::find_if(all, [](const std::string& n) { return n.find("/add.") != std::string::npos; });
  const Result<Container> container = read_container(plan.path / *name);
  ASSERT_TRUE(container) << container.error().message;
  EXPECT_EQ(container->op_name, "Default/network-Net/add-op0");
  ASSERT_THAT(container->inputs, SizeIs(3));
  EXPECT_EQ(container->inputs[1].data_type, 0);
  EXPECT_EQ(container->inputs[1].bytes, 0U);
  for (const std::uint32_t slot : {0U, 2U}) {
    const Result<TensorFile> read = TensorFile::open(plan.path / *name, {.is_input = true, .slot = slot});
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(summarize(read->view()).sum, 3);
  }
  EXPECT_EQ(test::mode_of(plan.path / *name), 0400U);
}

TEST_F(WholeOps, OutsideModulesLieInTheDirectoryOfTheDevice) {
  use(LayoutKind::acl);
  test::Host host(plan);
  host.begin(kStep);
  host->push(add(host, "Default/add-op0"));
  host.end(kStep);
  host->finish();
  EXPECT_THAT(files(), ElementsAre("T/0/add.Default_add-op0.7.0.T"));
}

TEST_F(WholeOps, WhoseNameIsTakenMoveOnInTime) {
  use(LayoutKind::mindspore_1_2_async);
  plan.file_format = FileFormat::bin;
  run();
  run();  // the same op at the same microsecond
  EXPECT_THAT(files("T"), SizeIs(0));
  std::size_t containers = 0;
  for (const std::string& name : files()) containers += name.starts_with("device_0/Net_graph_0/0/0/add.");
  EXPECT_EQ(containers, 2U);
}

TEST_F(WholeOps, WithLongNamesAreCalledByAHash) {
  use(LayoutKind::acl);
  const std::string name = "Default/network-Net/" + std::string(300, 'x') + "/add-op0";
  test::Host host(plan);
  host.begin(kStep);
  host->push(add(host, name));
  host.end(kStep);
  host->finish();
  const std::string mapping = test::read_text(path("mapping.csv"));
  EXPECT_TRUE(
      std::regex_match(mapping, std::regex("[0-9]+,add\\.Default_network-Net_x{300}_add-op0\\.7\\.0\\.[0-9]{16}\n")))
      << mapping;
  EXPECT_TRUE(std::filesystem::exists(path("mapping.csv").parent_path() / mapping.substr(0, mapping.find(','))));
}

// An op whose output comes after its record is on disk.
void run_collective(Runs& runs, test::Host& host) {
  host.begin(kStep);
  Record begun = runs.add(host);
  Record rest;
  rest.op = begun.op;
  rest.step = begun.step;
  rest.sequence = begun.sequence;
  rest.task_id = begun.task_id;
  rest.timestamp_us = begun.timestamp_us;
  rest.completes = true;
  rest.tensors.push_back(std::move(begun.tensors.back()));
  begun.tensors.pop_back();
  for (TensorRecord& tensor : begun.tensors) tensor.timestamp_us = begun.timestamp_us;
  rest.tensors[0].timestamp_us = begun.timestamp_us;
  host->push(std::move(begun));
  host->flush();
  host->push(std::move(rest));
  host.end(kStep);
  host->finish();
  ASSERT_FALSE(host->error()) << host->error()->message;
}

TEST_F(WholeOps, OfACollectiveAreTwoFiles) {
  use(LayoutKind::acl);
  test::Host host(plan);
  run_collective(*this, host);
  EXPECT_THAT(files(), ElementsAre("T/0/Net/0/0/add.Default_network-Net_add-op0.7.0.T",
                                   "T/0/Net/0/0/add.Default_network-Net_add-op0.7.0.T"));
}

TEST_F(WholeOps, OfACollectiveHaveOneTableThatGrows) {
  use(LayoutKind::acl);
  plan.saved_data = SavedData::statistic;
  plan.statistic_category = {Category::max};
  test::Host host(plan);
  run_collective(*this, host);
  EXPECT_THAT(files(), ElementsAre("T/0/Net/0/0/add.Default_network-Net_add-op0.7.0.T.csv"));
  EXPECT_EQ(test::read_text(path(".csv")),
            "Input/Output,Index,Data Size,Data Type,Format,Shape,Count,Max Value\n"
            "Input,0,8,DT_FLOAT,ND,2,2,1\nInput,2,8,DT_FLOAT,ND,2,2,1\nOutput,0,8,DT_FLOAT,ND,2,2,2\n");
}

TEST_F(OverflowRecords, LieBesideContainers) {
  use(LayoutKind::acl);
  run(true);
  EXPECT_THAT(files(), ElementsAre("T/0/Net/0/0/Opdebug.Node_OpDebug.7.0.T",
                                   "T/0/Net/0/0/add.Default_network-Net_add-op0.7.0.T"));
  const std::vector<std::string> all = test::files_below(plan.path);
  const auto name =
      std::ranges::find_if(all, [](const std::string& n) { return n.find("Opdebug") != std::string::npos; });
  const Result<TensorFile> read = TensorFile::open(plan.path / *name);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->view().elements(), 2048);
  const auto* words = reinterpret_cast<const std::uint8_t*>(read->view().data);
  EXPECT_EQ(words[256 + 16], 7);      // task_id
  EXPECT_EQ(words[1024 + 16], 0x20);  // status
}

TEST_F(OverflowRecords, AreJsonBesideNpyFilesOfCann) {
  use(LayoutKind::o2);
  run(true);
  const std::string json = test::read_text(path(".output.0.json"));
  EXPECT_EQ(
      json,
      R"({"AI Core":{"block_idx":0,"kernel_code":"0x0","model_id":0,"para_base":"0x0","pc_start":"0x0",)"
      R"("status":32,"stream_id":0,"task_id":7,"task_type":0},)"
      R"("DHA Atomic Add":{"model_id":0,"para_base":"0x0","pc_start":"0x0","status":0,"stream_id":0,"task_id":0,"task_type":0},)"
      R"("L2 Atomic Add":{"model_id":0,"para_base":"0x0","pc_start":"0x0","status":0,"stream_id":0,"task_id":0,"task_type":0}})");
}

TEST_F(OverflowRecords, AreNoneInMindSporesOwnTrees) {
  run(true);
  for (const std::string& name : files()) EXPECT_EQ(name.find("Opdebug"), std::string::npos) << name;
}

TEST_F(SideFiles, HoldTheArgumentsOfSelectedOps) {
  plan.save_kernel_args = true;
  run(false, {5, {{"alpha", AttributeKind::real, {}, {0.5}, ""}}});
  EXPECT_THAT(files("json"), ElementsAre("rank_0/Net/0/0/add.Default_network-Net_add-op0.json"));
  EXPECT_EQ(test::read_text(path("add-op0.json")), "{\n    \"alpha\": \"0.5\"\n}");
}

TEST_F(SideFiles, OfVersionOneTwoHaveTheConfigurationAtTheTop) {
  use(LayoutKind::mindspore_1_2);
  run();
  EXPECT_EQ(test::read_text(plan.path / ".metadata/data_dump.json"), plan.source_text);
  EXPECT_THAT(
      files("bin"),
      ElementsAre("Net/device_0/iteration_0/Default--network-Net--add-op0_input_0_shape_2_Float32_DefaultFormat.bin",
                  "Net/device_0/iteration_0/Default--network-Net--add-op0_input_2_shape_2_Float32_DefaultFormat.bin",
                  "Net/device_0/iteration_0/Default--network-Net--add-op0_output_0_shape_2_Float32_DefaultFormat.bin"));
  const std::string bytes = test::read_text(path("output_0_shape_2_Float32_DefaultFormat.bin"));
  float values[2] = {};
  ASSERT_EQ(bytes.size(), sizeof values);
  std::memcpy(values, bytes.data(), sizeof values);
  EXPECT_EQ(values[1], 4);
}

TEST_F(SideFiles, KeepARankTable) {
  use(LayoutKind::mindspore_2_3);
  const std::filesystem::path table = directory.path() / "table.json";
  std::ofstream(table) << "{\"version\": \"1.0\"}";
  ::setenv("RANK_TABLE_FILE", table.c_str(), 1);
  run();
  ::unsetenv("RANK_TABLE_FILE");
  EXPECT_EQ(test::read_text(plan.path / "rank_0/.dump_metadata/hccl.json"), "{\"version\": \"1.0\"}");
}

TEST_F(SideFiles, OfO2HoldTheSettingsForCann) {
  use(LayoutKind::o2);
  plan.dump_mode = DumpMode::kernels;
  plan.kernels = {"conv2d"};
  plan.input_output = Sides::outputs;
  run();
  EXPECT_EQ(test::read_text(plan.path / "acl_dump_0.json"),
            R"({"dump":{"dump_list":[{"layer":["conv2d"]}],"dump_mode":"output","dump_op_switch":"on","dump_path":")" +
                plan.path.string() + "\"}}");
}

}  // namespace
}  // namespace sonde
