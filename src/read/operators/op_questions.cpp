#include "read/operators/op_questions.h"

#include <algorithm>
#include <initializer_list>

#include "read/operators/op_nature.h"
#include "read/operators/op_work.h"

namespace sonde {
namespace {

constexpr std::string_view kForeach = "foreach";

bool contains(std::string_view type, std::string_view part) { return type.find(part) != std::string_view::npos; }

bool contains_one(std::string_view type, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return contains(type, part); });
}

bool is_one_of(std::string_view type, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, type) != names.end();
}

}  // namespace

DerivativeScope derivative_scope(std::string_view scope) {
  constexpr std::string_view kGrad = "/Grad_";
  const std::size_t at = scope.rfind(kGrad);
  if (at == std::string_view::npos) return {};
  return {scope.substr(0, at), scope.substr(at + kGrad.size())};
}

bool is_list_op(std::string_view op_type) { return contains(op_type, "_foreach_"); }

bool feeds_in_list(std::uint32_t inputs, std::uint32_t size, std::uint32_t input, std::uint32_t output) {
  if (size == 0 || output >= size) return true;
  return input >= inputs / size * size || input % size == output;
}

bool is_fused_optimizer(std::string_view op_type) { return contains(op_type, "_fused_"); }

bool begins_backward(std::string_view op_type) { return bare_type(op_type) == "oneslike"; }

std::string single_type(std::string_view op_type) { return single_type_of_plain(bare_type(op_type)); }

std::string single_type_of_plain(std::string_view plain) {
  return std::string(plain.starts_with(kForeach) ? plain.substr(kForeach.size()) : plain);
}

bool gives_loss(std::string_view plain) { return contains_one(plain, {"loss", "entropy"}); }

bool is_cross_entropy(std::string_view plain) {
  return contains(plain, "crossentropy") || plain.starts_with("nllloss");
}

bool is_weight_norm(std::string_view plain) { return plain.starts_with("weightnorm") && !is_gradient(plain); }

bool is_log_of_determinant(std::string_view plain) {
  return !is_gradient(plain) && (plain == "logdet" || plain.ends_with("slogdet"));
}

bool is_softmax(std::string_view plain) { return contains(plain, "softmax"); }

bool is_gradient(std::string_view plain) { return contains_one(plain, {"backward", "grad"}); }

bool is_batch_norm(std::string_view plain) { return contains(plain, "batchnorm"); }

bool is_mean(std::string_view plain) {
  return contains_one(plain, {"mean", "loss", "avgpool", "entropy"}) || is_one_of(plain, {"var", "std", "kldiv"});
}

bool is_forward_convolution(std::string_view plain) {
  return contains(plain, "conv") && !contains_one(plain, {"grad", "backward", "backprop", "transpose"});
}

bool is_quantised(std::string_view plain) {
  return contains(plain, "quantize") || (plain.starts_with("linear") && plain.ends_with("dynamic"));
}

bool is_clamp(std::string_view plain) { return plain.starts_with("clamp") || plain.starts_with("clip"); }

bool picks_elements(std::string_view plain) {
  return plain.starts_with("index") || plain.starts_with("gather") || is_one_of(plain, {"take", "embedding"});
}

bool is_detach(std::string_view plain) { return is_one_of(plain, {"detach", "stopgradient"}); }

bool is_commutative(std::string_view plain) {
  static const TypeNames kTypes = type_names(
      "add mul maximum minimum logicaland logicalor logicalxor bitwiseand bitwiseor eq ne logaddexp multiply hypot "
      "fmax "
      "fmin equal addv2 tensoradd notequal isclose dot");
  return kTypes.contains(plain);
}

bool keeps_zero(std::string_view plain) {
  static const TypeNames kTypes =
      type_names("abs where clip minimum maximum clampmin clampmax selectv2 allreduce waittensor");
  using enum OpWork;
  const OpWork work = work_of(plain);
  return work == cast || work == multiply || work == divide || work == root || work == square || kTypes.contains(plain);
}

bool is_linear(std::string_view plain) {
  using enum OpWork;
  const OpWork work = work_of(plain);
  return work == cast || work == add || work == subtract || work == subtract_from || work == multiply ||
         work == divide || work == interpolate || plain == "copy";
}

bool is_addition(std::string_view plain) { return work_of(single_type_of_plain(plain)) == OpWork::add; }

bool only_adds_up(std::string_view plain) {
  static const TypeNames kTypes = type_names(
      "sum mean cumsum prod cumprod norm linalgvectornorm dot mv mm bmm addmm matmul linear conv1d conv2d conv3d "
      "convolution baddbmm addmv einsum add sub mul square addcmul mseloss indexadd scatteradd outer");
  return kTypes.contains(plain);
}

bool gives_norm(std::string_view plain) {
  return is_one_of(single_type_of_plain(plain), {"norm", "linalgvectornorm", "linalgnorm", "frobeniusnorm"});
}

bool multiplies_along(std::string_view plain, std::string_view reduce) {
  if (is_one_of(plain, {"prod", "cumprod"})) return true;
  return reduce == "prod" && is_one_of(plain, {"scatterreduce", "indexreduce"});
}

bool decomposes_matrix(std::string_view plain) {
  return is_one_of(plain, {"svd", "linalgsvd", "linalgeigh", "linalgeig"});
}

bool replaces_nan(std::string_view plain) { return plain == "nantonum"; }

bool shows_memory(std::string_view plain) { return is_one_of(plain, {"view", "bitcast"}); }

bool adds_dimension(std::string_view plain) { return is_one_of(plain, {"unsqueeze", "stack"}); }

bool orders_dimensions(std::string_view plain) { return is_one_of(plain, {"permute", "flip", "roll"}); }

bool arranges_elements(std::string_view plain) {
  static const TypeNames kTypes = type_names(
      "cat concat concatenate hstack vstack dstack columnstack stack flip fliplr flipud reversev2 roll rot90 index "
      "indexselect gather gatherv2 take takealongdim permute transpose swapaxes movedim pad constantpadnd padv3 "
      "repeatinterleave");
  return kTypes.contains(plain);
}

bool writes_chosen_numbers(std::string_view plain) {
  static const TypeNames kTypes = type_names(
      "arange clearzero const constant empty emptylike emptypermuted emptystrided eye fill filldiagonal fills "
      "fillscalar filltensor fillv2 full fulllike linspace logspace newempty newemptystrided newfull newzeros "
      "npuallocfloatstatus npuclearfloatstatus range scalartensor zero zeros zerosext zeroslike zeroslikeext "
      "zerostensor zerosv2");
  return kTypes.contains(plain);
}

}  // namespace sonde
