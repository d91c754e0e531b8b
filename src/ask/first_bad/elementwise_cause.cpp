// Ops whose result at one place depends on their inputs at that place.
#include <fmt/format.h>

#include <cfloat>
#include <cmath>
#include <string>

#include "ask/first_bad/bad_cause.h"
#include "ask/first_bad/formulas.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr std::size_t kElementsShown = 3;

// The second operand if it is an argument of the call and not a tensor.
std::optional<double> second_number(const OpValues& values) {
  for (const char* name : {"exponent", "other", "scalar", "y", "value"}) {
    if (const auto number = values.number(name)) return number;
  }
  return std::nullopt;
}

struct Operands {
  const SlotValues* first = nullptr;
  const SlotValues* second = nullptr;
  std::optional<double> number;  // in place of the second
  double scale = 1;              // of the second: `alpha`
};

std::optional<Operands> operands_of(OpValues& values, const Formula& formula) {
  Operands operands;
  // For `_foreach_add_(list, list)` the k-th result belongs to the k-th of each list.
  const bool is_list = values.flow().nature.is_list;
  std::uint32_t inputs = 0, outputs = 0;
  for (const CatalogTensor& tensor : values.op().tensors) (tensor.is_input ? inputs : outputs) += 1;
  const std::uint32_t skip = values.work_on_one() == OpWork::add_quotient ? 1 : 0;
  const std::uint32_t size = is_list ? outputs : 1;  // of a list
  const std::uint32_t of_list = is_list && values.output() != nullptr ? values.output()->slot : 0;
  const std::uint32_t first = of_list + skip * size;
  const std::uint32_t second = !is_list || inputs >= (2 + skip) * size ? first + size : inputs - 1;
  operands.first = values.input_values(first);
  if (operands.first == nullptr) return std::nullopt;
  if (formula.operands == 1) return operands;
  operands.second = values.input(second) != nullptr ? values.input_values(second) : nullptr;
  if (values.input(second) == nullptr || inputs <= size) operands.number = second_number(values);
  if (operands.second == nullptr && !operands.number) return std::nullopt;
  operands.scale = values.number("alpha").value_or(1);
  return operands;
}

std::string of(const SlotValues& operand, const Position& position) {
  const CatalogTensor& tensor = operand.tensor();
  const double value = operand.broadcast_at(position);
  if (tensor.constant) return number_text(value);
  return fmt::format("{}{} = {}", slot_name(true, tensor.slot), position_text(operand.broadcast(position)),
                     number_text(value));
}

// "input.0[3] = 2, input.1[3] = 0"
std::string text_of(const Operands& operands, const Formula& formula, const Position& place) {
  std::string text = of(*operands.first, place);
  if (formula.operands == 1) return text;
  return text + ", " + (operands.number ? number_text(*operands.number) : of(*operands.second, place));
}

// A number of the program's code becomes an infinity before the kernel sees it: float32 tensors take it as float32.
std::string too_large_number(OpValues& values, const Operands& operands) {
  if (values.output_type() == DType::float64 || largest_of(values.output_type()) == 0) return "";
  std::optional<double> number = operands.number;
  if (operands.second != nullptr && operands.second->tensor().constant) number = operands.second->tensor().constant;
  if (!number || !std::isfinite(*number) || std::fabs(*number) <= FLT_MAX) return "";
  return fmt::format("the number {} is more than float32 holds and becomes an infinity", number_text(*number));
}

// Why these operands give the value in the output at `place`.
void judge(OpValues& values, const Formula& formula, const Operands& operands, const Position& place, Cause& cause) {
  const double a = operands.first->broadcast_at(place);
  const double b = formula.operands == 1 ? 0
                   : operands.number     ? *operands.number
                                         : operands.second->broadcast_at(place);
  const double true_value = formula.value(a, operands.scale * b);
  const Fault fault = formula.fault(a, operands.scale * b);
  const std::string wrong = fault.text;
  const std::string text = text_of(operands, formula, place);
  cause.numbers.push_back({"input at fault", wrong.empty() || formula.operands == 1 || formula.first_at_fault ? a : b});
  if (const std::string number = formula.operands == 2 ? too_large_number(values, operands) : ""; !number.empty()) {
    cause.why = fmt::format("{}: {}", number, text);
    cause.overflow = true;
    return;
  }
  cause.pole = !wrong.empty() && std::isinf(true_value);
  if (!wrong.empty()) {
    cause.divides_by_zero = fault.divides_by_zero;
    cause.makes_nan_of_zero = fault.makes_nan_of_zero;
    cause.why = fmt::format("{}: {}", wrong, text);
  } else if (std::isfinite(true_value) && overflows(values.output_type(), true_value)) {
    cause.why = fmt::format("{} of {} is {}", values.op().op_type, text, number_text(true_value));
    explain_overflow(values.output_type(), true_value, cause);
  } else if (std::isinf(true_value) && std::isfinite(a) && std::isfinite(b)) {
    cause.why = fmt::format("{} of {} is more than any type holds", values.op().op_type, text);
    cause.overflow = true;
  } else if (std::isfinite(true_value)) {
    cause.impossible = true;
    cause.explained = false;
    cause.why = fmt::format("what was recorded of its inputs gives {} at {}, not {}", number_text(true_value),
                            place.empty() ? "its one element" : position_text(place),
                            number_text(values.output_values()->at(place)));
  } else {
    cause.why = text;
  }
}

// A complex number is divided by another one by the square of its size. Nothing else is known of complex numbers: what
// `operands` has of them is the real part.
bool complex_cause(OpValues& values, const Operands& operands, const Position& place, Cause& cause) {
  if (values.work_on_one() != OpWork::divide || operands.second == nullptr) return false;
  const double size = operands.second->magnitude_at(place);
  const double least = operands.second->tensor().dtype == DType::complex128 ? DBL_TRUE_MIN : FLT_TRUE_MIN;
  if (!(size * size < least)) return false;
  const std::uint32_t slot = operands.second->tensor().slot;
  const std::string at = slot_name(true, slot) + position_text(operands.second->broadcast(place));
  cause.why = size == 0 ? fmt::format("division by 0: {} = 0", at)
                        : fmt::format("{} has the size {}, whose square is 0 in {}: the division is one by 0", at,
                                      number_text(size), info(operands.second->tensor().dtype).lower);
  cause.evidence.push_back(fmt::format("the size of {} is {}, of {}{} {} -> {}{} = {}", at, number_text(size),
                                       slot_name(true, operands.first->tensor().slot), position_text(place),
                                       number_text(operands.first->magnitude_at(place)),
                                       slot_name(false, values.output()->slot), position_text(place),
                                       number_text(values.output_values()->at(place))));
  cause.divides_by_zero = true;
  return cause.explained = true;
}

}  // namespace

bool elementwise_cause(OpValues& values, BadKind bad, Cause& cause) {
  const Formula* found = formula_of(single_type_of_plain(values.type()));
  if (found == nullptr) return false;
  const Formula& formula = *found;
  const SlotValues* output = values.output_values();
  const std::optional<Operands> operands = operands_of(values, formula);
  if (output == nullptr || !operands) return false;
  const std::vector<Position> places =
      output->find(bad == BadKind::nan ? SlotValues::Want::nan : SlotValues::Want::inf, kElementsShown);
  if (places.empty()) return false;
  const bool complex = is_complex(values.output_type()) || is_complex(operands->first->tensor().dtype) ||
                       (operands->second != nullptr && is_complex(operands->second->tensor().dtype));
  if (complex) return complex_cause(values, *operands, places.front(), cause);
  cause.explained = true;
  judge(values, formula, *operands, places.front(), cause);
  for (const Position& place : places) {
    cause.evidence.push_back(fmt::format("{} -> {}{} = {}", text_of(*operands, formula, place),
                                         slot_name(false, values.output()->slot), position_text(place),
                                         number_text(output->at(place))));
  }
  return true;
}

}  // namespace sonde
