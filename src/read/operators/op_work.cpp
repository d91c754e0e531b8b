#include "read/operators/op_work.h"

#include <unordered_map>

#include "ground/base/text.h"

namespace sonde {
namespace {

struct WorkNames {
  OpWork work;
  std::string_view names;
};

constexpr WorkNames kWorks[] = {
    {OpWork::add, "add addv2 adds addext tensoradd biasadd"},
    {OpWork::subtract, "sub subtract subext"},
    {OpWork::subtract_from, "rsub"},
    {OpWork::multiply, "mul multiply muls"},
    {OpWork::divide, "div divide truedivide realdiv"},
    {OpWork::divide_or_zero, "divnonan"},
    {OpWork::add_product, "addcmul"},
    {OpWork::add_quotient, "addcdiv"},
    {OpWork::interpolate, "lerp"},
    {OpWork::reciprocal, "reciprocal inv"},
    {OpWork::square, "square"},
    {OpWork::power, "pow power"},
    {OpWork::root, "sqrt"},
    {OpWork::reciprocal_root, "rsqrt"},
    {OpWork::exponential, "exp expm1"},
    {OpWork::exponential_of_two, "exp2"},
    {OpWork::logarithm, "log log2 log10"},
    {OpWork::logarithm_of_more, "log1p"},
    {OpWork::round, "round"},
    {OpWork::cast, "to tocopy cast type float double half bfloat16"},
    {OpWork::dropout, "dropout nativedropout"},
    {OpWork::sum, "sum reducesum"},
    {OpWork::mean, "mean reducemean"},
    {OpWork::spread, "var std varmean stdmean"},
    {OpWork::norm, "norm linalgvectornorm frobeniusnorm"},
    {OpWork::norm_of_power, "lpnorm"},
    {OpWork::log_of_sum, "logsumexp"},
    {OpWork::log_softmax, "logsoftmax logsoftmaxv2"},
    {OpWork::squared_error, "mseloss"},
    {OpWork::ctc_loss, "ctcloss cudnnctcloss ctclossv2"},
    {OpWork::attention, "scaleddotproductattention"},
    {OpWork::linear, "linear dense"},
    {OpWork::matrix_product, "mm bmm"},
    {OpWork::batch_product, "matmul batchmatmul matmulv2"},
    {OpWork::add_matrix_product, "addmm baddbmm"},
    {OpWork::convolution, "conv1d conv2d conv3d convolution"},
    {OpWork::convolution_gradient, "convolutiongrad"},
};

std::unordered_map<std::string_view, OpWork> table() {
  std::unordered_map<std::string_view, OpWork> works;
  for (const WorkNames& all : kWorks) {
    for (const std::string_view name : split(all.names, ' ')) works[name] = all.work;
  }
  return works;
}

}  // namespace

OpWork work_of(std::string_view plain) {
  static const std::unordered_map<std::string_view, OpWork> kWorkOf = table();
  const auto at = kWorkOf.find(plain);
  return at == kWorkOf.end() ? OpWork::other : at->second;
}

TypeNames type_names(std::string_view text) {
  const std::vector<std::string_view> names = split(text, ' ');
  return {names.begin(), names.end()};
}

}  // namespace sonde
