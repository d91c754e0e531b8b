// Finds the norm that grew first, in the steps up to the first bad one.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "ask/first_bad/first_bad_search.h"

namespace sonde {
namespace {

constexpr double kGrown = 10;  // times its earlier value
// Tensors change most in the first steps of a training. If those before are few beside those after, they give no measure.
constexpr std::size_t kMostAfter = 8;  // for each point before
constexpr double kSmallest = 1e-20;    // smaller norms give no information

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

// The first point from which all are far above the earlier ones; none: it did not grow.
std::optional<std::size_t> grown_at(const Series& series, double& before) {
  std::vector<double> earlier;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    if (kMostAfter * earlier.size() >= series.points.size() - i) {
      before = median(earlier);
      const bool stays = std::all_of(series.points.begin() + static_cast<std::ptrdiff_t>(i), series.points.end(),
                                     [&](const Series::Point& point) { return point.value > kGrown * before; });
      if (before > kSmallest && stays) return i;
    }
    earlier.push_back(series.points[i].value);
  }
  return std::nullopt;
}

// Moments begin at zero and grow in every training. A parameter that grows is seen where the model reads it.
bool is_of_optimizer(std::string_view op_name) { return op_name.find("optimizer-") != std::string_view::npos; }

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
      if (is_of_optimizer(output.op_name)) return;
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

}  // namespace

std::optional<Growth> growth_before(RankSearch& search, SourceTexts& sources) {
  const AllSeries all = series_of(search);
  const Series* first = nullptr;
  std::tuple<std::size_t, std::size_t, std::uint32_t> first_at;
  double first_before = 0;
  for (const auto& [slot, series] : all) {
    double before = 0;
    const auto at = grown_at(series, before);
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
    growth.tensor = finding_tensor(search.rank(), op, op.tensors[point.position]);
    growth.code = code_of(op, sources, 0);
    growth.step = step.id.number;
    growth.now = point.value;
  }
  growth.rank = search.rank().rank;
  growth.before = first_before;
  growth.of_norm = first->of_norm;
  return growth;
}

}  // namespace sonde
