// Causes that shapes and counts decide: too few elements for a variance, too few frames for the labels of a CTC loss.
#include <fmt/format.h>

#include <algorithm>

#include "ask/first_bad/bad_cause.h"
#include "ground/base/shape.h"

namespace sonde {
namespace {

// The elements that are reduced to one: those of the input for each of the result.
std::int64_t elements_of_one(const OpValues& values) {
  const CatalogTensor* input = values.input(0);
  const CatalogTensor* output = values.output();
  if (input == nullptr || output == nullptr || !input->has_shape || !output->has_shape) return 0;
  const auto all = static_cast<std::int64_t>(element_count(input->shape));
  const auto results = static_cast<std::int64_t>(element_count(output->shape));
  return results > 0 ? all / results : 0;
}

// Bessel's correction: n elements divide by n - 1, one element by 0.
bool spread_cause(OpValues& values, BadKind bad, Cause& cause) {
  if (values.work() != OpWork::spread || bad != BadKind::nan) return false;
  const std::int64_t elements = elements_of_one(values);
  const double unbiased = values.number("unbiased").value_or(1);
  const double correction = values.number("correction").value_or(unbiased);
  if (elements < 1 || static_cast<double>(elements) > correction || values.reads_bad()) return false;
  cause.why = fmt::format("{} of {} divides by {}", values.op().op_type,
                          elements == 1 ? "one element" : fmt::format("{} elements", elements),
                          number_text(std::max(0.0, static_cast<double>(elements) - correction)));
  return cause.explained = true;
}

// A mask that chose nothing: the mean or the loss of no elements is 0 divided by 0, their largest is -inf.
bool empty_cause(OpValues& values, BadKind bad, Cause& cause) {
  const CatalogTensor* output = values.output();
  if (output == nullptr || !output->has_shape || element_count(output->shape) == 0) return false;
  const CatalogTensor* empty = nullptr;
  for (const FlowInput& input : values.flow().inputs) {
    if (!input.is_read || !is_floating(input.tensor->dtype) || input.tensor->constant) continue;
    const bool is_empty = input.tensor->has_shape && element_count(input.tensor->shape) == 0;
    if (is_empty && empty == nullptr) empty = input.tensor;
    if (!is_empty && values.is_bad(*input.tensor)) return false;
  }
  if (empty == nullptr) return false;
  cause.why = fmt::format("{} of no elements: {} has shape {}", values.op().op_type, slot_name(true, empty->slot),
                          shape_text(empty->shape, '(', ')'));
  cause.divides_by_zero = cause.makes_nan_of_zero = bad == BadKind::nan;
  return cause.explained = true;
}

// Lengths as a tensor in this slot, or as an argument of the call.
struct Lengths {
  std::vector<double> each;  // empty: only the extremes are known
  double least = 0, most = 0;
};

std::optional<Lengths> lengths_of(OpValues& values, std::uint32_t slot, std::string_view attribute) {
  Lengths lengths;
  if (const SlotValues* tensor = values.input(slot) != nullptr ? values.input_values(slot) : nullptr) {
    if (tensor->shape().size() > 1) return std::nullopt;
    for (std::int64_t i = 0; i < tensor->elements(); ++i) {
      lengths.each.push_back(tensor->at(tensor->shape().empty() ? Position{} : Position{i}));
    }
  } else {
    for (const std::int64_t length : values.integers(attribute)) lengths.each.push_back(static_cast<double>(length));
  }
  if (!lengths.each.empty()) {
    std::tie(lengths.least, lengths.most) =
        std::tuple(*std::ranges::min_element(lengths.each), *std::ranges::max_element(lengths.each));
    return lengths;
  }
  if (values.input(slot) == nullptr) return std::nullopt;
  const auto statistics = values.statistics(*values.input(slot));
  if (!statistics || !statistics->min || !statistics->max) return std::nullopt;
  lengths.least = *statistics->min;
  lengths.most = *statistics->max;
  return lengths;
}

// Equal labels that follow each other need a blank between them: (N, S) of labels.
double repeats_of(const SlotValues* labels, std::int64_t sample, double length) {
  if (labels == nullptr || labels->shape().size() != 2 || sample >= labels->shape()[0]) return 0;
  double repeats = 0;
  const auto end = std::min(static_cast<std::int64_t>(length), labels->shape()[1]);
  for (std::int64_t i = 1; i < end; ++i) repeats += labels->at({sample, i}) == labels->at({sample, i - 1}) ? 1 : 0;
  return repeats;
}

// Every label needs a frame. With fewer no path has these labels, and the loss is infinite.
bool ctc_cause(OpValues& values, BadKind bad, Cause& cause) {
  if (values.work() != OpWork::ctc_loss) return false;
  const auto frames = lengths_of(values, 2, "input_lengths"), labels = lengths_of(values, 3, "target_lengths");
  if (!frames || !labels) return false;
  const SlotValues* targets = values.input(1) != nullptr ? values.input_values(1) : nullptr;
  if (frames->each.size() == labels->each.size()) {
    for (std::size_t i = 0; i < frames->each.size(); ++i) {
      const double repeats = repeats_of(targets, static_cast<std::int64_t>(i), labels->each[i]);
      if (frames->each[i] >= labels->each[i] + repeats) continue;
      cause.why =
          fmt::format("sample {} has {} frames for {} labels{}: no path has that many", i, number_text(frames->each[i]),
                      number_text(labels->each[i]),
                      repeats > 0 ? fmt::format(" and {} blanks between equal ones", number_text(repeats)) : "");
      return cause.explained = cause.pole = true;
    }
    if (!frames->each.empty()) return false;
  }
  const double spare = frames->least - labels->most;
  // Of finite numbers nothing else makes the loss infinite.
  if (spare >= 0 && (bad != BadKind::inf || spare >= labels->most - 1 || values.reads_bad())) return false;
  cause.why =
      spare < 0
          ? fmt::format("a sample has {} frames, and one has {} labels: with fewer frames than labels no path has them",
                        number_text(frames->least), number_text(labels->most))
          : fmt::format(
                "a sample has {} frames, and one has {} labels: no path has them if more than {} of them are "
                "like the label before, since a blank comes between",
                number_text(frames->least), number_text(labels->most), number_text(spare));
  return cause.explained = cause.pole = true;
}

}  // namespace

bool shape_cause(OpValues& values, BadKind bad, Cause& cause) {
  return empty_cause(values, bad, cause) || spread_cause(values, bad, cause) || ctc_cause(values, bad, cause);
}

}  // namespace sonde
