// Computes with tensors as numbers, without a framework: only for tensors of a few elements.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ask/relations/inside_call.h"

namespace sonde {

inline constexpr std::size_t kMostElementsAgain = 1 << 18;  // of a result

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

// Elements between neighbours along each axis.
std::vector<std::size_t> strides_of(const std::vector<std::int64_t>& shape);
Dense with_shape(const Dense& x, std::vector<std::int64_t> shape);
// Element by element, as a broadcast pairs them.
std::optional<Dense> both_by(const Dense& a, const Dense& b, const std::function<double(double, double)>& function);
// Over the last two axes; those before are of a batch.
std::optional<Dense> product(const Dense& a, const Dense& b);
// "bqd,bkd->bqk" of two tensors.
std::optional<Dense> contracted(const std::string& equation, const Dense& a, const Dense& b);

}  // namespace sonde
