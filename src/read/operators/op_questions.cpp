#include "read/operators/op_questions.h"

#include <algorithm>
#include <initializer_list>

#include "read/operators/op_nature.h"

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

bool is_list_op(std::string_view op_type) { return contains(op_type, "_foreach_"); }

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

bool is_softmax(std::string_view plain) { return contains(plain, "softmax"); }

bool is_gradient(std::string_view plain) { return contains_one(plain, {"backward", "grad"}); }

bool is_batch_norm(std::string_view plain) { return contains(plain, "batchnorm"); }

bool is_norm(std::string_view plain) { return contains(plain, "norm"); }

bool is_mean(std::string_view plain) {
  return contains_one(plain, {"mean", "loss", "avgpool", "entropy"}) || is_one_of(plain, {"var", "std", "kldiv"});
}

bool is_forward_convolution(std::string_view plain) {
  return contains(plain, "conv") && !contains_one(plain, {"grad", "backward", "backprop", "transpose"});
}

bool is_product(std::string_view plain) { return is_one_of(plain, {"mul", "multiply", "muls"}); }

bool is_quantised(std::string_view plain) {
  return contains(plain, "quantize") || (plain.starts_with("linear") && plain.ends_with("dynamic"));
}

bool is_clamp(std::string_view plain) { return plain.starts_with("clamp") || plain.starts_with("clip"); }

bool picks_elements(std::string_view plain) {
  return plain.starts_with("index") || plain.starts_with("gather") || is_one_of(plain, {"take", "embedding"});
}

bool is_detach(std::string_view plain) { return is_one_of(plain, {"detach", "stopgradient"}); }

}  // namespace sonde
