// The role of an operator in a training: a weight, a gradient, an activation, or just an operator.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "read/catalog/catalog.h"

namespace sonde {

enum class NodeCategory : std::uint8_t { tensor, weight, gradient, activation };
std::string_view word_of(NodeCategory category);  // "weight"
std::optional<NodeCategory> category_of_word(std::string_view word);

// By MindSpore's rules for names and types, extended to the names of PyTorch. Everything is of the category `tensor`.
bool is_of(NodeCategory category, const CatalogOp& op);

// The state that an optimizer keeps for a parameter, by its name in lower case: `exp_avg.fc.weight`.
bool is_optimizer_state(std::string_view name);

// msprobe has no nodes for parameters: true for an input of a module that is one of its weights.
bool is_weight_of_module(const CatalogOp& op, const CatalogTensor& tensor);

// The type of an operator without the differences between frameworks: lower case, no underscores, so that
// `leaky_relu_`, `LeakyReLU` and `_leaky_relu` are equal.
std::string plain_type(std::string_view op_type);

}  // namespace sonde
