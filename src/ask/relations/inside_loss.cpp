#include "ask/relations/inside_loss.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace sonde {
namespace {

// The logarithms that the labels choose, and their negatives.
void add_chosen(const Call& call, const std::vector<double>& logarithms, std::size_t width) {
  const std::optional<Dense> labels = call.input(1);
  const std::size_t rows = logarithms.size() / width;
  if (!labels || labels->values.size() != rows) return;
  std::vector<double> chosen;
  for (std::size_t row = 0; row < rows; ++row) {
    const double label = labels->values[row];
    if (label < 0 || label >= static_cast<double>(width)) return;  // ignored ones
    chosen.push_back(logarithms[row * width + static_cast<std::size_t>(label)]);
  }
  call.add({static_cast<std::int64_t>(rows)}, chosen);
  call.add({static_cast<std::int64_t>(rows)}, mapped(chosen, [](double value) { return -value; }));
}

void add_cross_entropy(const Call& call) {
  const std::optional<Dense> x = call.input(0);
  if (!x || x->shape.size() != 2 || x->shape[1] == 0) return;
  const auto width = static_cast<std::size_t>(x->shape[1]);
  std::vector<double> shares(x->values.size()), logarithms(x->values.size());
  for (std::size_t row = 0; row < shares.size(); row += width) {
    const auto begin = x->values.begin() + static_cast<std::ptrdiff_t>(row);
    const double most = *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(width));
    double sum = 0;
    for (std::size_t i = row; i < row + width; ++i) sum += std::exp(x->values[i] - most);
    for (std::size_t i = row; i < row + width; ++i) {
      logarithms[i] = x->values[i] - most - std::log(sum);
      shares[i] = std::exp(logarithms[i]);
    }
  }
  call.add(x->shape, std::move(shares));
  call.add(x->shape, logarithms);
  add_chosen(call, logarithms, width);
}

void add_distances(const Call& call) {
  const std::optional<Dense> x = call.input(0), y = call.input(1);
  if (!x || !y || x->values.size() != y->values.size()) return;
  std::vector<double> apart = x->values;
  for (std::size_t i = 0; i < apart.size(); ++i) apart[i] -= y->values[i];
  call.add(x->shape, apart);
  call.add(x->shape, mapped(apart, [](double value) { return -value; }));
  call.add(x->shape, mapped(apart, [](double value) { return std::abs(value); }));
  call.add(x->shape, mapped(apart, [](double value) { return value * value; }));
}

}  // namespace

void add_loss(const Call& call, std::string_view type) {
  if (type == "crossentropyloss") add_cross_entropy(call);
  if (type == "mseloss" || type == "l1loss" || type == "smoothl1loss" || type == "huberloss") add_distances(call);
}

}  // namespace sonde
