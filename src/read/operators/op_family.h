// The computation of an op, in words common to frameworks: `Conv2D` and `conv2d` are one family, and of one kind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sonde {

// How errors arise in an op, and how it passes on the errors of its inputs.
enum class OpKind : std::uint8_t {
  copy,            // moves elements and computes nothing: reshape, transpose, slice, concatenation, gather
  exact,           // takes one of its elements, or its negative: relu, max, where, clamp
  cast,            // to another type, or a copy that may be one
  elementwise,     // one rounding or a few for each element
  transcendental,  // exp, log, tanh, gelu, …: a few roundings more
  contraction,     // sums of products: matmul, convolution, attention
  reduction,       // sums, means
  normalization,   // batch norm, layer norm, softmax: a reduction, then elements over it
  selection,       // a small cause may have a large effect: comparisons, argmax, masks of a gradient
  random,          // dropout, random numbers
  collective,      // between ranks
  other,           // unknown
};
std::string_view word_of(OpKind kind);  // "contraction"
constexpr bool moves_or_casts(OpKind kind) { return kind == OpKind::copy || kind == OpKind::cast; }

OpKind kind_of(std::string_view op_type);

// True if the number of result elements depends on the values of its inputs: nonzero, unique, a mask.
bool shape_follows_values(std::string_view op_type);

// "layernorm" for layer_norm, native_layer_norm and LayerNorm; "layernormgrad" for their gradients.
std::string shared_type(std::string_view op_type);

// Finds types that do the same work, by their plain names and the table of op_types.inc. Not thread-safe.
class OpFamilies {
 public:
  using Family = std::vector<std::uint32_t>;  // sorted
  const Family& of(std::string_view op_type);
  static bool same(const Family& a, const Family& b);  // they share a name

 private:
  std::uint32_t number_of(const std::string& plain);

  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::unordered_map<std::string, Family> families_;
};

}  // namespace sonde
