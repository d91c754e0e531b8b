#include "face/plot/pictures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "read/measure/values.h"

namespace sonde {
namespace {

constexpr int kMargin = 16, kPictureGap = 12;
constexpr int kLineHeight = kTextHeight + 4;
constexpr int kLargestMap = 640;        // pixels of the longer side, of a picture with one map
constexpr int kLargestWhole = 1600;     // pixels of the longer side, of all maps together
constexpr int kNarrowestPicture = 800;  // pixels of a picture, for its title

std::string number_text(double value) { return std::isnan(value) ? "nan" : fmt::format("{:.4g}", value); }

std::string cut(const std::string& text, int pixels) {
  const auto most = static_cast<std::size_t>(std::max(pixels / kCharacterWidth, 4));
  return text.size() <= most ? text : "..." + text.substr(text.size() - most + 3);
}

struct Odd {  // elements that are not finite
  std::uint64_t nan = 0, positive_inf = 0, negative_inf = 0;

  void count(double value) {
    if (std::isnan(value)) {
      ++nan;
    } else {
      ++(value > 0 ? positive_inf : negative_inf);
    }
  }
};

std::uint8_t colour_of_odd(double value) {
  if (std::isnan(value)) return kNanColour;
  return value > 0 ? kPositiveInfColour : kNegativeInfColour;
}

// The least and the greatest finite value.
struct Span {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();

  bool any() const { return low <= high; }
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Halves, so that the range of the largest doubles stays finite.
  double part(double value) const { return low == high ? 0.5 : (value / 2 - low / 2) / (high / 2 - low / 2); }
};

// One map, reduced to the cells of a picture.
struct Map {
  std::string label;
  std::vector<double> cells;  // row by row: a mean, or a value that is not finite
  Span span;
  Odd odd;
};

struct Grid {
  std::int64_t height = 0, width = 0;  // elements of a map
  std::int64_t step = 1;               // elements that share a cell, each way
  int cell = 1;                        // pixels of a cell, each way
  int rows = 0, columns = 0;           // of maps

  int cells_high() const { return static_cast<int>((height + step - 1) / step); }
  int cells_wide() const { return static_cast<int>((width + step - 1) / step); }
  int map_height() const { return cells_high() * cell; }
  int map_width() const { return cells_wide() * cell; }
};

Grid grid_of(std::int64_t height, std::int64_t width, std::size_t maps) {
  Grid grid;
  grid.height = height;
  grid.width = width;
  grid.columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(maps))));
  grid.rows =
      static_cast<int>((maps + static_cast<std::size_t>(grid.columns) - 1) / static_cast<std::size_t>(grid.columns));
  const int most = std::clamp(kLargestWhole / std::max(grid.columns, grid.rows), 48, kLargestMap);
  const std::int64_t longer = std::max(height, width);
  grid.step = (longer + most - 1) / most;
  const std::int64_t cells = (longer + grid.step - 1) / grid.step;
  // Small maps are made large enough to see each element.
  grid.cell = static_cast<int>(std::clamp<std::int64_t>(most / std::max<std::int64_t>(cells, 1), 1, 24));
  return grid;
}

// The index of a map in the leading dimensions, as "[0,3]", and its first element.
std::string place_map(const TensorView& view, std::size_t map, std::int64_t& offset) {
  const std::size_t leading = view.shape.size() - 2;
  std::vector<std::int64_t> index(leading);
  auto rest = static_cast<std::int64_t>(map);
  offset = 0;
  for (std::size_t d = leading; d-- > 0;) {
    index[d] = rest % view.shape[d];
    rest /= view.shape[d];
    offset += index[d] * view.strides[d];
  }
  return leading == 0 ? "" : fmt::format("[{}]", fmt::join(index, ","));
}

Map read_map(const TensorView& view, std::size_t number, const Grid& grid) {
  Map map;
  std::int64_t first = 0;
  map.label = place_map(view, number, first);
  const std::int64_t down = view.strides[view.strides.size() - 2], right = view.strides[view.strides.size() - 1];
  for (int row = 0; row < grid.cells_high(); ++row) {
    for (int column = 0; column < grid.cells_wide(); ++column) {
      double sum = 0, odd = 0;
      std::int64_t count = 0;
      bool has_odd = false;
      for (std::int64_t y = row * grid.step; y < std::min(grid.height, (row + 1) * grid.step); ++y) {
        for (std::int64_t x = column * grid.step; x < std::min(grid.width, (column + 1) * grid.step); ++x) {
          const double value = element_magnitude(view, first + y * down + x * right);
          if (std::isfinite(value)) {
            sum += value;
            ++count;
            continue;
          }
          map.odd.count(value);
          if (!has_odd || std::isnan(value)) odd = value;  // a NaN has priority over an infinity
          has_odd = true;
        }
      }
      const double mean = has_odd ? odd : sum / static_cast<double>(count);
      if (std::isfinite(mean)) map.span.take(mean);
      map.cells.push_back(mean);
    }
  }
  return map;
}

void draw_map(Canvas& canvas, const Map& map, const Grid& grid, const Span& span, int x, int y) {
  canvas.frame(x, y, grid.map_width(), grid.map_height(), kGrey);
  for (int row = 0; row < grid.cells_high(); ++row) {
    for (int column = 0; column < grid.cells_wide(); ++column) {
      const double value = map.cells[static_cast<std::size_t>(row * grid.cells_wide() + column)];
      const std::uint8_t colour = std::isfinite(value) ? shade_of(span.part(value)) : colour_of_odd(value);
      canvas.fill(x + column * grid.cell, y + row * grid.cell, grid.cell, grid.cell, colour);
    }
  }
}

// A square of each colour with its meaning, side by side. Returns the last pixel that was used.
int draw_odd_legend(Canvas& canvas, const Odd& odd, int x, int y) {
  const auto entry = [&](std::uint8_t colour, const std::string& name, std::uint64_t count) {
    if (count == 0) return;
    canvas.fill(x, y, kTextHeight, kTextHeight, colour);
    const std::string text = fmt::format("{} {}", name, count);
    canvas.text(x + kTextHeight + 4, y, text);
    x += kTextHeight + 4 + text_width(text) + 2 * kCharacterWidth;
  };
  entry(kNanColour, "NaN", odd.nan);
  entry(kPositiveInfColour, "+Inf", odd.positive_inf);
  entry(kNegativeInfColour, "-Inf", odd.negative_inf);
  return x;
}

// The shades from low to high with the values at their ends.
void draw_scale(Canvas& canvas, const std::string& low, const std::string& high, int x, int y) {
  canvas.text(x, y, low);
  x += text_width(low) + kCharacterWidth;
  for (int i = 0; i < kShades; ++i) {
    canvas.fill(x + i, y, 1, kTextHeight, static_cast<std::uint8_t>(kFirstShade + i));
  }
  canvas.text(x + kShades + kCharacterWidth, y, high);
}

int scale_width(const std::string& low, const std::string& high) {
  return text_width(low) + text_width(high) + kShades + 2 * kCharacterWidth;
}

std::size_t maps_of(const TensorView& view) {
  std::size_t maps = 1;
  for (std::size_t d = 0; d + 2 < view.shape.size(); ++d) maps *= static_cast<std::size_t>(view.shape[d]);
  return maps;
}

// The shown part of the whole, in words.
std::string what_of(const Grid& grid, std::size_t shown, std::size_t all) {
  std::string text = fmt::format("{} map{} of {} x {}", shown, shown == 1 ? "" : "s", grid.height, grid.width);
  if (shown < all) text += fmt::format(", the first of {}", all);
  if (grid.step > 1) text += fmt::format("; a pixel is the mean of {} x {}", grid.step, grid.step);
  return text;
}

}  // namespace

Result<Canvas> draw_maps(const TensorView& view, const std::string& title, const MapOptions& options) {
  if (view.shape.size() < 2 || view.elements() == 0) {
    return Error{
        ErrorCode::invalid_argument,
        fmt::format("cannot draw maps of a tensor of shape {}: expected two dimensions or more, none of size 0",
                    shape_text(view.shape, '(', ')'))};
  }
  const std::size_t all = maps_of(view), shown = std::min(all, std::max<std::size_t>(options.most, 1));
  const Grid grid = grid_of(view.shape[view.shape.size() - 2], view.shape[view.shape.size() - 1], shown);
  std::vector<Map> maps;
  Span whole;
  Odd odd;
  for (std::size_t i = 0; i < shown; ++i) {
    const Map& map = maps.emplace_back(read_map(view, i, grid));
    if (map.span.any()) {
      whole.take(map.span.low);
      whole.take(map.span.high);
    }
    odd.nan += map.odd.nan;
    odd.positive_inf += map.odd.positive_inf;
    odd.negative_inf += map.odd.negative_inf;
  }
  const bool has_labels = view.shape.size() > 2;
  int label_width = 0;
  for (Map& map : maps) {
    if (options.each_by_itself && map.span.any()) {
      map.label += fmt::format(" {}..{}", number_text(map.span.low), number_text(map.span.high));
    }
    label_width = std::max(label_width, text_width(map.label));
  }
  const int pitch_x = std::max(grid.map_width(), label_width) + kPictureGap;
  const int pitch_y = grid.map_height() + kPictureGap + (has_labels || options.each_by_itself ? kLineHeight : 0);
  const std::string low = options.each_by_itself ? "least" : whole.any() ? number_text(whole.low) : "-";
  const std::string high = options.each_by_itself ? "greatest of each map"
                           : whole.any()          ? number_text(whole.high)
                                                  : "-";
  const int head = kMargin + 4 * kLineHeight + kPictureGap;
  const int width =
      std::max({2 * kMargin + grid.columns * pitch_x, 2 * kMargin + scale_width(low, high), kNarrowestPicture});
  Canvas canvas(width, head + grid.rows * pitch_y + kMargin);
  canvas.text(kMargin, kMargin, cut(title, width - 2 * kMargin));
  canvas.text(kMargin, kMargin + kLineHeight, cut(what_of(grid, shown, all), width - 2 * kMargin), kGrey);
  draw_scale(canvas, low, high, kMargin, kMargin + 2 * kLineHeight);
  draw_odd_legend(canvas, odd, kMargin, kMargin + 3 * kLineHeight);
  for (std::size_t i = 0; i < shown; ++i) {
    const int x = kMargin + static_cast<int>(i) % grid.columns * pitch_x;
    int y = head + static_cast<int>(i) / grid.columns * pitch_y;
    if (pitch_y > grid.map_height() + kPictureGap) {
      canvas.text(x, y, maps[i].label);
      y += kLineHeight;
    }
    draw_map(canvas, maps[i], grid, options.each_by_itself ? maps[i].span : whole, x, y);
  }
  return canvas;
}

namespace {

constexpr int kPlotWidth = 900, kPlotHeight = 420, kAxis = 9 * kCharacterWidth;

Odd odd_of(const TensorView& view) {
  Odd odd;
  for (std::int64_t i = 0; i < view.elements(); ++i) {
    if (const double value = element_magnitude(view, i); !std::isfinite(value)) odd.count(value);
  }
  return odd;
}

void draw_bar(Canvas& canvas, int x, int width, int bottom, double part, std::uint8_t colour) {
  int height = static_cast<int>(std::lround(part * kPlotHeight));
  if (part > 0) height = std::max(height, 2);  // so that one element among millions is visible
  canvas.fill(x, bottom - height, width, height, colour);
}

void text_ending_at(Canvas& canvas, int right, int y, const std::string& text, std::uint8_t colour = kBlack) {
  canvas.text(right - text_width(text), y, text, colour);
}

}  // namespace

Result<Canvas> draw_histogram(const TensorView& view, const std::string& title, std::size_t bins) {
  if (view.elements() == 0) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("cannot draw a histogram of a tensor of shape {}: it has no element",
                             shape_text(view.shape, '(', ')'))};
  }
  const Histogram histogram = histogram_of(view, bins);
  const Odd odd = odd_of(view);
  std::uint64_t most = std::max({odd.nan, odd.positive_inf, odd.negative_inf, std::uint64_t{1}});
  for (const std::uint64_t count : histogram.counts) most = std::max(most, count);
  const std::size_t shown = std::max<std::size_t>(histogram.counts.size(), 1);
  const int bar = std::max(kPlotWidth / static_cast<int>(shown), 1);
  const int odd_bars = (odd.nan > 0) + (odd.positive_inf > 0) + (odd.negative_inf > 0);
  constexpr int kOddBar = 40, kOddPitch = 72;
  const int left = kMargin + kAxis, top = kMargin + 3 * kLineHeight, bottom = top + kPlotHeight;
  const int plot_width = bar * static_cast<int>(shown);
  Canvas canvas(left + plot_width + kPictureGap + odd_bars * kOddPitch + 2 * kMargin,
                bottom + 2 * kLineHeight + kMargin);
  canvas.text(kMargin, kMargin, cut(title, canvas.width() - 2 * kMargin));
  canvas.text(kMargin, kMargin + kLineHeight,
              fmt::format("{} elements in {} bins", view.elements(), histogram.counts.size()), kGrey);
  text_ending_at(canvas, left - 8, top, std::to_string(most));
  text_ending_at(canvas, left - 8, bottom - kTextHeight, "0");
  canvas.fill(left - 2, top, 2, kPlotHeight + 2, kBlack);
  canvas.fill(left - 2, bottom, plot_width + 2, 2, kBlack);
  const auto part = [&](std::uint64_t count) { return static_cast<double>(count) / static_cast<double>(most); };
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    draw_bar(canvas, left + static_cast<int>(i) * bar, std::max(bar - 1, 1), bottom, part(histogram.counts[i]),
             kFirstLine);
  }
  if (!histogram.counts.empty()) {
    canvas.text(left, bottom + 6, number_text(histogram.min));
    text_ending_at(canvas, left + plot_width, bottom + 6, number_text(histogram.max));
    const std::string middle = number_text(histogram.min / 2 + histogram.max / 2);
    if (bins > 1) canvas.text(left + plot_width / 2 - text_width(middle) / 2, bottom + 6, middle);
  }
  int x = left + plot_width + kPictureGap;
  const auto odd_bar = [&](std::uint8_t colour, const char* name, std::uint64_t count) {
    if (count == 0) return;
    draw_bar(canvas, x, kOddBar, bottom, part(count), colour);
    canvas.text(x, bottom + 6, name);
    canvas.text(x, bottom + 6 + kLineHeight, std::to_string(count));
    x += kOddPitch;
  };
  odd_bar(kNanColour, "NaN", odd.nan);
  odd_bar(kPositiveInfColour, "+Inf", odd.positive_inf);
  odd_bar(kNegativeInfColour, "-Inf", odd.negative_inf);
  return canvas;
}

namespace {

constexpr int kPanelHeight = 180, kPanelWidth = 900;

struct Steps {
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max(), last = 0;
};

Steps steps_of(const std::vector<TrendPanel>& panels) {
  Steps steps;
  for (const TrendPanel& panel : panels) {
    for (const TrendLine& line : panel.lines) {
      for (const TrendPoint& point : line.points) {
        steps.first = std::min(steps.first, point.step);
        steps.last = std::max(steps.last, point.step);
      }
    }
  }
  return steps;
}

Span span_of(const TrendPanel& panel) {
  Span span;
  for (const TrendLine& line : panel.lines) {
    for (const TrendPoint& point : line.points) {
      if (point.value && std::isfinite(*point.value)) span.take(*point.value);
    }
  }
  return span;
}

// A value that is not finite is a block of its colour, at the edge of the panel on its side.
void draw_line(Canvas& canvas, const TrendLine& line, std::uint8_t colour, const Span& span, const Steps& steps,
               int left, int top) {
  const double last = std::max<double>(static_cast<double>(steps.last - steps.first), 1);
  bool connected = false;
  int before_x = 0, before_y = 0;
  for (const TrendPoint& point : line.points) {
    const int x =
        left + static_cast<int>(std::lround(static_cast<double>(point.step - steps.first) / last * kPanelWidth));
    if (!point.value || !std::isfinite(*point.value)) {
      connected = false;
      if (!point.value) continue;
      const int y = *point.value < 0 ? top + kPanelHeight - 4 : top - 4;
      canvas.fill(x - 4, y, 9, 9, colour_of_odd(*point.value));
      continue;
    }
    const int y = top + kPanelHeight - static_cast<int>(std::lround(span.part(*point.value) * kPanelHeight));
    if (connected) canvas.line(before_x, before_y, x, y, colour);
    canvas.fill(x - 2, y - 2, 6, 6, colour);
    connected = true;
    before_x = x;
    before_y = y;
  }
}

}  // namespace

Canvas draw_trend(const std::vector<TrendPanel>& panels, const std::string& title) {
  const Steps steps = steps_of(panels);
  const int left = kMargin + kAxis + 2 * kCharacterWidth, head = kMargin + 2 * kLineHeight + kPictureGap;
  const int pitch = kPanelHeight + kLineHeight + 2 * kPictureGap;
  Canvas canvas(left + kPanelWidth + 3 * kMargin,
                head + static_cast<int>(panels.size()) * pitch + kLineHeight + kMargin);
  canvas.text(kMargin, kMargin, cut(title, canvas.width() - 2 * kMargin));
  int legend = kMargin;
  for (std::size_t i = 0; !panels.empty() && i < panels[0].lines.size(); ++i) {
    const std::string& name = panels[0].lines[i].name;
    if (name.empty()) continue;
    const auto colour = static_cast<std::uint8_t>(kFirstLine + i % kLineColours);
    canvas.fill(legend, kMargin + kLineHeight, kTextHeight, kTextHeight, colour);
    canvas.text(legend + kTextHeight + 4, kMargin + kLineHeight, name);
    legend += kTextHeight + 4 + text_width(name) + 2 * kCharacterWidth;
  }
  int top = head + kLineHeight;
  for (const TrendPanel& panel : panels) {
    const Span span = span_of(panel);
    canvas.text(left, top - kLineHeight - 2, panel.name);
    canvas.frame(left, top, kPanelWidth + 4, kPanelHeight + 4, kGrey);
    if (span.any()) {
      const std::string high = number_text(span.high), low = number_text(span.low);
      if (span.low == span.high) {
        text_ending_at(canvas, left - 8, top + kPanelHeight / 2 - kTextHeight / 2, low);
      } else {
        text_ending_at(canvas, left - 8, top, high);
        text_ending_at(canvas, left - 8, top + kPanelHeight - kTextHeight, low);
      }
    }
    for (std::size_t i = 0; i < panel.lines.size(); ++i) {
      const auto colour = static_cast<std::uint8_t>(kFirstLine + i % kLineColours);
      draw_line(canvas, panel.lines[i], colour, span, steps, left, top);
    }
    top += pitch;
  }
  const int y = top - pitch + kPanelHeight + 10;
  canvas.text(left, y, "step " + std::to_string(steps.first));
  if (steps.last > steps.first) text_ending_at(canvas, left + kPanelWidth, y, std::to_string(steps.last));
  return canvas;
}

}  // namespace sonde
