#include "read/operators/op_questions.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "read/operators/op_family.h"
#include "read/operators/op_nature.h"

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
    {"is_softmax", is_softmax, {"_softmax", "log_softmax", "SoftmaxV2", "softmax"}, {"softplus", "logsumexp"}},
    {"is_gradient", is_gradient, {"tanh_backward", "ReluGrad", "SqrtGrad"}, {"tanh", "relu"}},
    {"is_batch_norm", is_batch_norm, {"native_batch_norm", "BatchNorm", "cudnn_batch_norm"}, {"layer_norm"}},
    {"is_norm", is_norm, {"norm", "linalg_vector_norm", "LpNorm", "_foreach_norm"}, {"sum", "std"}},
    {"is_mean",
     is_mean,
     {"mean", "ReduceMean", "mse_loss", "avg_pool2d", "cross_entropy", "var", "std", "kl_div"},
     {"sum", "max_pool2d", "var_fraction"}},
    {"is_forward_convolution",
     is_forward_convolution,
     {"conv2d", "convolution", "Conv2D", "mkldnn_convolution"},
     {"convolution_backward", "Conv2DBackpropInput", "conv_transpose2d", "mm", "Conv2DGrad"}},
    {"is_product", is_product, {"mul", "Mul", "multiply", "Muls", "mul_"}, {"matmul", "multinomial", "addcmul"}},
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

}  // namespace
}  // namespace sonde
