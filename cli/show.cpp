#include "show.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "analysis/measure.h"
#include "analysis/values.h"
#include "config/nearest.h"
#include "dump.h"
#include "json.h"
#include "store/npy_reader.h"
#include "table.h"
#include "text.h"

namespace sonde {
namespace {

constexpr std::size_t kCornerRows = 6, kCornerColumns = 8;
constexpr std::size_t kBins = 16;
constexpr std::size_t kBarColumns = 40;
constexpr std::size_t kReadersShown = 5;

struct ShowOptions : DumpOptions {
  std::string tensor;
};

// "…/conv2d-op0:output.0" taken apart; no slot when the text does not end like that.
struct Wish {
  std::string name;
  bool has_slot = false;
  bool is_input = false;
  std::uint32_t slot = 0;
};

Wish wish_of(const std::string& text) {
  Wish wish{text};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return wish;
  std::string_view slot = std::string_view(text).substr(colon + 1);
  for (const std::string_view side : {"input.", "output."}) {
    if (!slot.starts_with(side)) continue;
    const std::string_view number = slot.substr(side.size());
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), wish.slot);
    if (error != std::errc() || end != number.data() + number.size()) continue;
    wish.has_slot = true;
    wish.is_input = side == "input.";
    wish.name = text.substr(0, colon);
    return wish;
  }
  return wish;
}

struct Found {
  const SelectedStep* step = nullptr;
  CatalogOp* op = nullptr;
  CatalogTensor* tensor = nullptr;
};

bool is_slot(const CatalogTensor& tensor, const Wish& wish) {
  return tensor.is_input == wish.is_input && tensor.slot == wish.slot;
}

// The slot that was asked for, else the first output that was recorded, else the first slot that
// was, else any.
CatalogTensor* slot_of(CatalogOp& op, const Wish& wish) {
  CatalogTensor* best = nullptr;
  const auto worth = [](const CatalogTensor& t) { return 2 * t.recorded() + !t.is_input; };
  for (CatalogTensor& tensor : op.tensors) {
    if (wish.has_slot && is_slot(tensor, wish)) return &tensor;
    if (!wish.has_slot && (best == nullptr || worth(tensor) > worth(*best))) best = &tensor;
  }
  return best;
}

bool ends_with_part(std::string_view full_name, std::string_view name) {
  return full_name.size() > name.size() && full_name.ends_with(name) &&
         full_name[full_name.size() - name.size() - 1] == '/';
}

// Full names that mean `name`: itself, or all that end with `/name`.
std::vector<std::string_view> names_meant(const std::vector<SelectedStep>& steps,
                                          std::string_view name) {
  std::vector<std::string_view> names;
  for (const SelectedStep& step : steps) {
    for (const CatalogOp* op : step.ops) {
      if (op->full_name == name) return {op->full_name};
      if (ends_with_part(op->full_name, name) &&
          std::ranges::find(names, op->full_name) == names.end()) {
        names.push_back(op->full_name);
      }
    }
  }
  return names;
}

// The first recorded tensor with this name (a gradient, a state) or of this file.
template <typename Accepts>
Found find_tensor(std::vector<SelectedStep>& steps, Accepts accepts) {
  Found found;
  for (SelectedStep& step : steps) {
    for (CatalogOp* op : step.ops) {
      for (CatalogTensor& tensor : op->tensors) {
        if (!accepts(step, tensor) || (found.tensor != nullptr && !tensor.recorded())) continue;
        if (found.tensor == nullptr || !found.tensor->recorded()) found = {&step, op, &tensor};
      }
    }
  }
  return found;
}

Found find_by_name(std::vector<SelectedStep>& steps, const Wish& wish, std::string& wrong) {
  const std::vector<std::string_view> names = names_meant(steps, wish.name);
  if (names.size() > 1) {
    wrong = fmt::format("'{}' may mean {} ops, such as {} and {}", wish.name, names.size(),
                        names[0], names[1]);
    return {};
  }
  if (names.empty()) {
    const Found found = find_tensor(steps, [&](const SelectedStep&, const CatalogTensor& tensor) {
      return tensor.tensor_name == wish.name && (!wish.has_slot || is_slot(tensor, wish));
    });
    if (found.tensor == nullptr) {
      const std::string near = nearest_ops(steps, wish.name);
      wrong = fmt::format("no op or tensor '{}'{}{}", wish.name, near.empty() ? "" : "; ", near);
    }
    return found;
  }
  Found best;
  for (SelectedStep& step : steps) {
    for (CatalogOp* op : step.ops) {
      if (op->full_name != names[0]) continue;
      CatalogTensor* tensor = slot_of(*op, wish);
      if (tensor == nullptr || (best.tensor != nullptr && !tensor->recorded())) continue;
      if (best.tensor == nullptr || !best.tensor->recorded()) best = {&step, op, tensor};
    }
  }
  if (best.tensor != nullptr) return best;
  std::vector<std::string> slots;
  for (const CatalogTensor& tensor : find_op(*steps[0].step, names[0])->tensors) {
    slots.push_back(slot_text(tensor));
  }
  wrong = fmt::format("'{}' has no such slot; it has {}", names[0], joined(slots, ", "));
  return {};
}

Found find_by_file(std::vector<SelectedStep>& steps, const std::string& text) {
  std::error_code ignored;
  const std::filesystem::path wanted = std::filesystem::weakly_canonical(text, ignored);
  return find_tensor(steps, [&](const SelectedStep& step, const CatalogTensor& tensor) {
    return !tensor.file.empty() &&
           (tensor.file == text || step.rank->directory / tensor.file == wanted ||
            std::filesystem::path(tensor.file).filename() == text);
  });
}

std::string name_of(const CatalogOp& op, const CatalogTensor& tensor) {
  return fmt::format("{}:{}", op.full_name, slot_text(tensor));
}

// Who wrote the tensor and who reads it, in its run.
struct Flow {
  std::string written_by;  // empty: unknown
  std::vector<std::string> read_by;
};

Flow flow_of(const std::vector<SelectedStep>& steps, const Found& found) {
  Flow flow;
  const CatalogTensor& tensor = *found.tensor;
  std::uint64_t source = tensor.is_input ? tensor.source : found.op->sequence;
  const std::uint32_t source_slot = tensor.is_input ? tensor.source_slot : tensor.slot;
  std::string_view name = tensor.tensor_name;
  if (found.op->is_parameter) {
    source = kNoSequence;
    name = found.op->full_name;
  }
  for (const SelectedStep& step : steps) {
    const bool same_run = step.rank == found.step->rank && step.step->run == found.step->step->run;
    const bool same_step = same_run && step.step == found.step->step;
    if (!same_run) continue;
    for (const CatalogOp& op : step.step->ops) {
      if (op.sequence == source && tensor.is_input) {
        flow.written_by = fmt::format("{}:output.{}", op.full_name, source_slot);
      }
      for (const CatalogTensor& other : op.tensors) {
        if (!other.is_input || &other == &tensor) continue;
        const bool reads = source != kNoSequence
                               ? other.source == source && other.source_slot == source_slot
                               : same_step && !name.empty() && other.tensor_name == name;
        if (reads) flow.read_by.push_back(name_of(op, other));
      }
    }
  }
  if (flow.written_by.empty() && !tensor.is_input && !found.op->is_parameter) {
    flow.written_by = found.op->full_name;
  }
  return flow;
}

std::string field(std::string_view name, const std::string& text) {
  return fmt::format("  {:<11} {}\n", name, printable(text));
}

std::string statistics_text(const CatalogTensor& tensor) {
  if (!tensor.statistics) return "not recorded";
  const KnownStatistics& s = *tensor.statistics;
  std::vector<std::string> parts;
  const auto add_value = [&](const char* name, const std::optional<double>& value) {
    if (value) parts.push_back(fmt::format("{} {:g}", name, *value));
  };
  const auto add_count = [&](const char* name, const std::optional<std::uint64_t>& count) {
    if (count) parts.push_back(fmt::format("{} {}", name, *count));
  };
  add_value("max", s.max);
  add_value("min", s.min);
  add_value("avg", s.avg);
  add_value("l2norm", s.l2norm);
  std::string text = joined(parts, "  ");
  parts.clear();
  add_count("count", s.count);
  add_count("nan", s.nan_count);
  add_count("+inf", s.positive_inf_count);
  add_count("-inf", s.negative_inf_count);
  add_count("positive", s.positive_count);
  add_count("negative", s.negative_count);
  add_count("zero", s.zero_count);
  if (!parts.empty()) text += fmt::format("\n  {:<11} {}", "", joined(parts, "  "));
  return text;
}

std::string source_line(const CatalogOp& op) {
  if (op.source_file.empty()) return "";
  return fmt::format("{}:{}{}{}", op.source_file, op.line, op.function.empty() ? "" : " in ",
                     op.function);
}

std::string head_text(const Found& found, const Flow& flow) {
  const CatalogTensor& tensor = *found.tensor;
  std::string text = printable(name_of(*found.op, tensor)) + "\n";
  text += field("where", fmt::format("rank {}, graph {}, step {}", found.step->rank->rank,
                                     found.step->step->id.graph, found.step->step->id.iteration));
  if (!tensor.tensor_name.empty()) text += field("name", std::string(tensor.tensor_name));
  text += field("shape", shape_text(tensor) + " " + dtype_text(tensor));
  if (!tensor.skipped.empty()) text += field("skipped", std::string(tensor.skipped));
  text += fmt::format("  {:<11} {}\n", "statistics", statistics_text(tensor));
  if (!tensor.md5.empty()) text += field("md5", std::string(tensor.md5));
  if (!tensor.sha1.empty()) text += field("sha1", std::string(tensor.sha1));
  const std::string source = source_line(*found.op);
  if (!source.empty()) text += field("source", source);
  if (!flow.written_by.empty()) text += field("written by", flow.written_by);
  for (std::size_t i = 0; i < std::min(flow.read_by.size(), kReadersShown); ++i) {
    text += field(i == 0 ? "read by" : "", flow.read_by[i]);
  }
  if (flow.read_by.size() > kReadersShown) {
    text += field("", fmt::format("and {} more", flow.read_by.size() - kReadersShown));
  }
  if (!tensor.file.empty())
    text += field("file", (found.step->rank->directory / tensor.file).string());
  return text;
}

std::string corner_text(const Corner& corner) {
  if (corner.values.empty()) return "";
  std::vector<Column> columns(corner.values[0].size() + (corner.more_columns ? 1 : 0),
                              {"", Align::right});
  Table table(columns);
  for (std::vector<std::string> row : corner.values) {
    if (corner.more_columns) row.push_back("…");
    table.add(std::move(row));
  }
  if (corner.more_rows) table.add(std::vector<std::string>(columns.size(), "…"));
  std::string text = table.text(0);
  text.erase(0, text.find('\n') + 1);  // no titles
  return fmt::format("\nvalues {}\n{}", corner.title, text);
}

// Eighths of a column, so that small counts are seen.
std::string bar_text(double part) {
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<std::size_t>(part * static_cast<double>(kBarColumns * 8));
  std::string bar;
  for (std::size_t i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[eighths % 8];
  return bar.empty() && part > 0 ? "▏" : bar;
}

double edge(const Histogram& histogram, std::size_t i) {
  const double part = static_cast<double>(i) / static_cast<double>(histogram.counts.size());
  return histogram.min * (1 - part) + histogram.max * part;
}

std::string histogram_text(const Histogram& histogram) {
  if (histogram.counts.empty()) return "";
  const std::uint64_t most = *std::ranges::max_element(histogram.counts);
  Table table({{"", Align::right}, {"", Align::right}, {""}});
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const double part = static_cast<double>(histogram.counts[i]) / static_cast<double>(most);
    table.add({fmt::format("{:.4g}", edge(histogram, i)), std::to_string(histogram.counts[i]),
               bar_text(part)});
  }
  std::string text = table.text(0);
  text.erase(0, text.find('\n') + 1);
  return fmt::format("\nhistogram, from each value to the next, the last to {:.4g}\n{}",
                     histogram.max, text);
}

struct Values {
  Corner corner;
  Histogram histogram;
};

Values values_of(const NpyFile& file) {
  const TensorView view = file.view();
  Values values;
  values.corner = corner_of(view, kCornerRows, kCornerColumns);
  if (info(view.dtype).has_statistics) values.histogram = histogram_of(view, kBins);
  return values;
}

Json json_of(const Values& values) {
  Json edges = Json::array();
  for (std::size_t i = 0; !values.histogram.counts.empty() && i <= values.histogram.counts.size();
       ++i) {
    edges.push_back(edge(values.histogram, i));
  }
  return {{"corner_index", values.corner.title},
          {"corner", values.corner.values},
          {"histogram_edges", edges},
          {"histogram_counts", values.histogram.counts}};
}

int print_found(Found& found, const std::vector<SelectedStep>& steps, const ShowOptions& options) {
  Measurer measurer;
  int status = kNothingFound;
  std::optional<Values> values;
  if (!found.tensor->file.empty()) {
    const Status measured = measurer.measure(*found.step->rank, *found.tensor);
    const Result<NpyFile> file = NpyFile::open(found.step->rank->directory / found.tensor->file);
    if (measured && file) {
      values = values_of(*file);
    } else {
      print_error(file ? measured.error().message : file.error().message);
      status = kUnreadable;
    }
  }
  const Flow flow = flow_of(steps, found);
  std::string text;
  if (options.json) {
    Json json = json_of(*found.step->rank, *found.step->step, *found.op, *found.tensor);
    json["written_by"] = flow.written_by;
    json["read_by"] = flow.read_by;
    if (values) json.update(json_of(*values));
    text = document_of(json);
  } else {
    text = head_text(found, flow);
    if (values) text += corner_text(values->corner) + histogram_text(values->histogram);
    if (!values && status == kNothingFound && found.tensor->skipped.empty()) {
      text += found.tensor->recorded()
                  ? "\nvalues were not recorded; saved_data \"tensor\" or \"full\" keeps them\n"
                  : "\nonly its place in the graph was recorded\n";
    }
  }
  return print_text(text) ? status : kUnreadable;
}

// A .npy file by itself, in a dump or not.
int print_file(const std::string& path, bool json) {
  const Result<NpyFile> file = NpyFile::open(path);
  if (!file) {
    print_error(file.error().message);
    return kUnreadable;
  }
  CatalogTensor tensor;
  tensor.dtype = file->header().dtype;
  tensor.shape = file->header().shape;
  tensor.has_shape = true;
  if (info(tensor.dtype).has_statistics) tensor.statistics = known(summarize(file->view()));
  const Values values = values_of(*file);
  if (json) {
    Json document = {{"file", path}, {"dtype", dtype_text(tensor)}, {"shape", tensor.shape}};
    if (tensor.statistics) document.update(json_of(*tensor.statistics));
    document.update(json_of(values));
    return print_text(document_of(document)) ? kNothingFound : kUnreadable;
  }
  const std::string text = printable(path) + "\n" +
                           field("shape", shape_text(tensor) + " " + dtype_text(tensor)) +
                           fmt::format("  {:<11} {}\n", "statistics", statistics_text(tensor)) +
                           corner_text(values.corner) + histogram_text(values.histogram);
  return print_text(text) ? kNothingFound : kUnreadable;
}

int show(const ShowOptions& options) {
  if (options.tensor.empty()) {
    if (options.dump.ends_with(".npy")) return print_file(options.dump, options.json);
    print_error("TENSOR is missing: which one? `sonde ls --ops " + options.dump +
                "` lists the ops");
    return kBadUsage;
  }
  int status = kNothingFound;
  std::optional<Catalog> catalog = open_dump(options, status);
  if (!catalog) return status;
  std::optional<std::vector<SelectedStep>> steps = select_steps(*catalog, options, status);
  if (!steps) return status;
  if (options.tensor.ends_with(".npy")) {
    Found found = find_by_file(*steps, options.tensor);
    if (found.tensor != nullptr) return print_found(found, *steps, options);
    return print_file(options.tensor, options.json);
  }
  std::string wrong;
  Found found = find_by_name(*steps, wish_of(options.tensor), wrong);
  if (found.tensor != nullptr) return print_found(found, *steps, options);
  print_error(wrong);
  return kBadUsage;
}

}  // namespace

void add_show(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* verb = app.add_subcommand(
      "show", "Show one tensor: shape, statistics, source line, values, histogram.");
  add_dump_options(*verb, *options, false);
  verb->add_option("TENSOR", options->tensor,
                   "an op's full name or its end, with a slot as in conv2d-op0:output.0;\n"
                   "a parameter; or a .npy file (then DUMP alone may be it)")
      ->type_name("");
  verb->footer(
      "Exit status: 0 shown, 2 bad usage or no such tensor, 3 dump or file unreadable.\n"
      "Example: sonde show run7 'features/0-Conv2d/conv2d-op0:output.0' --step 2");
  verb->callback([options, &exit_status] { exit_status = show(*options); });
}

}  // namespace sonde
