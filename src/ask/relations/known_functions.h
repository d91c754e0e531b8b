// Functions that an operator may have, by its type: what fits its recorded inputs and result is its function.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ask/relations/dense_math.h"
#include "read/catalog/catalog.h"

namespace sonde {

using DenseInputs = std::vector<const Dense*>;
using DenseFunction = std::function<std::optional<Dense>(const DenseInputs&)>;

// The function of an operator, for inputs that may be others than the recorded ones.
struct KnownFunction {
  DenseFunction apply;            // null: it is not known
  std::vector<std::size_t> axes;  // of a reduction or a softmax
  std::optional<Reduced> reduces;
  bool is_softmax = false, is_logarithm = false;
};

using KnownFunctions = std::vector<KnownFunction>;

inline void add_function(KnownFunctions& all, DenseFunction function) {
  all.push_back({.apply = std::move(function), .axes = {}, .reduces = {}});
}

// Of operators whose result has elements of the inputs, at other places.
void add_moves(KnownFunctions& all, std::string_view type, const DenseInputs& inputs, const Dense& result);
// Of operators that choose elements by numbers or by a mask. `number`: what the operator is called with.
void add_choices(KnownFunctions& all, std::string_view type, const DenseInputs& inputs, const Dense& result,
                 std::optional<double> number);
// Of one or two tensors, element by element.
void add_elementwise(KnownFunctions& all, std::string_view type, std::optional<double> number);
// Of operators that add up: products, attention, norms, sums, softmax.
void add_sums(KnownFunctions& all, const CatalogOp& op, const DenseInputs& inputs, const Dense& result);

// Of convolutions, and of norms over channels.
void add_layers(KnownFunctions& all, const CatalogOp& op, std::string_view type, const DenseInputs& inputs,
                const Dense& result);
// Of operators with numbers of their call, and of those that give what they read.
void add_with_numbers(KnownFunctions& all, const CatalogOp& op, std::string_view type, const DenseInputs& inputs,
                      std::optional<double> number);

}  // namespace sonde
