#include "ask/watch/zero_origins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ask/watch/without_effect.h"

namespace sonde {
namespace {

TEST(ZeroOrigins, EveryOperatorWhoseNumbersTheProgramChose) {
  for (const char* type : {"zeros",
                           "zeros_like",
                           "new_zeros",
                           "zero_",
                           "_foreach_zero_",
                           "full",
                           "full_like",
                           "new_full",
                           "fill_",
                           "fill",
                           "arange",
                           "eye",
                           "linspace",
                           "logspace",
                           "range",
                           "empty",
                           "empty_like",
                           "new_empty",
                           "empty_strided",
                           "new_empty_strided",
                           "empty_permuted",
                           "scalar_tensor",
                           "lift_fresh",
                           "tensor",
                           "from_numpy",
                           "fill_diagonal_",
                           "Zeros",
                           "ZerosLike",
                           "ZerosLikeExt",
                           "ZerosV2",
                           "Fill",
                           "FillV2",
                           "Fills",
                           "FillScalar",
                           "FillTensor",
                           "FullLike",
                           "Constant",
                           "Const",
                           "NPUAllocFloatStatus",
                           "NPUClearFloatStatus",
                           "aten::zeros_like"}) {
    EXPECT_TRUE(chooses_values(type)) << type;
  }
  for (const char* type : {"mul", "relu", "dropout", "masked_fill", "where", "triu", "ones_like", "copy_", "linear"}) {
    EXPECT_FALSE(chooses_values(type)) << type;
  }
}

TEST(ZeroOrigins, EveryParameterThatBeginsWithZeros) {
  const auto begins = [](const char* name) {
    CatalogOp op;
    op.is_parameter = true;
    op.op_name = name;
    return begins_with_zeros(op);
  };
  for (const char* name :
       {"fc.bias", "attention.in_proj_bias", "norm.running_mean", "bn1.moving_mean", "bn1.beta", "exp_avg.fc.weight",
        "exp_avg_sq.fc.weight", "max_exp_avg_sq.fc.weight", "momentum_buffer.fc.weight", "moments.fc.weight",
        "moment1.fc.weight", "accum.fc.weight", "layers.0.q_proj.lora_B.default.weight", "wte.lora_embedding_B.default",
        "Default/optimizer-AdamWeightDecay/m"}) {
    EXPECT_TRUE(begins(name)) << name;
  }
  for (const char* name : {"fc.weight", "norm.running_var", "embed.weight", "lora_A.weight", "fc.bias.grad"}) {
    EXPECT_FALSE(begins(name)) << name;
  }
}

TEST(WithoutEffect, EveryOperatorThatIsJudged) {
  for (const char* type : {"add",
                           "add_",
                           "sub",
                           "sub_",
                           "subtract",
                           "mul",
                           "mul_",
                           "multiply",
                           "div",
                           "div_",
                           "divide",
                           "true_divide",
                           "pow",
                           "pow_",
                           "addcmul",
                           "addcmul_",
                           "addcdiv",
                           "addcdiv_",
                           "lerp",
                           "lerp_",
                           "_foreach_add_",
                           "_foreach_sub",
                           "_foreach_mul_",
                           "_foreach_div_",
                           "_foreach_pow",
                           "_foreach_addcmul_",
                           "_foreach_addcdiv_",
                           "_foreach_lerp_",
                           "Add",
                           "Sub",
                           "Mul",
                           "RealDiv",
                           "Div",
                           "Pow",
                           "TensorAdd",
                           "BiasAdd",
                           "Adds",
                           "Muls"}) {
    EXPECT_TRUE(is_judged_for_effect(type)) << type;
  }
  for (const char* type : {"relu", "clamp", "maximum", "dropout", "to", "where", "floor_divide", "addmm"}) {
    EXPECT_FALSE(is_judged_for_effect(type)) << type;
  }
}

}  // namespace
}  // namespace sonde
