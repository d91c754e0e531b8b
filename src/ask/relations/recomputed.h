// Computes operators of a pool again from other inputs. An operator is known if what it would give of its recorded inputs
// is what it gave: axes and orders of elements are found that way, and need no attributes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ask/relations/inside_call.h"
#include "ask/relations/pool.h"

namespace sonde {

using DenseInputs = std::vector<const Dense*>;
using DenseFunction = std::function<std::optional<Dense>(const DenseInputs&)>;

std::size_t elements_of(const std::vector<std::int64_t>& shape);
// A score that a mask hides: beside its size, whatever differs among the others is nothing.
bool is_hidden(double value);
// Nearly the same elements in the same order.
bool is_nearly(const Dense& a, const Dense& b);
// The functions of one input that networks bend with, by their names.
const std::vector<std::pair<std::string_view, double (*)(double)>>& bending_functions();
// Over one axis.
Dense softmax_over(const Dense& x, std::size_t axis, bool is_logarithm);
enum class Reduced : std::uint8_t { sum, mean, largest };
// Over these axes, without them.
Dense reduced_over(const Dense& x, const std::vector<std::size_t>& axes, Reduced how);
// With two axes exchanged, by number.
Dense with_axes(const Dense& x, const std::vector<std::size_t>& order);
// With the last two axes exchanged; it has two.
Dense turned(const Dense& x);

// The function of an operator, for inputs that may be others than the recorded ones.
struct KnownFunction {
  DenseFunction apply;            // null: it is not known
  std::vector<std::size_t> axes;  // of a reduction or a softmax
  std::optional<Reduced> reduces;
  bool is_softmax = false, is_logarithm = false;
};

class Recomputed {
 public:
  explicit Recomputed(const Pool& pool) : pool_(pool) {}

  // Null: there are none, or too many elements.
  const Dense* recorded(std::uint32_t tensor);
  const KnownFunction& function_of(std::uint32_t op, std::size_t output);
  DenseInputs inputs_of(std::uint32_t op);  // empty: one is not recorded

 private:
  KnownFunction find(std::uint32_t op, std::size_t output);

  const Pool& pool_;
  std::map<std::uint32_t, std::optional<Dense>> recorded_;
  std::map<std::pair<std::uint32_t, std::size_t>, KnownFunction> functions_;
};

}  // namespace sonde
