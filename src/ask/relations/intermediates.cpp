#include "ask/relations/intermediates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "read/measure/values.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

constexpr std::int64_t kMostElements = 1 << 22;  // of an operator that is looked into

struct Dense {
  std::vector<std::int64_t> shape;
  std::vector<double> values;

  std::int64_t size(std::size_t from_the_end) const { return shape[shape.size() - from_the_end]; }
};

std::vector<double> mapped(const std::vector<double>& values, const auto& function) {
  std::vector<double> result(values.size());
  std::ranges::transform(values, result.begin(), function);
  return result;
}

// One operator of the pool, with its inputs by slot.
class Call {
 public:
  Call(Pool& pool, std::uint32_t op) : pool_(pool), op_(op) {}

  std::optional<Dense> input(std::uint32_t slot) const {
    const PoolOp& own = pool_.ops[op_];
    for (std::size_t i = 0; i < own.inputs.size(); ++i) {
      if (own.slots[i] == slot) return load(own.inputs[i]);
    }
    return std::nullopt;
  }
  std::optional<Dense> output() const {
    const PoolOp& own = pool_.ops[op_];
    return own.outputs.empty() ? std::nullopt : load(own.outputs[0]);
  }

  double number(std::string_view name, double otherwise) const {
    return number_in(pool_.catalog_op(op_), name).value_or(otherwise);
  }
  bool is_set(std::string_view name) const { return number(name, 0) != 0; }
  std::int64_t count(std::string_view name) const {
    const Attribute* found = attribute_of(pool_.catalog_op(op_), name);
    return found == nullptr ? 0 : static_cast<std::int64_t>(found->integers.size());
  }

  void add(std::vector<std::int64_t> shape, std::vector<double> values) const {
    pool_.add_computed(op_, std::move(shape), std::move(values));
  }

 private:
  std::optional<Dense> load(std::uint32_t tensor) const {
    const PoolValues values = pool_.values_of(tensor);
    if (!values || values.view().elements() > kMostElements) return std::nullopt;
    const TensorView whole = values.view();
    return Dense{{whole.shape.begin(), whole.shape.end()}, all_values(whole)};
  }

  Pool& pool_;
  const std::uint32_t op_;
};

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

void add_batch_norm(const Call& call) {
  const std::optional<Dense> x = call.input(0), weight = call.input(1);
  if (!x || x->shape.size() < 2 || !(call.is_set("training") || call.is_set("train"))) return;
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

double logistic(double value) { return 1 / (1 + std::exp(-value)); }

// The gates and states of each step of one layer in one direction.
class Lstm {
 public:
  explicit Lstm(const Call& call) : call_(call) {}

  void add() {
    std::optional<Dense> x = call_.input(0);
    const std::optional<Dense> h = call_.input(1), c = call_.input(2), wx = call_.input(3), wh = call_.input(4);
    const bool has_biases = call_.is_set("has_biases");
    const std::optional<Dense> bx = call_.input(5), bh = call_.input(6);
    const bool is_plain = call_.number("num_layers", 1) == 1 && !call_.is_set("bidirectional");
    if (!is_plain || !x || !h || !c || !wx || !wh || x->shape.size() != 3 || (has_biases && (!bx || !bh))) return;
    const bool batch_first = call_.is_set("batch_first");
    steps_ = x->shape[batch_first ? 1 : 0];
    batch_ = x->shape[batch_first ? 0 : 1];
    inputs_ = x->shape[2];
    hidden_ = wh->shape.back();
    if (wx->values.size() != static_cast<std::size_t>(4 * hidden_ * inputs_)) return;
    std::vector<double> state = h->values, cell = c->values;
    for (std::int64_t t = 0; t < steps_; ++t) {
      std::vector<double> gates(static_cast<std::size_t>(batch_ * 4 * hidden_)), of_input = gates, of_state = gates;
      for (std::int64_t b = 0; b < batch_; ++b) {
        const double* row = x->values.data() + (batch_first ? b * steps_ + t : t * batch_ + b) * inputs_;
        const double* old = state.data() + b * hidden_;
        for (std::int64_t g = 0; g < 4 * hidden_; ++g) {
          const double* of_x = wx->values.data() + g * inputs_;
          const double* of_h = wh->values.data() + g * hidden_;
          const auto at = static_cast<std::size_t>(g);
          const auto place = static_cast<std::size_t>(b * 4 * hidden_ + g);
          of_input[place] = std::inner_product(row, row + inputs_, of_x, 0.0);
          of_state[place] = std::inner_product(old, old + hidden_, of_h, 0.0);
          gates[place] = of_input[place] + of_state[place] + (has_biases ? bx->values[at] + bh->values[at] : 0);
        }
      }
      std::vector<double> both = of_input;
      for (std::size_t i = 0; i < both.size(); ++i) both[i] += of_state[i];
      const std::vector<double>* parts[] = {&of_input, &of_state, &both};
      for (const std::vector<double>* part : parts) call_.add({batch_, 4 * hidden_}, *part);
      advance(gates, state, cell);
    }
  }

 private:
  void advance(const std::vector<double>& gates, std::vector<double>& state, std::vector<double>& cell) const {
    const std::vector<std::int64_t> shape{batch_, hidden_};
    const auto gate = [&](std::int64_t number, const auto& function) {
      std::vector<double> part;
      for (std::int64_t b = 0; b < batch_; ++b) {
        for (std::int64_t i = 0; i < hidden_; ++i) {
          part.push_back(function(gates[static_cast<std::size_t>((b * 4 + number) * hidden_ + i)]));
        }
      }
      return part;
    };
    call_.add({batch_, 4 * hidden_}, gates);
    const std::vector<double> in = gate(0, logistic), forget = gate(1, logistic), out = gate(3, logistic);
    const std::vector<double> fresh = gate(2, [](double value) { return std::tanh(value); });
    std::vector<double> kept(cell.size()), added(cell.size());
    for (std::size_t i = 0; i < cell.size(); ++i) {
      kept[i] = forget[i] * cell[i];
      added[i] = in[i] * fresh[i];
      cell[i] = kept[i] + added[i];
    }
    const std::vector<double> bent = mapped(cell, [](double value) { return std::tanh(value); });
    for (std::size_t i = 0; i < cell.size(); ++i) state[i] = out[i] * bent[i];
    const std::vector<double>* parts[] = {&in, &forget, &fresh, &out, &kept, &added, &cell, &bent, &state};
    for (const std::vector<double>* part : parts) call_.add(shape, *part);
  }

  const Call& call_;
  std::int64_t steps_ = 0, batch_ = 0, inputs_ = 0, hidden_ = 0;
};

void add_loss(const Call& call) {
  const std::optional<Dense> x = call.input(0);
  if (!x || x->shape.size() != 2) return;
  std::vector<double> shares(x->values.size()), logarithms(x->values.size());
  const auto width = static_cast<std::size_t>(x->shape[1]);
  for (std::size_t row = 0; row < shares.size(); row += width) {
    double sum = 0;
    for (std::size_t i = row; i < row + width; ++i) sum += std::exp(x->values[i]);
    for (std::size_t i = row; i < row + width; ++i) {
      shares[i] = std::exp(x->values[i]) / sum;
      logarithms[i] = std::log(shares[i]);
    }
  }
  call.add(x->shape, std::move(shares));
  call.add(x->shape, std::move(logarithms));
}

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
  } else if (type == "conv2d") {
    add_product(call, 2, 3);
  } else if (type == "scaleddotproductattention") {
    Attention(call).add();
  } else if (type == "lstm") {
    Lstm(call).add();
  } else if (type == "silu") {
    if (const auto x = call.input(0)) call.add(x->shape, mapped(x->values, logistic));
  } else if (type == "crossentropyloss") {
    add_loss(call);
  }
}

}  // namespace

bool add_intermediates(Pool& pool, const Region& region) {
  constexpr std::size_t kMostOps = 256;
  const std::size_t before = pool.tensors.size();
  for (std::size_t i = 0; i < std::min(region.ops.size(), kMostOps); ++i) look_into(pool, region.ops[i]);
  return pool.tensors.size() > before;
}

}  // namespace sonde
