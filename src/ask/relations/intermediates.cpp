#include "ask/relations/intermediates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "ask/relations/inside_call.h"
#include "ask/relations/inside_loss.h"
#include "ask/relations/inside_recurrence.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// The values inside of a normalisation over groups of elements: `group_of` says which group an element is in.
void add_norm(const Call& call, const Dense& x, const std::vector<std::size_t>& group_of,
              const std::vector<std::int64_t>& groups, double epsilon, bool centred,
              const std::vector<double>& weight) {
  const auto count =
      static_cast<std::size_t>(std::accumulate(groups.begin(), groups.end(), std::int64_t{1}, std::multiplies<>()));
  const double terms = static_cast<double>(x.values.size()) / static_cast<double>(count);
  std::vector<double> mean(count), variance(count), from_mean = x.values;
  if (centred) {
    for (std::size_t i = 0; i < x.values.size(); ++i) mean[group_of[i]] += x.values[i] / terms;
    for (std::size_t i = 0; i < x.values.size(); ++i) from_mean[i] -= mean[group_of[i]];
    call.add(groups, mean);
    call.add(x.shape, from_mean);
  }
  const std::vector<double> squares = mapped(from_mean, [](double value) { return value * value; });
  call.add(x.shape, squares);
  for (std::size_t i = 0; i < squares.size(); ++i) variance[group_of[i]] += squares[i];
  call.add(groups, variance);
  for (double& value : variance) value /= terms;
  call.add(groups, variance);
  const std::vector<double> raised = mapped(variance, [&](double value) { return value + epsilon; });
  call.add(groups, raised);
  const std::vector<double> deviation = mapped(raised, [](double value) { return std::sqrt(value); });
  call.add(groups, deviation);
  call.add(groups, mapped(deviation, [](double value) { return 1 / value; }));
  std::vector<double> normalised = from_mean;
  for (std::size_t i = 0; i < normalised.size(); ++i) normalised[i] /= deviation[group_of[i]];
  call.add(x.shape, normalised);
  if (weight.empty()) return;
  for (std::size_t i = 0; i < normalised.size(); ++i) normalised[i] *= weight[i % weight.size()];
  call.add(x.shape, normalised);
}

void add_layer_norm(const Call& call, bool centred) {
  const std::optional<Dense> x = call.input(0),
                             weight = call.input(centred && call.count("normalized_shape") == 0 ? 2 : 1);
  if (!x || x->shape.empty()) return;
  const std::size_t axes = std::max<std::int64_t>(1, call.count("normalized_shape"));
  if (axes > x->shape.size()) return;
  const std::vector<std::int64_t> groups(x->shape.begin(), x->shape.end() - static_cast<std::ptrdiff_t>(axes));
  const std::size_t width = x->values.size() / static_cast<std::size_t>(std::accumulate(
                                                   groups.begin(), groups.end(), std::int64_t{1}, std::multiplies<>()));
  std::vector<std::size_t> group_of(x->values.size());
  for (std::size_t i = 0; i < group_of.size(); ++i) group_of[i] = i / width;
  const double epsilon = call.number("eps", centred ? 1e-5 : std::numeric_limits<float>::epsilon());
  const bool has_weight = weight && weight->values.size() == width;
  add_norm(call, *x, group_of, groups, epsilon, centred, has_weight ? weight->values : std::vector<double>{});
}

// With the statistics that the run keeps: the distance from the mean, and the root of the variance.
void add_kept_batch_norm(const Call& call, const Dense& x) {
  const std::optional<Dense> weight = call.input(1), mean = call.input(3), variance = call.input(4);
  const auto channels = static_cast<std::size_t>(x.shape[1]);
  if (!mean || !variance || mean->values.size() != channels || variance->values.size() != channels) return;
  const std::size_t inner = x.values.size() / (static_cast<std::size_t>(x.shape[0]) * channels);
  const auto channel_of = [&](std::size_t i) { return i / inner % channels; };
  const double epsilon = call.number("eps", 1e-5);
  const std::vector<double> raised = mapped(variance->values, [&](double value) { return value + epsilon; });
  const std::vector<double> deviation = mapped(raised, [](double value) { return std::sqrt(value); });
  const std::vector<double> factor = mapped(deviation, [](double value) { return 1 / value; });
  for (const std::vector<double>* numbers : {&raised, &deviation, &factor}) call.add({x.shape[1]}, *numbers);
  std::vector<double> inside = x.values;
  for (std::size_t i = 0; i < inside.size(); ++i) inside[i] -= mean->values[channel_of(i)];
  call.add(x.shape, inside);
  for (std::size_t i = 0; i < inside.size(); ++i) inside[i] *= factor[channel_of(i)];
  call.add(x.shape, inside);
  if (!weight || weight->values.size() != channels) return;
  std::vector<double> scale = factor;
  for (std::size_t i = 0; i < channels; ++i) scale[i] *= weight->values[i];
  call.add({x.shape[1]}, std::move(scale));
  for (std::size_t i = 0; i < inside.size(); ++i) inside[i] *= weight->values[channel_of(i)];
  call.add(x.shape, std::move(inside));
}

void add_batch_norm(const Call& call) {
  const std::optional<Dense> x = call.input(0), weight = call.input(1);
  if (!x || x->shape.size() < 2) return;
  if (!call.is_set("training") && !call.is_set("train")) return add_kept_batch_norm(call, *x);
  const auto channels = static_cast<std::size_t>(x->shape[1]);
  const std::size_t inner = x->values.size() / (static_cast<std::size_t>(x->shape[0]) * channels);
  std::vector<std::size_t> group_of(x->values.size());
  std::vector<double> by_element;
  for (std::size_t i = 0; i < group_of.size(); ++i) group_of[i] = i / inner % channels;
  if (weight && weight->values.size() == channels) {
    for (const std::size_t channel : group_of) by_element.push_back(weight->values[channel]);
  }
  add_norm(call, *x, group_of, {x->shape[1]}, call.number("eps", 1e-5), true, by_element);
}

void add_group_norm(const Call& call) {
  const std::optional<Dense> x = call.input(0), weight = call.input(1);
  const double wanted = call.number("num_groups", call.number("group", 0));
  if (!x || x->shape.size() < 2 || wanted < 1) return;
  const auto groups = static_cast<std::size_t>(wanted), channels = static_cast<std::size_t>(x->shape[1]);
  if (channels % groups != 0) return;
  const std::size_t inner = x->values.size() / (static_cast<std::size_t>(x->shape[0]) * channels);
  std::vector<std::size_t> group_of(x->values.size());
  std::vector<double> by_element;
  for (std::size_t i = 0; i < group_of.size(); ++i) group_of[i] = i / (inner * (channels / groups));
  if (weight && weight->values.size() == channels) {
    for (std::size_t i = 0; i < group_of.size(); ++i) by_element.push_back(weight->values[i / inner % channels]);
  }
  add_norm(call, *x, group_of, {x->shape[0], static_cast<std::int64_t>(groups)}, call.number("eps", 1e-5), true,
           by_element);
}

// The second half through a logistic function, which the first half is multiplied by.
void add_gated(const Call& call) {
  const std::optional<Dense> x = call.input(0), y = call.output();
  if (!x || !y || 2 * y->values.size() != x->values.size()) return;
  const auto axes = static_cast<std::int64_t>(x->shape.size());
  const auto dim = static_cast<std::int64_t>(call.number("dim", -1));
  const auto axis = static_cast<std::size_t>(dim < 0 ? dim + axes : dim);
  if (axis >= x->shape.size()) return;
  std::size_t inner = 1;
  for (std::size_t i = axis + 1; i < x->shape.size(); ++i) inner *= static_cast<std::size_t>(x->shape[i]);
  const std::size_t half = inner * static_cast<std::size_t>(x->shape[axis]) / 2;
  std::vector<double> kept, gate;
  for (std::size_t i = 0; i < x->values.size(); ++i) (i / half % 2 == 0 ? kept : gate).push_back(x->values[i]);
  call.add(y->shape, kept);
  call.add(y->shape, gate);
  call.add(y->shape, mapped(gate, logistic_of));
}

// Along the last axis: powers of the distances from the largest, and their sums.
void add_softmax(const Call& call) {
  const std::optional<Dense> x = call.input(0);
  const double axis = call.number("dim", -1);
  if (!x || x->shape.empty() || (axis != -1 && axis != static_cast<double>(x->shape.size()) - 1)) return;
  const auto width = static_cast<std::size_t>(x->size(1));
  if (width < 2) return;
  std::vector<double> powers = x->values, sums;
  for (std::size_t row = 0; row < powers.size(); row += width) {
    const auto begin = powers.begin() + static_cast<std::ptrdiff_t>(row), end = begin + x->size(1);
    const double most = *std::max_element(begin, end);
    if (std::isinf(most)) return;
    std::transform(begin, end, begin, [&](double value) { return std::exp(value - most); });
    sums.push_back(std::accumulate(begin, end, 0.0));
  }
  call.add(x->shape, std::move(powers));
  std::vector<std::int64_t> shape = x->shape;
  shape.back() = 1;
  call.add(std::move(shape), std::move(sums));
}

// y - b: what a product gives before its bias is added.
void add_product(const Call& call, std::uint32_t bias_slot, std::size_t axis_from_the_end) {
  const std::optional<Dense> y = call.output(), bias = call.input(bias_slot);
  if (!y || !bias || y->shape.size() < axis_from_the_end) return;
  std::size_t inner = 1;
  for (std::size_t i = 1; i < axis_from_the_end; ++i) inner *= static_cast<std::size_t>(y->size(i));
  if (static_cast<std::int64_t>(bias->values.size()) != y->size(axis_from_the_end)) return;
  std::vector<double> product = y->values;
  for (std::size_t i = 0; i < product.size(); ++i) product[i] -= bias->values[i / inner % bias->values.size()];
  call.add(y->shape, std::move(product));
}

class Attention {
 public:
  explicit Attention(const Call& call) : call_(call) {}

  void add() {
    const std::optional<Dense> q = call_.input(0), k = call_.input(1), v = call_.input(2);
    if (!q || !k || !v || q->shape.size() < 2 || k->shape.size() != q->shape.size()) return;
    rows_ = q->size(2);
    columns_ = k->size(2);
    width_ = q->size(1);
    if (rows_ == 0 || columns_ == 0 || width_ == 0 || k->size(1) != width_) return;
    matrices_ = static_cast<std::int64_t>(q->values.size()) / (rows_ * width_);
    const std::int64_t keys = static_cast<std::int64_t>(k->values.size()) / (columns_ * width_);
    if (keys == 0 || matrices_ % keys != 0 || matrices_ * rows_ * columns_ > kMostElements) return;
    shape_ = q->shape;
    shape_.back() = columns_;
    const double scale = call_.number("scale", 1 / std::sqrt(static_cast<double>(width_)));
    std::vector<double> scores = products(*q, *k, matrices_ / keys);
    call_.add(shape_, scores);
    call_.add(q->shape, mapped(q->values, [&](double value) { return value * scale; }));
    for (double& score : scores) score *= scale;
    call_.add(shape_, scores);
    hide(scores);
    call_.add(shape_, scores);
    soften(scores);
    call_.add(shape_, scores);
  }

 private:
  std::vector<double> products(const Dense& q, const Dense& k, std::int64_t repeats) const {
    std::vector<double> scores(static_cast<std::size_t>(matrices_ * rows_ * columns_));
    for (std::int64_t m = 0; m < matrices_; ++m) {
      for (std::int64_t i = 0; i < rows_; ++i) {
        for (std::int64_t j = 0; j < columns_; ++j) {
          const double* row = q.values.data() + (m * rows_ + i) * width_;
          const double* column = k.values.data() + (m / repeats * columns_ + j) * width_;
          scores[static_cast<std::size_t>((m * rows_ + i) * columns_ + j)] =
              std::inner_product(row, row + width_, column, 0.0);
        }
      }
    }
    return scores;
  }

  // By the mask, or what lies ahead.
  void hide(std::vector<double>& scores) const {
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    if (call_.is_set("is_causal")) {
      std::vector<double> hidden(static_cast<std::size_t>(rows_ * columns_)), seen = hidden;
      for (std::size_t i = 0; i < scores.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i) / columns_ % rows_,
                   column = static_cast<std::int64_t>(i) % columns_;
        if (column > row) scores[i] = kHidden;
        hidden[static_cast<std::size_t>(row * columns_ + column)] = column > row;
        seen[static_cast<std::size_t>(row * columns_ + column)] = column <= row;
      }
      call_.add({rows_, columns_}, hidden);
      call_.add({rows_, columns_}, seen);
    }
    const std::optional<Dense> mask = call_.input(3);
    if (!mask || mask->values.empty()) return;
    const bool is_switch = std::ranges::all_of(mask->values, [](double value) { return value == 0 || value == 1; });
    const std::vector<std::int64_t> place_of = strides_in(*mask);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const double value = mask->values[static_cast<std::size_t>(place_in(place_of, static_cast<std::int64_t>(i)))];
      if (is_switch && value == 0) scores[i] = kHidden;
      if (!is_switch) scores[i] += value;
    }
    if (!is_switch) return;
    call_.add(mask->shape, mapped(mask->values, [](double value) { return 1 - value; }));
    add_row_of(*mask);
  }

  // A mask of keys is often repeated for each query.
  void add_row_of(const Dense& mask) const {
    if (mask.shape.size() < 2 || mask.size(2) < 2) return;
    const std::int64_t rows = mask.size(2), width = mask.size(1);
    std::vector<double> first;
    for (std::size_t i = 0; i < mask.values.size(); ++i) {
      const std::int64_t flat = static_cast<std::int64_t>(i), row = flat / width % rows;
      if (mask.values[i] != mask.values[static_cast<std::size_t>(flat - row * width)]) return;
      if (row == 0) first.push_back(mask.values[i]);
    }
    std::vector<std::int64_t> shape = mask.shape;
    shape[shape.size() - 2] = 1;
    call_.add(shape, mapped(first, [](double value) { return 1 - value; }));
    call_.add(shape, std::move(first));
  }

  // By axis of the scores: how far the mask's next element is; 0 where it is repeated.
  std::vector<std::int64_t> strides_in(const Dense& mask) const {
    std::vector<std::int64_t> strides(shape_.size());
    std::int64_t stride = 1;
    for (std::size_t i = 1; i <= std::min(mask.shape.size(), shape_.size()); ++i) {
      strides[shape_.size() - i] = mask.size(i) == 1 ? 0 : stride;
      stride *= mask.size(i);
    }
    return strides;
  }
  std::int64_t place_in(const std::vector<std::int64_t>& strides, std::int64_t flat) const {
    std::int64_t place = 0;
    for (std::size_t axis = shape_.size(); axis-- > 0;) {
      place += flat % shape_[axis] * strides[axis];
      flat /= shape_[axis];
    }
    return place;
  }

  void soften(std::vector<double>& scores) const {
    for (std::size_t row = 0; row < scores.size(); row += static_cast<std::size_t>(columns_)) {
      const auto begin = scores.begin() + static_cast<std::ptrdiff_t>(row), end = begin + columns_;
      const double most = *std::max_element(begin, end);
      double sum = 0;
      for (auto at = begin; at != end; ++at) sum += * at = std::isinf(most) ? 0 : std::exp(*at - most);
      for (auto at = begin; at != end; ++at) *at = sum == 0 ? 0 : *at / sum;
    }
  }

  const Call& call_;
  std::vector<std::int64_t> shape_;
  std::int64_t rows_ = 0, columns_ = 0, width_ = 0, matrices_ = 0;
};

void look_into(Pool& pool, std::uint32_t op) {
  const std::string type = bare_type(pool.catalog_op(op).op_type);
  const Call call(pool, op);
  if (type == "layernorm" || type == "nativelayernorm") {
    add_layer_norm(call, true);
  } else if (type == "rmsnorm" || type == "fusedrmsnorm") {
    add_layer_norm(call, false);
  } else if (type == "batchnorm" || type == "nativebatchnorm") {
    add_batch_norm(call);
  } else if (type == "linear") {
    add_product(call, 2, 1);
  } else if (type == "addmm") {
    add_product(call, 0, 1);
  } else if (type == "conv1d" || type == "conv2d") {
    add_product(call, 2, type == "conv1d" ? 2 : 3);
  } else if (type == "groupnorm" || type == "nativegroupnorm") {
    add_group_norm(call);
  } else if (type == "glu") {
    add_gated(call);
  } else if (type == "softmax" || type == "logsoftmax") {
    add_softmax(call);
  } else if (type == "scaleddotproductattention") {
    Attention(call).add();
  } else if (type == "silu") {
    if (const auto x = call.input(0)) call.add(x->shape, mapped(x->values, logistic_of));
  } else if (!add_recurrence(call, type)) {
    add_loss(call, type);
  }
}

}  // namespace

bool add_intermediates(Pool& pool, const std::vector<std::uint32_t>& ops) {
  constexpr std::size_t kMostOps = 256;
  const std::size_t before = pool.tensors.size();
  for (std::size_t i = 0; i < std::min(ops.size(), kMostOps); ++i) look_into(pool, ops[i]);
  return pool.tensors.size() > before;
}

}  // namespace sonde
