#include "dump/layout/layout.h"

#include <gtest/gtest.h>

namespace sonde {
namespace {

Layout layout(const std::string& name = "mindspore-2.7", bool synchronous = true) {
  Plan plan;
  plan.e2e = plan.enable = synchronous;
  plan.sonde.layout = *layout_from_name(name);
  plan.sonde.version = info(plan.sonde.layout).release;
  plan.path = "/dump";
  plan.net_name = "Net";
  RunInfo run;
  run.rank = 3;
  run.device = 1;
  run.world_size = 8;
  return Layout::make(plan, run);
}

// The place of the files of a record: of an op, or of a parameter that `op` reads.
std::string directory_of(const std::string& layout_name, StepId step, const std::string& op = "Default/add-op0",
                         bool constants = false) {
  const OpName name{1, "add", op};
  Record record;
  record.op = &name;
  record.step = step;
  record.in_constants = constants;
  const Layout named = layout(layout_name);
  return named.rank_directory() / named.directory_of(record);
}

// The same with T for the time of the run.
std::string without_time(std::string path) {
  for (std::size_t at = 0; at + 15 < path.size(); ++at) {
    const std::string part = path.substr(at, 16);
    if (part.front() == '/' && part.back() == '/' && part.find_first_not_of("0123456789", 1) == 15) {
      return path.replace(at + 1, 14, "T");
    }
  }
  return path;
}

Site site(Phase phase, const std::string& scope, const std::string& type, const std::string& forward = "") {
  Site out;
  out.phase = phase;
  out.scope = scope;
  out.op_type = type;
  out.forward_op_type = forward;
  return out;
}

TEST(Layout, NamesOpsOfEveryPhase) {
  const std::string scope = "network-AlexNet/0-Conv2d";
  EXPECT_EQ(layout().names().op_name(site(Phase::forward, scope, "conv2d"), 0),
            "Default/network-AlexNet/0-Conv2d/conv2d-op0");
  EXPECT_EQ(layout().names().op_name(site(Phase::recompute, scope, "conv2d"), 1),
            "Default/recompute/network-AlexNet/0-Conv2d/conv2d-op1");
  EXPECT_EQ(layout().names().op_name(site(Phase::backward, scope, "convolution_backward", "conv2d"), 2),
            "Gradients/Default/network-AlexNet/0-Conv2d/Grad_conv2d/convolution_backward-op2");
  EXPECT_EQ(layout().names().op_name(site(Phase::optimizer, "optimizer-SGD", "add_"), 3),
            "Default/optimizer-SGD/add_-op3");
  EXPECT_EQ(layout().names().op_name(site(Phase::outside, "", "add"), 4), "Default/add-op4");
  EXPECT_EQ(layout().names().op_name(site(Phase::backward, "network-Net", "sum"), 5), "Gradients/Default/sum-op5");
}

TEST(Layout, NumbersOpsPerTypeAndScope) {
  Site first = site(Phase::forward, "network-Net/a", "add");
  Site other_line = first;
  other_line.trace = {{"net.py", "forward", 7}};
  EXPECT_EQ(layout().names().number_key(first), layout().names().number_key(other_line));
  EXPECT_NE(layout().names().number_key(first),
            layout().names().number_key(site(Phase::forward, "network-Net/b", "add")));
  EXPECT_NE(layout().names().number_key(first),
            layout().names().number_key(site(Phase::forward, "network-Net/a", "mul")));
  EXPECT_NE(layout().names().number_key(first),
            layout().names().number_key(site(Phase::recompute, "network-Net/a", "add")));
}

TEST(Layout, PutsEverythingBelowTheRank) {
  EXPECT_EQ(directory_of("mindspore-2.7", {1, 12}), "/dump/rank_3/Net/1/12/");
  EXPECT_EQ(layout().execution_order_file(0), "/dump/rank_3/execution_order/ms_execution_order_graph_0.csv");
  EXPECT_EQ(layout().history_file(0), "/dump/rank_3/execution_order/ms_global_execution_order_graph_0.csv");
  EXPECT_EQ(layout().journal_file(), "/dump/rank_3/.dump_metadata/sonde/journal");
}

TEST(Layout, NamesTensorFilesAsMindSpore27) {
  TensorRecord tensor;
  tensor.is_input = true;
  tensor.slot = 2;
  tensor.dtype = DType::bfloat16;
  tensor.timestamp_us = 1700000000000001;
  EXPECT_EQ(layout().names().tensor_file_name({1, "add", "Default/a.b\\c d/add-op0"}, tensor),
            "add.Default_a_b_c_d_add-op0.0.0.1700000000000001.input.2.DefaultFormat.BFloat16.npy");
  tensor.is_input = false;
  tensor.slot = 0;
  EXPECT_EQ(layout().names().tensor_file_name({2, "Parameter", "features.0.weight"}, tensor),
            "Parameter.features_0_weight.0.0.1700000000000001.output.0.DefaultFormat.BFloat16.npy");
}

TEST(Layout, NeverLetsAnOpTypeLeaveTheDirectory) {
  TensorRecord tensor;
  tensor.dtype = DType::int8;
  EXPECT_EQ(layout().names().tensor_file_name({1, "../../evil", "x"}, tensor).find('/'), std::string::npos);
}

TEST(Layout, KnowsItsVersion) {
  EXPECT_EQ(layout().release(), Release::v2_7);
  EXPECT_EQ(layout("mindspore-2.3").release(), Release::v2_3);
  EXPECT_EQ(layout("mindspore-2.3").kind(), LayoutKind::mindspore_2_3);
  for (const LayoutInfo& row : layouts()) EXPECT_EQ(info(row.kind).name, row.name);
  for (const ReleaseInfo& row : releases()) EXPECT_EQ(info(row.release).name, row.name);
  EXPECT_EQ(layout_of(Release::v1_3), LayoutKind::mindspore_2_0);
  EXPECT_LT(Release::v2_0, Release::v2_3);
}

TEST(Layout, NamesBackwardOpsAfterTheForwardOpAsTheVersionDoes) {
  const Site backward = site(Phase::backward, "network-Net/conv1-Conv2d", "convolution_backward", "conv2d");
  for (const char* name : {"mindspore-2.0", "mindspore-2.3", "mindspore-2.5"}) {
    EXPECT_EQ(layout(name).names().op_name(backward, 2),
              "Gradients/Default/network-Net/conv1-Conv2d/gradconv2d/convolution_backward-op2");
    EXPECT_EQ(layout(name).names().op_name(site(Phase::forward, "network-Net", "add"), 2),
              "Default/network-Net/add-op2");
    EXPECT_EQ(layout(name).names().op_name(site(Phase::backward, "network-Net", "sum"), 5),
              "Gradients/Default/sum-op5");
  }
}

TEST(Layout, OfOldVersionsNamesFilesWithoutTypes) {
  TensorRecord tensor;
  tensor.dtype = DType::float32;
  tensor.timestamp_us = 1700000000000001;
  const OpName op{1, "add", "Default/a.b\\c d/add-op7"}, parameter{2, "Parameter", "features.0.weight"};
  EXPECT_EQ(layout("mindspore-2.0").names().tensor_file_name(op, tensor),
            "add.add-op7.0.0.1700000000000001.output.0.DefaultFormat.npy");
  EXPECT_EQ(layout("mindspore-2.0").names().tensor_file_name(parameter, tensor),
            "Parameter.features.0.weight.0.0.1700000000000001.output.0.DefaultFormat.npy");
  for (const char* name : {"mindspore-2.3", "mindspore-2.5"}) {
    EXPECT_EQ(layout(name).names().tensor_file_name(op, tensor),
              "add.Default_a_b_c_d_add-op7.0.0.1700000000000001.output.0.DefaultFormat.npy");
    EXPECT_EQ(layout(name).names().tensor_file_name(parameter, tensor),
              "Parameter.features_0_weight.0.0.1700000000000001.output.0.DefaultFormat.npy");
  }
}

TEST(Layout, OfVersionTwoPointZeroKeepsParametersApartThatDifferBeforeASlash) {
  const Layout oldest = layout("mindspore-2.0");
  EXPECT_EQ(oldest.names().name_in_files({1, "Parameter", "a/x.weight"}), "a_x.weight");
  EXPECT_EQ(oldest.names().name_in_files({2, "Parameter", "b/x.weight"}), "b_x.weight");
}

TEST(Layout, NamesFilesThatAreReadBackInEveryVersion) {
  TensorRecord tensor;
  tensor.is_input = true;
  tensor.slot = 3;
  tensor.dtype = DType::bfloat16;
  tensor.timestamp_us = 1700000000000001;
  for (const std::string version : {"mindspore-2.0", "mindspore-2.3", "mindspore-2.5", "mindspore-2.7"}) {
    const Layout written = layout(version);
    for (const OpName& op : {OpName{1, "conv2d", "Default/network-Net/a.b-C/conv2d-op0"},
                             OpName{2, "Parameter", "features.0.weight"}, OpName{3, "Parameter", "data-0"}}) {
      TensorFileName name;
      ASSERT_TRUE(parse_tensor_file_name(written.names().tensor_file_name(op, tensor), name)) << version;
      EXPECT_EQ(name.op_type, op.op_type);
      EXPECT_EQ(name.op_name, written.names().name_in_files(op));
      EXPECT_EQ(name.slot, 3U);
      EXPECT_EQ(name.timestamp_us, tensor.timestamp_us);
      EXPECT_EQ(name.dtype, written.release() == Release::v2_7 ? "BFloat16" : "");
    }
  }
}

TEST(Layout, HasAPlaceForConstantsBeforeVersion27) {
  for (const char* name : {"mindspore-2.0", "mindspore-2.3", "mindspore-2.5"}) {
    EXPECT_TRUE(layout(name).has_constants());
    EXPECT_EQ(directory_of(name, {1, 12}, "Default/add-op0", true), "/dump/rank_3/Net/1/constants/");
    EXPECT_EQ(directory_of(name, {1, 12}), "/dump/rank_3/Net/1/12/");
  }
  EXPECT_FALSE(layout().has_constants());
}

TEST(Layout, HasATreeForEveryKind) {
  const std::string op = "Gradients/Default/network1-AlexNet/conv1-Conv2d/Grad_conv2d/convolution_backward-op0";
  EXPECT_EQ(directory_of("mindspore-1.2", {0, 1}, op), "/dump/Net/device_1/iteration_1/");
  EXPECT_EQ(directory_of("mindspore-1.2", {1, 1}, op), "/dump/Net/device_1/graph_1/iteration_1/");
  EXPECT_EQ(directory_of("mindspore-1.2-async", {1, 2}, op), "/dump/device_1/Net_graph_1/1/2/");
  EXPECT_EQ(without_time(directory_of("ge", {1, 2}, op)), "/dump/T/1/Net/1/2/");
  EXPECT_EQ(without_time(directory_of("o0", {1, 2}, op)), "/dump/2/T/1/1/");
  EXPECT_EQ(without_time(directory_of("o2", {1, 2}, op)), "/dump/2/T/1/Net/1/0/");
  EXPECT_EQ(without_time(directory_of("acl", {1, 2}, op)), "/dump/T/1/AlexNet/1/2/");
  EXPECT_EQ(without_time(directory_of("acl", {1, 2}, "Default/add-op0")), "/dump/T/1/");
  EXPECT_EQ(without_time(directory_of("torchair", {1, 2}, op)), "/dump/worldsize8_global_rank3/T/1/graph_2/2/2/");
}

TEST(Layout, KeepsTheMetadataOfRanksApart) {
  EXPECT_EQ(layout("mindspore-1.2").metadata_directory(), "/dump/Net/device_1/.dump_metadata");
  EXPECT_EQ(layout("mindspore-1.2").old_config_copy(), "/dump/.metadata/data_dump.json");
  EXPECT_EQ(layout("mindspore-1.2-async").graphs_directory(), "/dump/device_1/graphs");
  EXPECT_EQ(layout("o2").metadata_directory(), "/dump/.dump_metadata/device_1");
  EXPECT_EQ(layout("o2").acl_config(), "/dump/acl_dump_1.json");
  EXPECT_EQ(without_time(layout("ge").journal_file()), "/dump/T/1/.dump_metadata/sonde/journal");
  EXPECT_EQ(without_time(layout("acl").execution_order_directory()), "/dump/T/1/.dump_metadata/execution_order");
  EXPECT_EQ(layout("mindspore-2.3").rank_table_copy(), "/dump/rank_3/.dump_metadata/hccl.json");
  EXPECT_EQ(layout("mindspore-2.5").rank_table_copy(), "");
}

TEST(Layout, FindsTheRootModuleOfAnOp) {
  EXPECT_EQ(root_module("Default/network-AlexNet/conv-Conv2d/conv2d-op0"), "AlexNet");
  EXPECT_EQ(root_module("Default/recompute/network12-Net/add-op0"), "Net");
  EXPECT_EQ(root_module("Gradients/Default/network-Net/Grad_add/add-op0"), "Net");
  for (const char* outside : {"Default/add-op0", "Default/optimizer-SGD/add_-op3", "Gradients/Default/sum-op5",
                              "Gradients/Default/Grad_add/add-op1", "Default/network-op1", "conv.weight", ""}) {
    EXPECT_EQ(root_module(outside), "") << outside;
  }
}

TEST(Layout, PutsAParameterIntoTheModelThatReadsIt) {
  const OpName reader{1, "conv2d", "Default/network-AlexNet/conv1-Conv2d/conv2d-op0"};
  const OpName parameter{2, "Parameter", "conv1.weight"};
  Record record;
  record.kind = RecordKind::parameter;
  record.op = &parameter;
  record.reader = &reader;
  EXPECT_EQ(layout("acl").directory_of(record), "AlexNet/0/0/");
  EXPECT_EQ(task_number(record), kNoTask);
}

TEST(Layout, NamesRawFilesOfVersionOneTwo) {
  TensorRecord tensor;
  tensor.dtype = DType::float32;
  const std::vector<std::int64_t> sizes = {2, 3};
  tensor.shape = Dims(sizes);
  const Layout oldest = layout("mindspore-1.2");
  const OpName op{1, "conv2d", "Default/network-Net/a.b-C/conv2d-op7"};
  EXPECT_EQ(oldest.names().tensor_file_name(op, tensor),
            "Default--network-Net--a.b-C--conv2d-op7_output_0_shape_2_3_Float32_DefaultFormat.bin");
  EXPECT_EQ(oldest.names().tensor_file_name({2, "Parameter", "conv.weight"}, tensor),
            "conv.weight_output_0_shape_2_3_Float32_DefaultFormat.bin");
  tensor.shape = Dims();
  tensor.format = Format::nhwc;
  EXPECT_EQ(oldest.names().tensor_file_name({3, "Parameter", "data-0"}, tensor, 0, 2),
            "cst1_output_0_shape_0_Float32_NHWC.2.bin");
  TensorFileName name;
  ASSERT_TRUE(parse_tensor_file_name(oldest.names().tensor_file_name(op, tensor, 0, 2), name));
  EXPECT_EQ(name.op_name, "Default--network-Net--a.b-C--conv2d-op7");
  EXPECT_EQ(name.op_type, "conv2d");
  EXPECT_EQ(name.format, "NHWC");
  ASSERT_TRUE(parse_tensor_file_name("conv.weight_output_0_shape_2_Float32_DefaultFormat.bin", name));
  EXPECT_EQ(name.op_type, "Parameter");
}

TEST(Layout, NamesFilesOfCannByTask) {
  TensorRecord tensor;
  tensor.dtype = DType::bfloat16;
  tensor.timestamp_us = 1700000000000001;
  const std::vector<std::int64_t> sizes = {2, 3, 4, 4};
  tensor.shape = Dims(sizes);
  const OpName op{1, "a b.c", "Default/network-Net/add-op7"};
  EXPECT_EQ(layout("acl").names().op_file_name(op, 9, 1700000000000001),
            "a_b_c.Default_network-Net_add-op7.9.0.1700000000000001");
  EXPECT_EQ(layout("mindspore-1.2-async").names().op_file_name(op, 9, 1700000000000001),
            "a_b_c.Default_network-Net_add-op7.9.1700000000000001");
  EXPECT_EQ(layout("o2").names().tensor_file_name(op, tensor, 9),
            "a_b_c.Default_network-Net_add-op7.9.0.1700000000000001.output.0.NCHW.bfloat16.npy");
  EXPECT_EQ(layout("ge").names().tensor_file_name(op, tensor, 9),
            "a_b_c.Default_network-Net_add-op7.9.0.1700000000000001.output.0.NCHW.npy");
}

TEST(Layout, NamesFilesOfAsynchronousDumpsOfTwoPointZeroByTask) {
  TensorRecord tensor;
  tensor.timestamp_us = 1700000000000001;
  const OpName op{1, "add", "Default/network-Net/add-op7"};
  EXPECT_EQ(layout("mindspore-2.0", false).names().tensor_file_name(op, tensor, 9),
            "add.add-op7.9.0.1700000000000001.output.0.ND.npy");
  EXPECT_EQ(layout("mindspore-2.0").names().tensor_file_name(op, tensor),
            "add.add-op7.0.0.1700000000000001.output.0.DefaultFormat.npy");
}

TEST(OpFileName, IsReadInEveryForm) {
  OpFileName name;
  for (const char* text :
       {"Add.Default_Add-op1.7.3.1700000000000001", "Add.Default_Add-op1.7.1700000000000001",
        "Add.Default_Add-op1.7.3.1700000000000001.4.1.2.0", "Add.Default_Add-op1.12.7.3.1700000000000001",
        "Add.Default_Add-op1.12.7.3.1700000000000001.FFTSPLUS.1.2.0", "Add.Default_Add-op1.7.3.1700000000000001.csv"}) {
    ASSERT_TRUE(parse_op_file_name(text, name)) << text;
    EXPECT_EQ(name.op_type, "Add");
    EXPECT_EQ(name.op_name, "Default_Add-op1");
    EXPECT_EQ(name.task_id, 7U) << text;
    EXPECT_EQ(name.timestamp_us, 1700000000000001U) << text;
  }
  EXPECT_TRUE(name.is_table);
  ASSERT_TRUE(parse_op_file_name("Opdebug.Node_OpDebug.7.3.1700000000000001", name));
  EXPECT_TRUE(name.is_overflow_record());
}

TEST(OpFileName, IsNotFoundInOtherNames) {
  OpFileName name;
  for (const char* text : {"", "libfoo.so.1.2.3", "statistic.csv", "Add.x.7.3.170000", "Add.x.y.3.1700000000000001",
                           ".x.7.3.1700000000000001", "Add.x.7.3.1700000000000001.output.0.json",
                           "Add.x.0.0.1700000000000001.output.0.ND.npy"}) {
    EXPECT_FALSE(parse_op_file_name(text, name)) << text;
  }
}

TEST(TensorFileName, IsReadBack) {
  TensorFileName name;
  ASSERT_TRUE(
      parse_tensor_file_name("add.Default_add-op0.0.4.1700000000000001.input.2.DefaultFormat.Float32.npy", name));
  EXPECT_EQ(name.op_type, "add");
  EXPECT_EQ(name.op_name, "Default_add-op0");
  EXPECT_EQ(name.stream_id, 4U);
  EXPECT_EQ(name.timestamp_us, 1700000000000001U);
  EXPECT_TRUE(name.is_input);
  EXPECT_EQ(name.slot, 2U);
  EXPECT_EQ(name.format, "DefaultFormat");
  EXPECT_EQ(name.dtype, "Float32");
}

TEST(TensorFileName, MayHaveDotsInTheNameAndNoType) {
  TensorFileName name;
  ASSERT_TRUE(
      parse_tensor_file_name("Parameter.moments.conv1.weight.0.0.1700000000000001.output.0.DefaultFormat.npy", name));
  EXPECT_EQ(name.op_type, "Parameter");
  EXPECT_EQ(name.op_name, "moments.conv1.weight");
  EXPECT_FALSE(name.is_input);
  EXPECT_EQ(name.dtype, "");
  EXPECT_EQ(name.format, "DefaultFormat");
}

TEST(TensorFileName, OfVersionOneTwoCarriesTheShape) {
  TensorFileName name;
  ASSERT_TRUE(
      parse_tensor_file_name("Default--network-Net--Conv2D-op12_output_0_shape_1_64_5_Float16_FRACTAL_Z.bin", name));
  EXPECT_EQ(name.op_type, "Conv2D");
  EXPECT_EQ(name.op_name, "Default--network-Net--Conv2D-op12");
  EXPECT_EQ(name.shape, (std::vector<std::int64_t>{1, 64, 5}));
  EXPECT_EQ(name.dtype, "Float16");
  EXPECT_EQ(name.format, "FRACTAL_Z");
  ASSERT_TRUE(parse_tensor_file_name("x_input_3_shape_0_Int32_DefaultFormat.bin", name));
  EXPECT_TRUE(name.shape.empty());
  EXPECT_EQ(name.slot, 3U);
}

TEST(TensorFileName, IsNotFoundInOtherNames) {
  TensorFileName name;
  for (const char* text : {"", ".npy", "1234567.npy", "statistic.csv", "a.b.0.0.x.input.0.F.npy",
                           "a.b.0.0.1.input.-1.F.npy", "a.b.0.0.1.side.0.F.npy", "a.0.0.1.input.0.F.npy",
                           ".b.0.0.1.input.0.F.npy", "a.b.0.0.99999999999999999999999.input.0.F.npy",
                           "x_input_3_shape__Int32_F.bin", "_shape_.bin", "Opdebug.Node_OpDebug.0.0.1.output.0.json"}) {
    EXPECT_FALSE(parse_tensor_file_name(text, name)) << text;
  }
}

}  // namespace
}  // namespace sonde
