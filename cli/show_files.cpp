#include "show_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include "dump.h"
#include "face/plot/pictures.h"
#include "face/report/catalog_text.h"
#include "face/report/table.h"
#include "face/report/text.h"
#include "ground/files/safe_path.h"
#include "ground/tensor/walk.h"
#include "plan/config/nearest.h"
#include "read/measure/trend.h"
#include "read/measure/values.h"

namespace sonde {
namespace {

// A file that is written from the beginning to the end, or stdout.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : path_(path) {
    if (path == "-") {
      file_ = stdout;
      return;
    }
    Result<Fd> opened = open_output(path, OutputMode::rewrite);
    if (!opened) {
      why_ = opened.error().message;
      failed_ = EIO;
    } else {
      file_ = ::fdopen(opened->release(), "wb");
      failed_ = file_ == nullptr ? errno : 0;
    }
  }
  ~OutputFile() {
    if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text) {
    if (failed_ == 0 && std::fwrite(text.data(), 1, text.size(), file_) != text.size()) failed_ = errno;
  }
  // False, with a line on stderr, if not everything was written.
  bool close() {
    if (file_ != nullptr && file_ == stdout && std::fflush(stdout) != 0 && failed_ == 0) failed_ = errno;
    if (file_ != nullptr && file_ != stdout && std::fclose(file_) != 0 && failed_ == 0) failed_ = errno;
    file_ = nullptr;
    if (failed_ != 0) {
      print_error(why_.empty() ? fmt::format("cannot write '{}': {}", path_, std::strerror(failed_)) : why_);
    }
    return failed_ == 0;
  }

 private:
  std::string path_, why_;
  std::FILE* file_ = nullptr;
  int failed_ = 0;
};

// "[0, 3, :, :]": the table of the last two dimensions that the element `index` begins; empty if there is only one.
std::string table_title(std::span<const std::int64_t> shape, std::int64_t index) {
  if (shape.size() < 3) return "";
  index /= shape[shape.size() - 1] * shape[shape.size() - 2];
  std::string title = ":, :]";
  for (std::size_t d = shape.size() - 2; d-- > 0;) {
    title = fmt::format("{}, {}", index % shape[d], title);
    index /= shape[d];
  }
  return "[" + title;
}

// As numpy.savetxt: a row for each index but the last; `#` before text that is not a number.
bool write_text(const std::string& path, const TensorView& view, const std::string& name) {
  OutputFile out(path);
  out.write(fmt::format("# {}\n# shape {} dtype {}\n", printable(name), shape_text(view.shape, '(', ')'),
                        info(view.dtype).lower));
  const std::int64_t elements = view.elements();
  const std::int64_t row = view.shape.empty() ? 1 : view.shape.back();
  const std::int64_t table =
      view.shape.size() < 2 ? std::max<std::int64_t>(elements, 1) : row * view.shape[view.shape.size() - 2];
  constexpr std::size_t kPiece = 4096;
  std::vector<std::byte> bytes(kPiece * info(view.dtype).item_bytes);
  TensorView piece;
  piece.dtype = view.dtype;
  piece.data = bytes.data();
  std::string line;
  std::int64_t index = 0;
  if (elements == 0) return out.close();
  Cursor cursor(view);
  while (const std::size_t count = cursor.read(bytes.data(), kPiece)) {
    for (std::size_t i = 0; i < count; ++i, ++index) {
      if (index % table == 0 && view.shape.size() > 2) line += fmt::format("# {}\n", table_title(view.shape, index));
      line += exact_text(piece, static_cast<std::int64_t>(i));
      line += (index + 1) % row == 0 ? '\n' : ' ';
    }
    out.write(line);
    line.clear();
  }
  return out.close();
}

bool write_picture(const std::string& path, const Canvas& canvas) {
  const Result<std::string> png = canvas.png();
  if (!png) {
    print_error(png.error().message);
    return false;
  }
  OutputFile out(path);
  out.write(*png);
  return out.close();
}

std::string number_text(const std::optional<double>& value) { return value ? fmt::format("{:.6g}", *value) : "-"; }

std::vector<TrendSource> sources_of(const std::vector<SelectedStep>& steps, const FoundTensor& found) {
  std::vector<TrendSource> sources;
  for (const SelectedStep& step : steps) {
    if (step.step->id.graph != found.step->step->id.graph) continue;
    sources.push_back({step.rank, step.step});
  }
  return sources;
}

// One panel for each statistic, one line for each rank.
std::vector<TrendPanel> panels_of(const std::vector<std::string>& names, const std::vector<TrendStep>& trend) {
  std::vector<TrendPanel> panels;
  bool many_ranks = false;
  for (const TrendStep& at : trend) many_ranks = many_ranks || at.rank != trend[0].rank;
  for (const std::string& name : names) {
    TrendPanel& panel = panels.emplace_back();
    panel.name = name;
    std::map<const CatalogRank*, std::size_t> lines;
    for (const TrendStep& at : trend) {
      const auto [line, is_new] = lines.try_emplace(at.rank, panel.lines.size());
      if (is_new) panel.lines.push_back({many_ranks ? fmt::format("rank {}", at.rank->rank) : "", {}});
      panel.lines[line->second].points.push_back(
          {at.step->id.number, at.statistics ? statistic(*at.statistics, name) : std::nullopt});
    }
  }
  return panels;
}

}  // namespace

std::string trend_table(const std::vector<std::string>& names, const std::vector<TrendStep>& trend) {
  std::vector<Column> columns = {{"rank", Align::right}, {"step", Align::right}};
  for (const std::string& name : names) columns.push_back({name, Align::right});
  Table table(columns);
  bool many_ranks = false;
  for (const TrendStep& at : trend) many_ranks = many_ranks || at.rank != trend[0].rank;
  for (const TrendStep& at : trend) {
    std::vector<std::string> cells = {many_ranks ? std::to_string(at.rank->rank) : "",
                                      std::to_string(at.step->id.number)};
    for (const std::string& name : names) {
      cells.push_back(number_text(at.statistics ? statistic(*at.statistics, name) : std::nullopt));
    }
    table.add(std::move(cells));
  }
  return "\ntrend\n" + table.text(terminal_width());
}

bool any_of_values(const ShowCommand& files) {
  return !files.txt.empty() || (!files.picture.empty() && files.trend.empty());
}

bool text_alone(const ShowCommand& files) { return files.txt == "-"; }

std::string complaint_of(const ShowCommand& files) {
  if (!files.picture.empty() && !files.picture.ends_with(".png")) {
    return fmt::format("--picture '{}': pictures are PNG; expected a name that ends in .png", files.picture);
  }
  if (files.picture.empty() && !files.plot.empty()) return "--plot needs --picture FILE.png";
  if (!files.trend.empty() && !files.plot.empty()) return "--trend is a picture of its own; leave --plot out";
  const std::vector<std::string_view> known = statistic_names();
  for (const std::string& name : files.trend) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::vector<std::string> near = nearest(name, known, 1);
    return fmt::format("--trend: no statistic '{}'{}; there are {}", name,
                       near.empty() || !is_close(name, near[0]) ? "" : fmt::format("; did you mean '{}'?", near[0]),
                       fmt::join(known, ", "));
  }
  return "";
}

int write_files(const ShowCommand& files, const TensorView& view, const std::string& title, const std::string& name) {
  if (!files.picture.empty() && files.trend.empty()) {
    const bool as_maps = files.plot.empty() ? view.shape.size() >= 2 : files.plot == "maps";
    const std::string whole =
        fmt::format("{} {} {}", printable(title), shape_text(view.shape, '(', ')'), info(view.dtype).lower);
    const Result<Canvas> canvas =
        as_maps ? draw_maps(view, whole, {files.scale == "map", files.maps}) : draw_histogram(view, whole, files.bins);
    if (!canvas) return print_error(canvas.error(), kBadUsage);
    if (!write_picture(files.picture, *canvas)) return kUnreadable;
  }
  if (!files.txt.empty() && !write_text(files.txt, view, name)) return kUnreadable;
  return kNothingFound;
}

std::vector<TrendStep> drawn_trend(const ShowCommand& files, const std::vector<SelectedStep>& steps,
                                   const FoundTensor& found, int& status) {
  std::vector<std::string> problems;
  std::vector<TrendStep> trend =
      trend_of(sources_of(steps, found), found.op->op_name, found.tensor->is_input, found.tensor->slot, problems);
  add_unreadable(problems);
  if (!files.picture.empty()) {
    const Canvas canvas = draw_trend(panels_of(files.trend, trend), printable(name_of(*found.op, *found.tensor)));
    if (!write_picture(files.picture, canvas)) status = kUnreadable;
  }
  return trend;
}

std::vector<ShownStep> shown_trend(const std::vector<std::string>& names, const std::vector<TrendStep>& trend) {
  std::vector<ShownStep> rows;
  for (const TrendStep& at : trend) {
    ShownStep& row = rows.emplace_back();
    row.rank = at.rank->rank;
    row.step = at.step->id.number;
    for (const std::string& name : names) {
      row.others.push_back({name, at.statistics ? statistic(*at.statistics, name) : std::nullopt});
    }
  }
  return rows;
}

}  // namespace sonde
