// Operators that move and choose elements.

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "ask/relations/known_functions.h"
#include "ask/relations/views.h"

namespace sonde {
namespace {

void add_axes(KnownFunctions& all, const Dense& x, const Dense& result) {
  if (x.values.size() != result.values.size()) return;
  add_function(all, [shape = result.shape](const DenseInputs& in) { return with_shape(*in[0], shape); });
  for (const std::vector<std::size_t>& order : orders_of(x.shape.size())) {
    add_function(all, [order, shape = result.shape](const DenseInputs& in) {
      return with_shape(with_axes(*in[0], order), shape);
    });
  }
}

// Each element of the result is one of an input, or a number that none has.
void add_places(KnownFunctions& all, const DenseInputs& inputs, const Dense& result) {
  struct Place {
    std::size_t input, at;
    bool is_only;
  };
  std::unordered_map<double, Place> places;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    for (std::size_t i = 0; i < inputs[k]->values.size(); ++i) {
      const auto [found, is_new] = places.try_emplace(inputs[k]->values[i], Place{k, i, true});
      if (!is_new) found->second.is_only = false;
    }
  }
  std::vector<Place> of;
  for (const double value : result.values) {
    const auto found = places.find(value);
    if (found != places.end() && !found->second.is_only) return;
    of.push_back(found == places.end() ? Place{inputs.size(), 0, true} : found->second);
  }
  add_function(all, [of = std::move(of), result](const DenseInputs& in) -> std::optional<Dense> {
    Dense moved = result;
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (of[i].input >= in.size()) continue;
      const std::vector<double>& from = in[of[i].input]->values;
      if (of[i].at >= from.size()) return std::nullopt;  // the inputs are of other sizes
      moved.values[i] = from[of[i].at];
    }
    return moved;
  });
}

// Indices `start` to `start + count` of an axis.
Dense part_of(const Dense& x, std::size_t axis, std::size_t start, std::size_t count) {
  const std::size_t stride = strides_of(x.shape)[axis], size = static_cast<std::size_t>(x.shape[axis]);
  Dense part{x.shape, {}};
  part.shape[axis] = static_cast<std::int64_t>(count);
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const std::size_t at = i / stride % size;
    if (at >= start && at < start + count) part.values.push_back(x.values[i]);
  }
  return part;
}

void add_parts(KnownFunctions& all, const Dense& x, const Dense& result) {
  if (result.values.empty() || x.values.size() <= result.values.size()) return;
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    const auto size = static_cast<std::size_t>(x.shape[axis]);
    const std::size_t each = x.values.size() / size, count = result.values.size() / each;
    constexpr std::size_t kMostStarts = 64;
    if (each * count != result.values.size() || size > kMostStarts) continue;
    for (std::size_t start = 0; start + count <= size; ++start) {
      add_function(all, [=, shape = result.shape](const DenseInputs& in) -> std::optional<Dense> {
        return with_shape(part_of(*in[0], axis, start, count), shape);
      });
    }
  }
}

// The elements several times: as a whole, or along an axis of one.
void add_repeats(KnownFunctions& all, const Dense& x, const Dense& result) {
  if (x.values.empty() || result.values.size() <= x.values.size()) return;
  add_function(all, [result](const DenseInputs& in) {
    return both_by(*in[0], Dense{result.shape, std::vector<double>(result.values.size())}, std::plus<>());
  });
  if (result.values.size() % x.values.size() != 0) return;
  add_function(all, [result](const DenseInputs& in) {
    Dense repeated = result;
    for (std::size_t i = 0; i < repeated.values.size(); ++i)
      repeated.values[i] = in[0]->values[i % in[0]->values.size()];
    return std::optional(repeated);
  });
}

void add_joins(KnownFunctions& all, const Dense& result) {
  for (std::size_t axis = 0; axis < result.shape.size(); ++axis) {
    add_function(all, [axis, shape = result.shape](const DenseInputs& in) -> std::optional<Dense> {
      const std::size_t inner = strides_of(shape)[axis];
      std::size_t outer = 1;
      for (std::size_t i = 0; i < axis; ++i) outer *= static_cast<std::size_t>(shape[i]);
      Dense joined{shape, {}};
      for (std::size_t i = 0; i < outer; ++i) {
        for (const Dense* one : in) {
          const std::size_t size = one->values.size() / outer;
          if (size % inner != 0) return std::nullopt;
          const auto first = one->values.begin() + static_cast<std::ptrdiff_t>(i * size);
          joined.values.insert(joined.values.end(), first, first + static_cast<std::ptrdiff_t>(size));
        }
      }
      return joined.values.size() == elements_of(shape) ? std::optional(joined) : std::nullopt;
    });
  }
}

// NaN is none.
bool is_index(double value, std::int64_t size) { return value >= 0 && value < static_cast<double>(size); }

// Along an axis, by numbers of the shape of the result: `places`: to these, else from these.
void add_by_numbers(KnownFunctions& all, const Dense& x, bool places) {
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    add_function(all, [axis, places](const DenseInputs& in) -> std::optional<Dense> {
      const Dense &base = *in[0], &ids = *in[1];
      if (ids.shape.size() != base.shape.size() || (places && in[2]->shape != ids.shape)) return std::nullopt;
      const std::vector<std::size_t> strides = strides_of(base.shape);
      Dense result = places ? base : ids;
      for (std::size_t flat = 0; flat < ids.values.size(); ++flat) {
        std::size_t at = 0, rest = flat;
        for (std::size_t i = ids.shape.size(); i-- > 0;) {
          const auto size = static_cast<std::size_t>(ids.shape[i]);
          const double index = i == axis ? ids.values[flat] : static_cast<double>(rest % size);
          rest /= size;
          if (!is_index(index, base.shape[i])) return std::nullopt;
          at += static_cast<std::size_t>(index) * strides[i];
        }
        (places ? result.values[at] : result.values[flat]) = places ? in[2]->values[flat] : base.values[at];
      }
      return result;
    });
  }
}

// Rows of the first input by the numbers of the second one.
std::optional<Dense> rows_of(const Dense& table, const Dense& ids) {
  if (table.shape.empty() || table.shape[0] == 0) return std::nullopt;
  const std::size_t width = table.values.size() / static_cast<std::size_t>(table.shape[0]);
  if (ids.values.size() * width > kMostElementsAgain) return std::nullopt;
  Dense result{ids.shape, {}};
  result.shape.insert(result.shape.end(), table.shape.begin() + 1, table.shape.end());
  for (double id : ids.values) {
    if (id < 0) id += static_cast<double>(table.shape[0]);
    if (!is_index(id, table.shape[0])) return std::nullopt;
    const auto first = table.values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(id) * width);
    result.values.insert(result.values.end(), first, first + static_cast<std::ptrdiff_t>(width));
  }
  return result;
}

// Elements that a mask chooses.
void add_masks(KnownFunctions& all, std::string_view type, std::size_t inputs, double number) {
  const auto chosen = [](const Dense& mask, const Dense& yes, const Dense& no) -> std::optional<Dense> {
    const auto marked = both_by(mask, yes, [](double is, double value) { return is != 0 ? value : NAN; });
    const auto others = both_by(mask, no, [](double is, double value) { return is != 0 ? NAN : value; });
    if (!marked || !others) return std::nullopt;
    return both_by(*marked, *others, [](double a, double b) { return std::isnan(a) ? b : a; });
  };
  const Dense other{{1}, {number}};
  if (type == "maskedfill" && inputs == 2)
    add_function(all, [=](const DenseInputs& in) { return chosen(*in[1], other, *in[0]); });
  if (type != "where") return;
  if (inputs == 3) add_function(all, [=](const DenseInputs& in) { return chosen(*in[0], *in[1], *in[2]); });
  if (inputs != 2) return;
  add_function(all, [=](const DenseInputs& in) { return chosen(*in[0], *in[1], other); });
  add_function(all, [=](const DenseInputs& in) { return chosen(*in[0], other, *in[1]); });
}

}  // namespace

void add_moves(KnownFunctions& all, std::string_view type, const DenseInputs& inputs, const Dense& result) {
  if (inputs.size() == 2 && (type == "index" || type == "embedding")) {
    add_function(all, [](const DenseInputs& in) { return rows_of(*in[0], *in[1]); });
  }
  if (inputs.size() == 1) {
    add_axes(all, *inputs[0], result);
    add_parts(all, *inputs[0], result);
    add_repeats(all, *inputs[0], result);
  }
  if (type == "cat" || type == "stack") add_joins(all, result);
  add_places(all, inputs, result);
}

void add_choices(KnownFunctions& all, std::string_view type, const DenseInputs& inputs, const Dense& result,
                 std::optional<double> number) {
  if (type == "scatter" && inputs.size() == 3) add_by_numbers(all, *inputs[0], true);
  if (type == "gather" && inputs.size() == 2) add_by_numbers(all, *inputs[0], false);
  if (type != "maskedfill" && type != "where") return;
  // The number that it puts there, which not all dumps have, is one of the results.
  const std::size_t mask = type == "where" ? 0 : inputs.size() - 1;
  std::vector<double> numbers{number.value_or(-INFINITY)};
  for (const double wanted : {1.0, 0.0}) {
    const auto at = std::ranges::find_if(inputs[mask]->values, [&](double is) { return (is != 0) == (wanted != 0); });
    const auto place = static_cast<std::size_t>(at - inputs[mask]->values.begin());
    if (place < result.values.size()) numbers.push_back(result.values[place]);
  }
  for (const double one : numbers) add_masks(all, type, inputs.size(), one);
}

}  // namespace sonde
