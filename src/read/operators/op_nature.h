// OpNature: the facts that an operator's type alone gives about how NaNs and infinities pass through it.
// Names of PyTorch, MindSpore and GE are looked up in one table, ignoring case and `_`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "read/catalog/catalog.h"

namespace sonde {

struct OpNature {
  bool places = false;  // writes values that the program chose: masked_fill, where, full, …
  bool brings = false;  // makes tensors from data of the program: torch.tensor, from_numpy
  // its results are elements of its inputs, or no larger, so finite inputs give finite results
  bool only_moves = false;
  bool skips_nan = false;  // leaves NaN out: nanmean, nansum; a NaN in its output is made by the op itself
  bool mixes = false;     // adds up all of its inputs: an infinity in one is not a mask, and spreads as infinity or NaN
  bool is_power = false;  // a sum, product, power or norm: of finite inputs it is infinite only by its size
  bool shape_only = false;        // does not read the values of its input: ones_like, empty_like, …
  bool overwrites = false;        // does not read the values of input 0, which it writes: fill_, copy_, …
  bool ignores_first = false;     // its input 0 is times beta, which is 0: PyTorch does not read it
  bool tests_finite = false;      // tests for NaN or infinity: isnan, isfinite, …
  bool flips_sign = false;        // +inf may come from -inf: mul, neg, matmul, …
  bool gives_number = false;      // returns a number to the program: item
  bool gives_tangent = false;     // returns a derivative of forward mode, which is computed out of sight
  bool checks_gradients = false;  // the loss scaler looks for infinities
  bool uninitialised = false;     // its result has the old content of the memory
  bool in_place = false;          // writes one of its inputs: add_
  bool is_list = false;           // _foreach_…: lists of tensors, element by element
  bool collective = false;
  std::uint32_t first_input = 0;    // inputs before this one receive the result (of a collective of c10d)
  std::uint32_t most_inputs = ~0U;  // inputs from this one on receive the result (out=)
  // Input `first_state` and the next are running statistics that it writes, although it does not return them.
  std::uint32_t first_state = ~0U;
  std::uint32_t first_mixed = 0;  // of `mixes`: inputs before this one are only added (a bias, a mask)
};
OpNature nature_of(std::string_view op_type);
// As well as its tensors show it: `scatter_` is the name of a collective, too.
OpNature nature_of(const CatalogOp& op);

// The op reads the elements of this input: it does not only overwrite them, or look at their shape.
bool reads_values(const OpNature& nature, const CatalogTensor& input);
// It holds NaN or infinity, by its statistics, and the op reads or gives them.
bool is_not_finite(const CatalogOp& op, const CatalogTensor& tensor);

// `masked_fill_`, `MaskedFill`, `aten::masked_fill` -> "maskedfill"
std::string bare_type(std::string_view op_type);

// The phase, also in dumps where only names show it.
Phase phase_of(const CatalogOp& op);

}  // namespace sonde
