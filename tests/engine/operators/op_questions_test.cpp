#include "read/operators/op_questions.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "read/operators/collective_call.h"
#include "read/operators/op_family.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_work.h"

namespace sonde {
namespace {

struct Question {
  std::string_view name;
  bool (*ask)(std::string_view plain);
  std::vector<std::string_view> yes, no;  // types as hosts write them
};

const Question kQuestions[] = {
    {"gives_loss",
     gives_loss,
     {"mse_loss", "NLLLoss", "binary_cross_entropy", "SoftmaxCrossEntropyWithLogits"},
     {"add", "kl_div"}},
    {"is_cross_entropy",
     is_cross_entropy,
     {"cross_entropy", "cross_entropy_loss", "nll_loss", "nll_loss2d_forward", "NLLLoss"},
     {"mse_loss", "entropy"}},
    {"is_weight_norm",
     is_weight_norm,
     {"_weight_norm", "_weight_norm_interface"},
     {"_weight_norm_interface_backward", "layer_norm", "norm"}},
    {"is_softmax", is_softmax, {"_softmax", "log_softmax", "SoftmaxV2", "softmax"}, {"softplus", "logsumexp"}},
    {"is_gradient", is_gradient, {"tanh_backward", "ReluGrad", "SqrtGrad"}, {"tanh", "relu"}},
    {"is_batch_norm", is_batch_norm, {"native_batch_norm", "BatchNorm", "cudnn_batch_norm"}, {"layer_norm"}},
    {"is_log_of_determinant",
     is_log_of_determinant,
     {"slogdet", "_linalg_slogdet", "linalg_slogdet", "logdet"},
     {"slogdet_backward", "det", "log"}},
    {"is_mean",
     is_mean,
     {"mean", "ReduceMean", "mse_loss", "avg_pool2d", "cross_entropy", "var", "std", "kl_div"},
     {"sum", "max_pool2d", "var_fraction"}},
    {"is_forward_convolution",
     is_forward_convolution,
     {"conv2d", "convolution", "Conv2D", "mkldnn_convolution"},
     {"convolution_backward", "Conv2DBackpropInput", "conv_transpose2d", "mm", "Conv2DGrad"}},
    {"is_quantised",
     is_quantised,
     {"quantize_per_tensor", "dequantize", "fake_quantize_per_tensor_affine", "linear_dynamic", "linear_relu_dynamic"},
     {"linear", "round"}},
    {"is_clamp", is_clamp, {"clamp", "clamp_min", "clip", "ClipByValue"}, {"clone", "minimum"}},
    {"picks_elements",
     picks_elements,
     {"index", "index_select", "gather", "GatherV2", "take", "embedding"},
     {"take_along_axis", "embedding_bag", "slice"}},
    {"is_detach", is_detach, {"detach", "detach_", "StopGradient"}, {"clone", "attach"}},
    {"is_commutative",
     is_commutative,
     {"add",        "mul",  "maximum", "minimum", "logical_and", "logical_or", "logical_xor", "bitwise_and",
      "bitwise_or", "eq",   "ne",      "Equal",   "NotEqual",    "logaddexp",  "multiply",    "hypot",
      "fmax",       "fmin", "AddV2",   "isclose", "TensorAdd",   "dot"},
     {"sub", "div", "pow"}},
    {"keeps_zero",
     keeps_zero,
     {"to", "Cast", "mul", "Muls", "div", "RealDiv", "sqrt", "square", "abs", "where", "clip", "minimum", "maximum",
      "clamp_min", "clamp_max", "SelectV2", "AllReduce", "wait_tensor"},
     {"add", "exp", "reciprocal", "cos"}},
    {"is_linear",
     is_linear,
     {"to", "add", "sub", "rsub", "subtract", "mul", "multiply", "Muls", "div", "lerp", "copy_"},
     {"exp", "matmul", "pow"}},
    {"only_adds_up",
     only_adds_up,
     {"sum",       "mean",       "cumsum", "prod",        "cumprod", "norm",     "linalg_vector_norm",
      "dot",       "mv",         "mm",     "bmm",         "addmm",   "matmul",   "linear",
      "conv1d",    "conv2d",     "conv3d", "convolution", "baddbmm", "addmv",    "einsum",
      "add",       "sub",        "mul",    "square",      "addcmul", "mse_loss", "outer",
      "index_add", "scatter_add"},
     {"div", "exp", "log"}},
    {"gives_norm",
     gives_norm,
     {"norm", "linalg_vector_norm", "linalg_norm", "frobenius_norm", "_foreach_norm"},
     {"layer_norm", "linalg_matrix_norm", "square"}},
    {"replaces_nan", replaces_nan, {"nan_to_num", "NanToNum"}, {"isnan"}},
    {"shows_memory", shows_memory, {"view", "Bitcast"}, {"reshape"}},
    {"adds_dimension", adds_dimension, {"unsqueeze", "stack"}, {"squeeze", "cat"}},
    {"arranges_elements",
     arranges_elements,
     {"cat",
      "Concat",
      "concatenate",
      "hstack",
      "vstack",
      "dstack",
      "column_stack",
      "stack",
      "flip",
      "fliplr",
      "flipud",
      "ReverseV2",
      "roll",
      "rot90",
      "index",
      "index_select",
      "gather",
      "GatherV2",
      "take",
      "take_along_dim",
      "permute",
      "Transpose",
      "swapaxes",
      "movedim",
      "pad",
      "PadV3",
      "constant_pad_nd",
      "repeat_interleave"},
     {"clone", "to", "copy_", "view", "detach", "select", "slice"}},
    {"orders_dimensions", orders_dimensions, {"permute", "flip", "roll"}, {"sum"}},
    {"writes_chosen_numbers",
     writes_chosen_numbers,
     {"arange", "zeros", "zeros_like", "full", "empty_strided", "fill_", "eye", "linspace", "logspace", "FillV2",
      "ZerosLike", "constant", "Const", "scalar_tensor", "fill_diagonal", "new_zeros"},
     {"ones_like_of", "add"}},
};

TEST(OpQuestions, AreAnsweredForTheNamesOfAllHosts) {
  for (const Question& question : kQuestions) {
    for (const std::string_view type : question.yes) {
      EXPECT_TRUE(question.ask(bare_type(type))) << question.name << " of " << type;
    }
    for (const std::string_view type : question.no) {
      EXPECT_FALSE(question.ask(bare_type(type))) << question.name << " of " << type;
    }
  }
}

TEST(OpQuestions, OfTheTypeAsTheHostWritesIt) {
  for (const std::string_view type : {"_foreach_add_", "_foreach_norm"}) EXPECT_TRUE(is_list_op(type)) << type;
  for (const std::string_view type : {"add_", "foreach"}) EXPECT_FALSE(is_list_op(type)) << type;
  for (const std::string_view type : {"_fused_adam_", "_fused_sgd_"}) EXPECT_TRUE(is_fused_optimizer(type)) << type;
  for (const std::string_view type : {"fused_rms_norm", "_foreach_add_"}) {
    EXPECT_FALSE(is_fused_optimizer(type)) << type;
  }
  for (const std::string_view type : {"ones_like", "OnesLike", "aten::ones_like"}) {
    EXPECT_TRUE(begins_backward(type)) << type;
  }
  for (const std::string_view type : {"ones", "zeros_like"}) EXPECT_FALSE(begins_backward(type)) << type;
  EXPECT_EQ(single_type("_foreach_mul_"), "mul");
  EXPECT_EQ(single_type("Mul"), "mul");
  EXPECT_EQ(single_type("_foreach_addcdiv_"), "addcdiv");
}

struct Named {
  OpWork work;
  std::vector<std::string_view> types;
};

const Named kWorks[] = {
    {OpWork::add, {"add", "AddV2", "Adds", "AddExt", "TensorAdd", "BiasAdd"}},
    {OpWork::subtract, {"sub", "subtract", "SubExt"}},
    {OpWork::subtract_from, {"rsub"}},
    {OpWork::multiply, {"mul", "Mul", "multiply", "Muls", "mul_"}},
    {OpWork::divide, {"div", "divide", "true_divide", "RealDiv"}},
    {OpWork::divide_or_zero, {"DivNoNan"}},
    {OpWork::add_product, {"addcmul"}},
    {OpWork::add_quotient, {"addcdiv"}},
    {OpWork::interpolate, {"lerp"}},
    {OpWork::reciprocal, {"reciprocal", "Inv"}},
    {OpWork::square, {"square"}},
    {OpWork::power, {"pow", "Power"}},
    {OpWork::root, {"sqrt"}},
    {OpWork::reciprocal_root, {"rsqrt"}},
    {OpWork::exponential, {"exp", "expm1"}},
    {OpWork::exponential_of_two, {"exp2"}},
    {OpWork::logarithm, {"log", "log2", "log10"}},
    {OpWork::logarithm_of_more, {"log1p"}},
    {OpWork::round, {"round"}},
    {OpWork::cast, {"to", "_to_copy", "Cast", "type", "float", "double", "half", "bfloat16"}},
    {OpWork::dropout, {"dropout", "native_dropout"}},
    {OpWork::sum, {"sum", "ReduceSum"}},
    {OpWork::mean, {"mean", "ReduceMean"}},
    {OpWork::spread, {"var", "std", "var_mean", "std_mean"}},
    {OpWork::norm, {"norm", "linalg_vector_norm", "frobenius_norm"}},
    {OpWork::norm_of_power, {"LpNorm"}},
    {OpWork::log_of_sum, {"logsumexp"}},
    {OpWork::log_softmax, {"log_softmax", "LogSoftmaxV2"}},
    {OpWork::squared_error, {"mse_loss"}},
    {OpWork::ctc_loss, {"ctc_loss", "_cudnn_ctc_loss", "CTCLossV2"}},
    {OpWork::attention, {"scaled_dot_product_attention"}},
    {OpWork::linear, {"linear", "Dense"}},
    {OpWork::matrix_product, {"mm", "bmm"}},
    {OpWork::batch_product, {"matmul", "BatchMatMul", "MatMulV2"}},
    {OpWork::add_matrix_product, {"addmm", "baddbmm"}},
    {OpWork::convolution, {"conv1d", "conv2d", "conv3d", "convolution"}},
    {OpWork::convolution_gradient, {"ConvolutionGrad"}},
    {OpWork::other, {"matmul_backward", "mse_loss_backward", "multinomial", "logit", "_foreach_mul_"}},
};

TEST(OpWork, HasEachNameOfAllHosts) {
  for (const Named& named : kWorks) {
    for (const std::string_view type : named.types) EXPECT_EQ(work_of(bare_type(type)), named.work) << type;
  }
}

TEST(OpWork, NamesAreSeparatedByASpace) {
  EXPECT_EQ(type_names("a bc d"), (TypeNames{"a", "bc", "d"}));
  EXPECT_TRUE(type_names("").empty());
}

CatalogOp op_with(std::string_view type, std::uint32_t inputs, std::uint32_t outputs) {
  CatalogOp op;
  op.op_type = type;
  for (std::uint32_t i = 0; i < inputs + outputs; ++i) {
    CatalogTensor& tensor = op.tensors.emplace_back();
    tensor.is_input = i < inputs;
    tensor.slot = tensor.is_input ? i : i - inputs;
  }
  return op;
}

TEST(OpNature, CollectivesOfC10dReadNothingOfTheTensorsThatTheyFill) {
  for (const std::string_view type :
       {"allgather_", "_allgather_base_", "allgather_coalesced_", "allgather_into_tensor_coalesced_", "reduce_scatter_",
        "_reduce_scatter_base_", "reduce_scatter_tensor_coalesced_", "alltoall_", "alltoall_base_", "gather_",
        "c10d::scatter_", "c10d::recv_", "recv_any_source_"}) {
    EXPECT_EQ(nature_of(op_with(type, 5, 2)).first_input, 2U) << type;
  }
  for (const std::string_view type : {"allreduce_", "broadcast_", "reduce_", "all_gather_into_tensor", "send"}) {
    EXPECT_EQ(nature_of(op_with(type, 5, 2)).first_input, 0U) << type;
  }
}

TEST(OpNature, OfFsdpOpsTheLastTensorsReceiveTheResult) {
  EXPECT_EQ(nature_of(op_with("all_gather_copy_in", 5, 2)).most_inputs, 4U);
  EXPECT_EQ(nature_of(op_with("split_with_sizes_copy", 5, 4)).most_inputs, 1U);
}

TEST(OpNature, AFirstInputTimesZeroIsNotRead) {
  for (const std::string_view type : {"addmm", "aten::baddbmm", "addbmm_", "addmv", "addr"}) {
    for (const double beta : {0.0, 1.0}) {
      std::vector<Attribute> attributes(1);
      attributes[0].name = "beta";
      attributes[0].reals = {beta};
      CatalogOp op = op_with(type, 3, 1);
      op.attributes = &attributes;
      EXPECT_EQ(reads_values(nature_of(op), op.tensors[0]), beta != 0) << type;
      EXPECT_TRUE(reads_values(nature_of(op), op.tensors[1])) << type;
    }
    EXPECT_TRUE(reads_values(nature_of(op_with(type, 3, 1)), op_with(type, 3, 1).tensors[0])) << type;
  }
}

TEST(Collectives, ThatOnlyMoveGiveRanksWhatOthersHave) {
  for (const char* type :
       {"all_to_all_single", "alltoall_", "alltoall_base_", "all_gather_into_tensor",
        "all_gather_into_tensor_coalesced", "all_gather_into_tensor_out", "allgather_", "_allgather_base_",
        "allgather_coalesced_", "allgather_into_tensor_coalesced_", "broadcast", "broadcast_", "gather_"}) {
    EXPECT_TRUE(moves_between_ranks(type)) << type;
  }
  for (const char* type : {"allreduce_", "reduce_scatter_tensor", "_reduce_scatter_base_", "reduce_", "barrier", "send",
                           "recv_", "gather", "index", ""}) {
    EXPECT_FALSE(moves_between_ranks(type)) << type;
  }
}

}  // namespace
}  // namespace sonde
