// Questions about an operator that its type answers. A `plain` type is bare_type() or shared_type() of it.
#pragma once

#include <string>
#include <string_view>

namespace sonde {

// --- of the type as the host writes it
// `_foreach_…`: lists of tensors, element by element.
bool is_list_op(std::string_view op_type);
// `_fused_adam_`: the whole update of an optimizer.
bool is_fused_optimizer(std::string_view op_type);
// It makes ones like the loss, from which backward begins.
bool begins_backward(std::string_view op_type);
// The plain type of the work for one tensor: "mul" for `_foreach_mul_`.
std::string single_type(std::string_view op_type);
std::string single_type_of_plain(std::string_view plain);

// --- of the plain type
bool gives_loss(std::string_view plain);        // a loss or an entropy
bool is_cross_entropy(std::string_view plain);  // its targets are classes
bool is_softmax(std::string_view plain);        // also of a larger op that begins or ends with one
bool is_gradient(std::string_view plain);       // of another op
bool is_batch_norm(std::string_view plain);
bool is_norm(std::string_view plain);
bool is_mean(std::string_view plain);  // its sum is divided by the number of terms
bool is_forward_convolution(std::string_view plain);
bool is_product(std::string_view plain);    // of two tensors, element by element
bool is_quantised(std::string_view plain);  // it makes, reads or computes with codes
bool is_clamp(std::string_view plain);
bool picks_elements(std::string_view plain);  // by numbers: gather, index_select, embedding
bool is_detach(std::string_view plain);       // what follows has no gradient

}  // namespace sonde
