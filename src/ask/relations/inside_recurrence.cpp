#include "ask/relations/inside_recurrence.h"

#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace sonde {
namespace {

// Read by one direction of one layer.
struct LayerWeights {
  Dense x, h;
  std::vector<double> x_bias, h_bias;  // zeros if there are none
};

std::vector<double> product_of(const std::vector<double>& rows, const Dense& weight, std::size_t batch) {
  const auto outputs = static_cast<std::size_t>(weight.shape[0]), width = static_cast<std::size_t>(weight.shape[1]);
  std::vector<double> result(batch * outputs);
  for (std::size_t b = 0; b < batch; ++b) {
    const double* row = rows.data() + b * width;
    for (std::size_t i = 0; i < outputs; ++i) {
      result[b * outputs + i] = std::inner_product(row, row + width, weight.values.data() + i * width, 0.0);
    }
  }
  return result;
}

std::vector<double> with_bias(std::vector<double> rows, const std::vector<double>& bias) {
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += bias[i % bias.size()];
  return rows;
}

std::vector<double> combined(const std::vector<double>& a, const std::vector<double>& b, const auto& function) {
  std::vector<double> result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = function(a[i], b[i]);
  return result;
}

std::vector<double> sum_of(const std::vector<double>& a, const std::vector<double>& b) {
  return combined(a, b, [](double x, double y) { return x + y; });
}
std::vector<double> times(const std::vector<double>& a, const std::vector<double>& b) {
  return combined(a, b, [](double x, double y) { return x * y; });
}

class Recurrence {
 public:
  Recurrence(const Call& call, bool is_lstm) : call_(call), is_lstm_(is_lstm), gates_(is_lstm ? 4 : 3) {}

  void add() {
    std::optional<Dense> x = call_.input(0);
    const std::optional<Dense> h = call_.input(1), c = is_lstm_ ? call_.input(2) : std::nullopt;
    if (!x || !h || (is_lstm_ && !c) || x->shape.size() != 3 || h->shape.size() != 3) return;
    const bool batch_first = call_.is_set("batch_first");
    steps_ = static_cast<std::size_t>(x->shape[batch_first ? 1 : 0]);
    batch_ = static_cast<std::size_t>(x->shape[batch_first ? 0 : 1]);
    hidden_ = static_cast<std::size_t>(h->shape[2]);
    const std::size_t directions = call_.is_set("bidirectional") ? 2 : 1;
    const auto layers = static_cast<std::size_t>(call_.number("num_layers", 1));
    if (h->values.size() != layers * directions * batch_ * hidden_) return;
    std::vector<std::vector<double>> inputs = by_step(*x, batch_first);
    for (std::size_t layer = 0; layer < layers; ++layer) {
      std::vector<std::vector<std::vector<double>>> results;
      for (std::size_t way = 0; way < directions; ++way) {
        const std::size_t number = layer * directions + way;
        const std::optional<LayerWeights> weights = weights_at(number, inputs.front().size() / batch_);
        if (!weights) return;
        results.push_back(
            run(inputs, *weights, state_at(*h, number), c ? state_at(*c, number) : std::vector<double>{}, way == 1));
        add_whole(results.back(), batch_first);
      }
      inputs = directions == 1 ? std::move(results[0]) : side_by_side(results[0], results[1]);
    }
  }

  // Of one step of one layer: [batch, inputs] and a state.
  void add_cell() {
    const std::optional<Dense> x = call_.input(0), h = call_.input(1), c = is_lstm_ ? call_.input(2) : std::nullopt;
    if (!x || !h || (is_lstm_ && !c) || x->shape.size() != 2 || h->shape.size() != 2) return;
    steps_ = 1;
    batch_ = static_cast<std::size_t>(h->shape[0]);
    hidden_ = static_cast<std::size_t>(h->shape[1]);
    const bool is_one_batch = x->shape[0] == h->shape[0] && (!c || c->values.size() == h->values.size());
    if (batch_ == 0 || hidden_ == 0 || !is_one_batch) return;
    const std::uint32_t first = is_lstm_ ? 3 : 2;
    const bool has_biases = call_.input(first + 2).has_value();
    const std::optional<LayerWeights> weights = weights_from(first, static_cast<std::size_t>(x->shape[1]), has_biases);
    if (weights) run({x->values}, *weights, h->values, c ? c->values : std::vector<double>{}, false);
  }

 private:
  std::vector<std::vector<double>> by_step(const Dense& x, bool batch_first) const {
    const auto width = static_cast<std::size_t>(x.shape[2]);
    std::vector<std::vector<double>> steps(steps_);
    for (std::size_t t = 0; t < steps_; ++t) {
      for (std::size_t b = 0; b < batch_; ++b) {
        const auto* row = x.values.data() + (batch_first ? b * steps_ + t : t * batch_ + b) * width;
        steps[t].insert(steps[t].end(), row, row + width);
      }
    }
    return steps;
  }

  std::vector<double> state_at(const Dense& states, std::size_t number) const {
    const auto first = states.values.begin() + static_cast<std::ptrdiff_t>(number * batch_ * hidden_);
    return {first, first + static_cast<std::ptrdiff_t>(batch_ * hidden_)};
  }

  std::optional<LayerWeights> weights_at(std::size_t number, std::size_t inputs) const {
    const bool has_biases = call_.is_set("has_biases");
    const auto first = static_cast<std::uint32_t>((is_lstm_ ? 3 : 2) + number * (has_biases ? 4 : 2));
    return weights_from(first, inputs, has_biases);
  }

  // Of the slots from `first` on.
  std::optional<LayerWeights> weights_from(std::uint32_t first, std::size_t inputs, bool has_biases) const {
    std::optional<Dense> x = call_.input(first), h = call_.input(first + 1);
    const std::optional<Dense> bx = call_.input(first + 2), bh = call_.input(first + 3);
    const std::size_t rows = gates_ * hidden_;
    if (!x || !h || x->values.size() != rows * inputs || h->values.size() != rows * hidden_) return std::nullopt;
    if (x->shape.size() != 2 || h->shape.size() != 2 || (has_biases && (!bx || !bh))) return std::nullopt;
    if (has_biases && (bx->values.size() != rows || bh->values.size() != rows)) return std::nullopt;
    const std::vector<double> none(rows);
    return LayerWeights{std::move(*x), std::move(*h), has_biases ? bx->values : none, has_biases ? bh->values : none};
  }

  // Of a whole step: the gate with this number.
  std::vector<double> gate(const std::vector<double>& all, std::size_t number) const {
    std::vector<double> part;
    for (std::size_t b = 0; b < batch_; ++b) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>((b * gates_ + number) * hidden_);
      part.insert(part.end(), first, first + static_cast<std::ptrdiff_t>(hidden_));
    }
    return part;
  }

  void add(std::size_t width, const std::vector<double>& values) const {
    call_.add({static_cast<std::int64_t>(batch_), static_cast<std::int64_t>(width)}, values);
  }

  std::vector<std::vector<double>> run(const std::vector<std::vector<double>>& inputs, const LayerWeights& weights,
                                       std::vector<double> state, std::vector<double> cell, bool is_back) const {
    std::vector<std::vector<double>> results(steps_);
    for (std::size_t i = 0; i < steps_; ++i) {
      const std::size_t t = is_back ? steps_ - 1 - i : i;
      const std::vector<double> of_x = product_of(inputs[t], weights.x, batch_),
                                of_h = product_of(state, weights.h, batch_);
      const std::vector<double> x = with_bias(of_x, weights.x_bias), h = with_bias(of_h, weights.h_bias);
      const std::vector<double> products = sum_of(of_x, of_h);
      for (const std::vector<double>* numbers : {&of_x, &of_h, &products, &x, &h}) add(gates_ * hidden_, *numbers);
      if (is_lstm_) {
        advance_lstm(sum_of(x, h), state, cell);
      } else {
        advance_gru(x, h, state);
      }
      results[t] = state;
    }
    return results;
  }

  void advance_lstm(const std::vector<double>& gates, std::vector<double>& state, std::vector<double>& cell) const {
    add(4 * hidden_, gates);
    const std::vector<double> in = mapped(gate(gates, 0), logistic_of), forget = mapped(gate(gates, 1), logistic_of),
                              out = mapped(gate(gates, 3), logistic_of);
    const std::vector<double> fresh = mapped(gate(gates, 2), [](double value) { return std::tanh(value); });
    const std::vector<double> kept = times(forget, cell), added = times(in, fresh);
    cell = sum_of(kept, added);
    const std::vector<double> bent = mapped(cell, [](double value) { return std::tanh(value); });
    state = times(out, bent);
    const std::vector<double>* parts[] = {&in, &forget, &fresh, &out, &kept, &added, &cell, &bent, &state};
    for (const std::vector<double>* part : parts) add(hidden_, *part);
  }

  // The reset gate multiplies what the state gives for the fresh one, with its bias.
  void advance_gru(const std::vector<double>& x, const std::vector<double>& h, std::vector<double>& state) const {
    const std::vector<double> in_reset = sum_of(gate(x, 0), gate(h, 0)), in_update = sum_of(gate(x, 1), gate(h, 1));
    const std::vector<double> reset = mapped(in_reset, logistic_of), update = mapped(in_update, logistic_of);
    const std::vector<double> of_state = times(reset, gate(h, 2)), in_fresh = sum_of(gate(x, 2), of_state);
    const std::vector<double> fresh = mapped(in_fresh, [](double value) { return std::tanh(value); });
    const std::vector<double> rest = mapped(update, [](double value) { return 1 - value; });
    const std::vector<double> kept = times(update, state), added = times(rest, fresh);
    const std::vector<double> apart = combined(state, fresh, [](double a, double b) { return a - b; });
    const std::vector<double> moved = times(update, apart);
    state = sum_of(kept, added);
    const std::vector<double>* parts[] = {&in_reset, &in_update, &reset, &update, &of_state, &in_fresh, &fresh,
                                          &rest,     &kept,      &added, &apart,  &moved,    &state};
    for (const std::vector<double>* part : parts) add(hidden_, *part);
    for (std::size_t i = 0; i < gates_; ++i) {
      add(hidden_, gate(x, i));
      add(hidden_, gate(h, i));
    }
  }

  // The results of one direction, which the golden operator gives beside those of the other.
  void add_whole(const std::vector<std::vector<double>>& results, bool batch_first) const {
    std::vector<double> whole(steps_ * batch_ * hidden_);
    for (std::size_t t = 0; t < steps_; ++t) {
      for (std::size_t i = 0; i < batch_ * hidden_; ++i) {
        const std::size_t b = i / hidden_, place = batch_first ? b * steps_ + t : t * batch_ + b;
        whole[place * hidden_ + i % hidden_] = results[t][i];
      }
    }
    const auto steps = static_cast<std::int64_t>(steps_), batch = static_cast<std::int64_t>(batch_),
               hidden = static_cast<std::int64_t>(hidden_);
    call_.add(
        batch_first ? std::vector<std::int64_t>{batch, steps, hidden} : std::vector<std::int64_t>{steps, batch, hidden},
        std::move(whole));
  }

  std::vector<std::vector<double>> side_by_side(const std::vector<std::vector<double>>& ahead,
                                                const std::vector<std::vector<double>>& back) const {
    std::vector<std::vector<double>> both(steps_);
    for (std::size_t t = 0; t < steps_; ++t) {
      for (std::size_t b = 0; b < batch_; ++b) {
        for (const std::vector<double>* one : {&ahead[t], &back[t]}) {
          const auto first = one->begin() + static_cast<std::ptrdiff_t>(b * hidden_);
          both[t].insert(both[t].end(), first, first + static_cast<std::ptrdiff_t>(hidden_));
        }
      }
    }
    return both;
  }

  const Call& call_;
  const bool is_lstm_;
  const std::size_t gates_;
  std::size_t steps_ = 0, batch_ = 0, hidden_ = 0;
};

}  // namespace

bool add_recurrence(const Call& call, std::string_view type) {
  const bool is_cell = type == "lstmcell" || type == "grucell";
  if (!is_cell && type != "lstm" && type != "gru") return false;
  Recurrence recurrence(call, type.starts_with("lstm"));
  if (is_cell) {
    recurrence.add_cell();
  } else {
    recurrence.add();
  }
  return true;
}

}  // namespace sonde
