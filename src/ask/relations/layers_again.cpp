// Convolutions, and norms over channels.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ask/relations/known_functions.h"
#include "read/operators/op_attributes.h"

namespace sonde {
namespace {

constexpr std::size_t kMostConvolved = 1 << 22;  // products of one call

struct ConvolutionCall {
  std::vector<std::int64_t> stride, padding, dilation;  // by axis of the image
  std::int64_t groups = 1;
};

std::vector<std::int64_t> integers_of(const CatalogOp& op, std::string_view name, std::size_t axes,
                                      std::int64_t otherwise) {
  const Attribute* found = attribute_of(op, name);
  std::vector<std::int64_t> all = found != nullptr ? found->integers : std::vector<std::int64_t>();
  if (all.empty()) all.push_back(otherwise);
  all.resize(axes, all.back());
  return all;
}

// Where the window of this place begins, and with which of its places it is inside of the image: steps through `sizes`.
bool next_place(std::vector<std::int64_t>& at, const std::vector<std::int64_t>& sizes) {
  for (std::size_t i = at.size(); i-- > 0;) {
    if (++at[i] < sizes[i]) return true;
    at[i] = 0;
  }
  return false;
}

// The sum over the window at `place` of one channel. `x`: the first element of the channel, `w`: of its kernel.
double sum_of_window(const double* x, const double* w, const std::vector<std::int64_t>& image,
                     const std::vector<std::int64_t>& kernel, const std::vector<std::int64_t>& place,
                     const ConvolutionCall& call) {
  double sum = 0;
  std::vector<std::int64_t> tap(kernel.size());
  std::size_t number = 0;
  do {
    std::int64_t flat = 0;
    bool is_inside = true;
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      const std::int64_t at = place[i] * call.stride[i] - call.padding[i] + tap[i] * call.dilation[i];
      is_inside = is_inside && at >= 0 && at < image[i];
      flat = flat * image[i] + at;
    }
    if (is_inside) sum += x[flat] * w[number];
    ++number;
  } while (next_place(tap, kernel));
  return sum;
}

std::optional<Dense> convolved(const DenseInputs& in, const ConvolutionCall& call,
                               const std::vector<std::int64_t>& shape) {
  const Dense &x = *in[0], &w = *in[1];
  const std::size_t axes = w.shape.size() - 2;
  if (x.shape.size() != axes + 2 || shape.size() != axes + 2 || x.shape[1] != w.shape[1] * call.groups)
    return std::nullopt;
  const std::vector<std::int64_t> image(x.shape.begin() + 2, x.shape.end()), kernel(w.shape.begin() + 2, w.shape.end()),
      places(shape.begin() + 2, shape.end());
  const std::size_t pixels = elements_of(image), taps = elements_of(kernel), each = elements_of(places);
  if (elements_of(shape) * taps * static_cast<std::size_t>(w.shape[1]) > kMostConvolved) return std::nullopt;
  Dense result{shape, {}};
  const auto channels = static_cast<std::size_t>(w.shape[1]), outs = static_cast<std::size_t>(w.shape[0]);
  const std::size_t outs_of_group = outs / static_cast<std::size_t>(call.groups);
  for (std::size_t row = 0; row < static_cast<std::size_t>(shape[0]); ++row) {
    for (std::size_t out = 0; out < outs; ++out) {
      const std::size_t first = row * static_cast<std::size_t>(x.shape[1]) + out / outs_of_group * channels;
      std::vector<std::int64_t> place(axes);
      for (std::size_t i = 0; i < each; ++i) {
        double sum = in.size() > 2 ? in[2]->values[out] : 0;
        for (std::size_t c = 0; c < channels; ++c)
          sum += sum_of_window(&x.values[(first + c) * pixels], &w.values[(out * channels + c) * taps], image, kernel,
                               place, call);
        result.values.push_back(sum);
        next_place(place, places);
      }
    }
  }
  return result;
}

void add_convolution(KnownFunctions& all, const CatalogOp& op, const DenseInputs& inputs, const Dense& result) {
  if (inputs.size() < 2 || inputs[1]->shape.size() < 3 || result.shape.size() != inputs[1]->shape.size()) return;
  const std::size_t axes = inputs[1]->shape.size() - 2;
  const ConvolutionCall call{.stride = integers_of(op, "stride", axes, 1),
                             .padding = integers_of(op, "padding", axes, 0),
                             .dilation = integers_of(op, "dilation", axes, 1),
                             .groups = std::max<std::int64_t>(1, integers_of(op, "groups", 1, 1)[0])};
  add_function(all, [call, shape = result.shape](const DenseInputs& in) { return convolved(in, call, shape); });
}

// Each group of channels of a row has mean 0 and variance 1. `of_batch`: each channel of all rows.
Dense normed_by_channel(const Dense& x, std::size_t groups, bool of_batch, double epsilon) {
  const auto rows = static_cast<std::size_t>(x.shape[0]), channels = static_cast<std::size_t>(x.shape[1]);
  const std::size_t pixels = x.values.size() / (rows * channels), wide = channels / groups;
  const auto group_of = [&](std::size_t flat) {
    const std::size_t group = flat / pixels % channels / wide;
    return of_batch ? group : flat / (pixels * channels) * groups + group;
  };
  std::vector<double> sums(of_batch ? groups : rows * groups), squares(sums.size());
  const double count = static_cast<double>(x.values.size()) / static_cast<double>(sums.size());
  for (std::size_t i = 0; i < x.values.size(); ++i) sums[group_of(i)] += x.values[i] / count;
  for (std::size_t i = 0; i < x.values.size(); ++i)
    squares[group_of(i)] += std::pow(x.values[i] - sums[group_of(i)], 2) / count;
  Dense y = x;
  for (std::size_t i = 0; i < y.values.size(); ++i)
    y.values[i] = (x.values[i] - sums[group_of(i)]) / std::sqrt(squares[group_of(i)] + epsilon);
  return y;
}

// With a number for each channel.
std::optional<Dense> by_channel(const Dense& x, const Dense& numbers, double (*function)(double, double)) {
  std::vector<std::int64_t> shape(x.shape.size(), 1);
  shape[1] = x.shape[1];
  if (elements_of(shape) != numbers.values.size()) return std::nullopt;
  return both_by(x, Dense{shape, numbers.values}, function);
}

std::optional<Dense> scaled_by_channel(std::optional<Dense> y, const DenseInputs& in) {
  if (y && in.size() > 1) y = by_channel(*y, *in[1], [](double a, double b) { return a * b; });
  if (y && in.size() > 2) y = by_channel(*y, *in[2], [](double a, double b) { return a + b; });
  return y;
}

void add_norms_of_channels(KnownFunctions& all, const CatalogOp& op, std::string_view type, const DenseInputs& inputs) {
  if (inputs[0]->shape.size() < 2 || inputs[0]->values.empty()) return;
  const double epsilon = number_in(op, "eps").value_or(1e-5);
  const auto channels = static_cast<std::size_t>(inputs[0]->shape[1]);
  const bool of_batch = type == "batchnorm";
  const auto groups = of_batch ? channels : static_cast<std::size_t>(number_in(op, "num_groups").value_or(1));
  if (groups == 0 || channels % groups != 0) return;
  add_function(all, [=](const DenseInputs& in) -> std::optional<Dense> {
    if (in[0]->shape.size() < 2 || static_cast<std::size_t>(in[0]->shape[1]) != channels) return std::nullopt;
    return scaled_by_channel(normed_by_channel(*in[0], groups, of_batch, epsilon), in);
  });
  constexpr std::size_t kInputsWithRunning = 5;
  if (!of_batch || inputs.size() != kInputsWithRunning) return;
  add_function(all, [=](const DenseInputs& in) -> std::optional<Dense> {
    std::optional<Dense> y = by_channel(*in[0], *in[3], [](double a, double b) { return a - b; });
    if (!y) return std::nullopt;
    Dense spread = *in[4];
    for (double& value : spread.values) value = std::sqrt(value + epsilon);
    return scaled_by_channel(by_channel(*y, spread, [](double a, double b) { return a / b; }), in);
  });
}

}  // namespace

void add_layers(KnownFunctions& all, const CatalogOp& op, std::string_view type, const DenseInputs& inputs,
                const Dense& result) {
  if (type == "conv1d" || type == "conv2d" || type == "conv3d") add_convolution(all, op, inputs, result);
  if (type == "batchnorm" || type == "groupnorm") add_norms_of_channels(all, op, type, inputs);
}

}  // namespace sonde
