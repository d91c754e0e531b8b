// Finds the norm that grew first, in the steps up to the first bad one.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "ask/first_bad/first_bad_search.h"
#include "read/operators/earlier_writer.h"
#include "read/operators/node_category.h"

namespace sonde {
namespace {

constexpr double kGrown = 10;  // times its earlier value
// Tensors change most in the first steps of a training. If those before are few beside those after, they give no measure.
constexpr std::size_t kMostAfter = 8;  // for each point before
// A rise that leads to something else than an overflow goes on, or has as many points before it.
constexpr std::size_t kFewBefore = 4;
constexpr double kSmallest = 1e-20;  // smaller norms give no information
// Rounding leaves so little, beside a number below 1, of terms that cancel: nothing grows from it.
constexpr double kRoundingShare = 1e-7;

struct Series {
  bool of_norm = true;
  struct Point {
    std::size_t step = 0;
    std::size_t place = 0, position = 0;  // of the op in its step, of the tensor in its op
    double value = 0;
  };
  std::vector<Point> points;  // finite ones, in order
  bool went_bad = false;
};

std::optional<double> size_of(const OutputSize& s, bool& of_norm) {
  if (s.l2norm && std::isfinite(*s.l2norm)) {
    of_norm = true;
    return s.l2norm;
  }
  if (!s.max || !s.min || !std::isfinite(*s.max) || !std::isfinite(*s.min)) return std::nullopt;
  of_norm = false;
  return std::max(std::fabs(*s.max), std::fabs(*s.min));
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// The first point from which all are far above the earlier ones; none: it did not grow. `by_size`: the first bad value
// is one that was too large.
std::optional<std::size_t> grown_at(const Series& series, bool by_size, double& before) {
  std::vector<double> earlier;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const bool leads =
        by_size || earlier.size() >= kFewBefore || series.points.back().value > kGrown * series.points[i].value;
    if (leads && kMostAfter * earlier.size() >= series.points.size() - i) {
      before = median(earlier);
      const bool stays = std::all_of(series.points.begin() + static_cast<std::ptrdiff_t>(i), series.points.end(),
                                     [&](const Series::Point& point) { return point.value > kGrown * before; });
      const double now = series.points[i].value;
      const bool is_rounding = now < 1 && before < kRoundingShare * now;
      if (before > kSmallest && !is_rounding && stays) return i;
      if (is_rounding) earlier.clear();
    }
    earlier.push_back(series.points[i].value);
  }
  return std::nullopt;
}

struct Slot {
  std::string_view op_name;
  std::uint32_t slot = 0;
  bool operator==(const Slot&) const = default;
};
struct SlotHash {
  std::size_t operator()(const Slot& slot) const { return std::hash<std::string_view>()(slot.op_name) + slot.slot; }
};
using AllSeries = std::unordered_map<Slot, Series, SlotHash>;

AllSeries series_of(RankSearch& search) {
  AllSeries all;
  for (std::size_t index = 0; index <= search.step_index(); ++index) {
    const CatalogStep& step = search.rank().steps[index];
    if (step.run != search.step().run || step.id.graph != search.step().id.graph) continue;
    search.each_output(index, [&](const OutputSize& output) {
      // Moments begin at zero and grow in every training. A parameter that grows is seen where the model reads it, and
      // then followed to the update that wrote it.
      if (is_optimizer_state(output.op_name)) return;
      Series& series = all[{output.op_name, output.slot}];
      bool of_norm = true;
      const auto value = size_of(output, of_norm);
      if (!value || series.went_bad || (!series.points.empty() && series.of_norm != of_norm)) {
        series.went_bad = true;
        return;
      }
      series.of_norm = of_norm;
      series.points.push_back({index, output.place, output.position, *value});
    });
  }
  return all;
}

std::optional<double> norm_of(const CatalogTensor& tensor) {
  return tensor.statistics && tensor.statistics->l2norm && std::isfinite(*tensor.statistics->l2norm)
             ? tensor.statistics->l2norm
             : std::nullopt;
}

// The update that made a parameter large which the operator reads: a learning rate, a gradient that was not clipped.
std::optional<Growth> grown_update(RankSearch& search, std::size_t step, const CatalogOp& reader,
                                   SourceTexts& sources) {
  const auto step_at = [&](std::size_t index) { return &search.step_at(index); };
  for (const CatalogTensor& parameter : reader.tensors) {
    if (!parameter.is_input || !parameter.parameter.is_parameter()) continue;
    const std::optional<EarlierWriter> writer = writer_before(search.rank(), step, parameter, step_at);
    if (!writer) continue;
    const std::vector<CatalogTensor>& tensors = writer->op->tensors;
    const auto before = std::ranges::find_if(
        tensors, [&](const CatalogTensor& one) { return one.is_input && one.parameter == parameter.parameter; });
    const auto after = std::ranges::find_if(tensors, [&](const CatalogTensor& one) {
      return before != tensors.end() && !one.is_input && one.slot == before->slot;
    });
    if (after == tensors.end()) continue;
    const std::optional<double> old = norm_of(*before), now = norm_of(*after);
    if (!old || !now || *old <= kSmallest || *now <= kGrown * *old) continue;
    Growth growth;
    growth.rank = search.rank().rank;
    growth.step = search.rank().steps[writer->step].id.number;
    growth.tensor = finding_tensor(search.rank(), *writer->op, *after);
    growth.tensor.parameter = std::string(parameter.parameter);
    growth.code = code_of(search.rank(), *writer->op, sources, 0);
    growth.now = *now;
    growth.before = *old;
    growth.of_norm = true;
    growth.series = {{growth.step, *now}};
    return growth;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Growth> growth_before(RankSearch& search, WrongKind kind, SourceTexts& sources) {
  const bool by_size = kind == WrongKind::overflow || kind == WrongKind::scaler_skipped;
  const AllSeries all = series_of(search);
  const Series* first = nullptr;
  std::tuple<std::size_t, std::size_t, std::uint32_t> first_at;
  double first_before = 0;
  for (const auto& [slot, series] : all) {
    double before = 0;
    const auto at = grown_at(series, by_size, before);
    if (!at) continue;
    const std::tuple where(series.points[*at].step, series.points[*at].place, slot.slot);
    if (first != nullptr && first_at <= where) continue;
    first = &series;
    first_at = where;
    first_before = before;
  }
  if (first == nullptr) return std::nullopt;
  Growth growth;
  for (const Series::Point& point : first->points) {
    const CatalogStep& step = search.rank().steps[point.step];
    growth.series.push_back({step.id.number, point.value});
    if (point.step != std::get<0>(first_at)) continue;
    const CatalogOp& op = search.step_at(point.step).ops[point.place];
    if (std::optional<Growth> update = grown_update(search, point.step, op, sources)) return update;
    growth.tensor = finding_tensor(search.rank(), op, op.tensors[point.position]);
    growth.code = code_of(search.rank(), op, sources, 0);
    growth.step = step.id.number;
    growth.now = point.value;
  }
  growth.rank = search.rank().rank;
  growth.before = first_before;
  growth.of_norm = first->of_norm;
  return growth;
}

}  // namespace sonde
