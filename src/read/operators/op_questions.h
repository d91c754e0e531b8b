// Questions about an operator that its type answers. A `plain` type is bare_type() or shared_type() of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sonde {

// --- of the type as the host writes it
// `_foreach_…`: lists of tensors, element by element.
bool is_list_op(std::string_view op_type);
// Of such an op with `inputs` inputs and `size` results: the k-th result comes from the k-th element of each list, and from
// arguments that are not lists.
bool feeds_in_list(std::uint32_t inputs, std::uint32_t size, std::uint32_t input, std::uint32_t output);
// `_fused_adam_`: the whole update of an optimizer.
bool is_fused_optimizer(std::string_view op_type);
// It makes ones like the loss, from which backward begins.
bool begins_backward(std::string_view op_type);
// The plain type of the work for one tensor: "mul" for `_foreach_mul_`.
std::string single_type(std::string_view op_type);
std::string single_type_of_plain(std::string_view plain);

// Of the scope of an op of the backward pass, `Gradients/Default/net/Grad_svd`: the scope before, and the type of the op
// whose derivative it computes. An empty type: none.
struct DerivativeScope {
  std::string_view scope, type;
};
DerivativeScope derivative_scope(std::string_view scope);

// --- of the plain type
bool gives_loss(std::string_view plain);        // a loss or an entropy
bool is_cross_entropy(std::string_view plain);  // its targets are classes
bool is_weight_norm(std::string_view plain);    // the forward op: a direction times a length
bool is_softmax(std::string_view plain);        // also of a larger op that begins or ends with one
bool is_gradient(std::string_view plain);       // of another op
bool is_batch_norm(std::string_view plain);
bool is_log_of_determinant(std::string_view plain);
bool is_mean(std::string_view plain);  // its sum is divided by the number of terms
bool is_forward_convolution(std::string_view plain);
bool is_quantised(std::string_view plain);  // it makes, reads or computes with codes
bool is_clamp(std::string_view plain);
bool picks_elements(std::string_view plain);  // by numbers: gather, index_select, embedding
bool is_detach(std::string_view plain);       // what follows has no gradient
bool is_commutative(std::string_view plain);  // its first two inputs may be written in either order
bool keeps_zero(std::string_view plain);      // a 0 in any of its inputs stays 0
bool is_linear(std::string_view plain);       // its result is a sum of its inputs, each times a number or 1
bool only_adds_up(std::string_view plain);    // sums and products: of finite inputs it is infinite by its size alone
bool gives_norm(std::string_view plain);      // also of each tensor of a list
// Elements of one input are multiplied with each other. `reduce`: the argument of that name, `prod`.
bool multiplies_along(std::string_view plain, std::string_view reduce);
bool decomposes_matrix(std::string_view plain);  // into values, whose differences its derivative divides by
bool is_addition(std::string_view plain);        // element by element
bool replaces_nan(std::string_view plain);
bool shows_memory(std::string_view plain);           // the same bytes, maybe as another type
bool adds_dimension(std::string_view plain);         // which may be behind the last one
bool arranges_elements(std::string_view plain);      // moves them to other places, or takes some of them
bool orders_dimensions(std::string_view plain);      // the order of the dimensions in its call matters
bool writes_chosen_numbers(std::string_view plain);  // those that the program wrote, or none

}  // namespace sonde
