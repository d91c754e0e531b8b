#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "ask/first_bad/counted.h"
#include "dump.h"
#include "dump/formats/cann_types.h"
#include "dump/formats/file_names.h"
#include "dump/formats/tensor_file.h"
#include "dump/formats/torch_file.h"
#include "face/report/catalog_text.h"
#include "face/report/finding.h"
#include "face/report/json.h"
#include "face/report/page_link.h"
#include "face/report/table.h"
#include "face/report/text.h"
#include "ground/tensor/format.h"
#include "read/catalog/find_tensor.h"
#include "read/measure/measure.h"
#include "read/measure/values.h"
#include "show_files.h"
#include "verbs.h"
#include "way_before.h"

namespace sonde {
namespace {

constexpr std::size_t kCornerRows = 6, kCornerColumns = 8;
constexpr std::size_t kBins = 16;
constexpr std::size_t kBarColumns = 40;
constexpr std::size_t kReadersShown = 5;

std::string field(std::string_view name, const std::string& text) {
  return fmt::format("  {:<11} {}\n", name, printable(text));
}

// `nan` of nan_count, `+inf` and `-inf` of the infinities, `count` of count.
std::string short_name(std::string_view statistic) {
  constexpr std::string_view kCount = "_count", kInf = "_inf";
  if (!statistic.ends_with(kCount)) return std::string(statistic);
  statistic.remove_suffix(kCount.size());
  if (!statistic.ends_with(kInf)) return std::string(statistic);
  return statistic.starts_with("positive") ? "+inf" : "-inf";
}

std::string statistics_text(const CatalogTensor& tensor) {
  if (!tensor.statistics) return "not recorded";
  const KnownStatistics& s = *tensor.statistics;
  std::vector<std::string> values, counts;
  for_each_statistic(s, [&]<typename Value>(std::string_view name, const std::optional<Value>& value) {
    if (!value) return;
    if constexpr (std::is_floating_point_v<Value>) {
      values.push_back(fmt::format("{} {:g}", name, *value));
    } else {
      counts.push_back(fmt::format("{} {}", short_name(name), *value));
    }
  });
  std::string text = joined(values, "  ");
  if (!counts.empty()) text += fmt::format("\n  {:<11} {}", "", joined(counts, "  "));
  return text;
}

std::string source_line(const CatalogOp& op) {
  if (op.source_file.empty()) return "";
  return fmt::format("{}:{}{}{}", op.source_file, op.line, op.function.empty() ? "" : " in ", op.function);
}

std::string head_text(const FoundTensor& found, const Flow& flow, const WayBefore& before) {
  const CatalogTensor& tensor = *found.tensor;
  std::string text = printable(name_of(*found.op, tensor)) + "\n";
  text += field("where", fmt::format("rank {}, graph {}, step {}", rank_text(*found.step->rank),
                                     found.step->step->id.graph, found.step->step->id.number));
  if (!tensor.parameter.empty()) text += field("name", std::string(tensor.parameter));
  text += field("shape", shape_text(tensor) + " " + dtype_text(tensor));
  if (!tensor.placement.empty()) text += field("placement", std::string(tensor.placement));
  if (!tensor.skipped.empty()) text += field("skipped", std::string(tensor.skipped));
  text += fmt::format("  {:<11} {}\n", "statistics", statistics_text(tensor));
  const std::string counted = count_bad(*found.step->rank, tensor, tensor.statistics).text;
  if (!counted.empty()) text += field("holds", counted);
  if (!tensor.md5.empty()) text += field("md5", std::string(tensor.md5));
  if (!tensor.sha1.empty()) text += field("sha1", std::string(tensor.sha1));
  const std::string source = source_line(*found.op);
  if (!source.empty()) text += field("source", source);
  if (!flow.written_by.empty()) text += field("comes from", flow.written_by);
  for (std::size_t i = before.ops.size(); i-- > 0;) {
    text += field(i + 1 == before.ops.size() ? "comes from" : "", earlier_text(before.ops[i]));
  }
  if (!before.missing.empty()) text += field("comes from", before.missing);
  for (std::size_t i = 0; i < std::min(flow.read_by.size(), kReadersShown); ++i) {
    text += field(i == 0 ? "read by" : "", flow.read_by[i]);
  }
  if (flow.read_by.size() > kReadersShown) {
    text += field("", fmt::format("and {} more", flow.read_by.size() - kReadersShown));
  }
  if (!tensor.file.empty()) text += field("file", (found.step->rank->directory / tensor.file).string());
  return text;
}

std::string corner_text(const Corner& corner) {
  if (corner.values.empty()) return "";
  std::vector<Column> columns(corner.values[0].size() + (corner.more_columns ? 1 : 0), {"", Align::right});
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

// Eighths of a column, so that small counts are visible.
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
    table.add({fmt::format("{:.4g}", edge(histogram, i)), std::to_string(histogram.counts[i]), bar_text(part)});
  }
  std::string text = table.text(0);
  text.erase(0, text.find('\n') + 1);
  return fmt::format("\nhistogram, from each value to the next, the last to {:.4g}\n{}", histogram.max, text);
}

struct Values {
  Corner corner;
  Histogram histogram;
};

Values values_of(const TensorFile& file) {
  const TensorView view = file.view();
  Values values;
  values.corner = corner_of(view, kCornerRows, kCornerColumns);
  if (info(view.dtype).has_statistics) values.histogram = histogram_of(view, kBins);
  return values;
}

ShownValues shown_values(const Values& values) {
  const Histogram& histogram = values.histogram;
  ShownValues shown{values.corner.title, values.corner.values, {}, histogram.counts};
  for (std::size_t i = 0; !histogram.counts.empty() && i <= histogram.counts.size(); ++i) {
    shown.histogram_edges.push_back(edge(histogram, i));
  }
  return shown;
}

// The steps for find_by_name (with `is_file`: find_by_file) and flow_of.
CatalogQuery query_of_tensor(const DumpOptions& options, const std::string& text, bool is_file) {
  CatalogQuery query = query_of(options);
  query.with_neighbours = true;
  if (is_file) {
    std::error_code error;
    const std::filesystem::path real = std::filesystem::weakly_canonical(text, error);
    query.file = (error ? std::filesystem::path(text) : real).filename();
    return query;
  }
  query.parameter = op_part(text);
  query.ops = [name = query.parameter](std::string_view op_name, std::string_view) { return means_op(name, op_name); };
  return query;
}

std::string place_text(const FoundTensor& found) {
  return fmt::format("rank {}, graph {}, step {}", found.step->rank->rank, found.step->step->id.graph,
                     found.step->step->id.number);
}

// If several steps have it, the first is shown; a note says so if the user did not choose one.
void note_choice(const FoundTensor& found, const std::vector<SelectedStep>& steps, const ShowCommand& options) {
  std::size_t others = 0;
  for (const SelectedStep& step : steps) {
    if (step.step == found.step->step) continue;
    others += std::ranges::any_of(step.ops, [&](const CatalogOp* op) {
      return op->op_name == found.op->op_name && std::ranges::any_of(op->tensors, [&](const CatalogTensor& tensor) {
               return tensor.is_input == found.tensor->is_input && tensor.slot == found.tensor->slot &&
                      tensor.recorded();
             });
    });
  }
  if (others == 0 || !options.trend.empty()) return;
  print_warning(fmt::format("{} have it; showing {} (--step, --graph, --rank choose)", count_text(others + 1, "step"),
                            place_text(found)));
}

std::string link_of(const FoundTensor& found) {
  const auto& [step, op, tensor] = found;
  return link_text({false, rank_text(*step->rank), step->step->id, op->op_name, tensor->is_input, tensor->slot});
}

// The way back to who wrote an input in an earlier step.
WayBefore way_before(const FoundTensor& found, const ShowCommand& options, const Catalog& catalog) {
  CatalogTensor read = *found.tensor;
  read.is_input = read.is_input || found.op->is_parameter;  // a parameter's own record: as its first reader reads it
  return EarlierSteps(catalog, options.dump).way_to(*found.step->rank, *found.step->step, read);
}

int print_found(FoundTensor& found, const std::vector<SelectedStep>& steps, const ShowCommand& options,
                const Catalog& catalog) {
  Measurer measurer;
  int status = kNothingFound;
  std::optional<Values> values;
  if (found.tensor->file.empty() && any_of_values(options)) {
    print_error(fmt::format("the values of '{}' were not recorded ({}): there is nothing to draw or to write",
                            name_of(*found.op, *found.tensor), place_text(found)));
    return kBadUsage;
  }
  if (!found.tensor->file.empty()) {
    const Status measured = measurer.measure(*found.step->rank, *found.tensor);
    const Result<TensorFile> file = open_file(*found.step->rank, *found.tensor);
    if (measured && file) {
      const std::string name = name_of(*found.op, *found.tensor), place = place_text(found);
      status = write_files(options, file->view(), fmt::format("{} ({})", name, place), name + ", " + place);
      if (status != kNothingFound || text_alone(options)) return status;
      values = values_of(*file);
    } else {
      add_unreadable({file ? measured.error().message : file.error().message});
    }
  }
  const Flow flow = flow_of(steps, found);
  const WayBefore before = flow.written_by.empty() ? way_before(found, options, catalog) : WayBefore();
  std::vector<TrendStep> trend;
  if (!options.trend.empty()) trend = drawn_trend(options, steps, found, status);
  if (options.json) {
    ShownTensor shown{.tensor = listed(*found.step->rank, *found.step->step, *found.op, *found.tensor),
                      .written_by = flow.written_by,
                      .read_by = flow.read_by,
                      .written_before = std::nullopt,
                      .values = std::nullopt,
                      .trend = std::nullopt};
    if (!before.ops.empty()) shown.written_before = before.ops;
    if (values) shown.values = shown_values(*values);
    if (!options.trend.empty()) shown.trend = shown_trend(options.trend, trend);
    Answer::get().add(shown);
    return status;
  }
  std::string text = head_text(found, flow, before);
  if (values) text += corner_text(values->corner) + histogram_text(values->histogram);
  if (!values && found.tensor->file.empty() && found.tensor->skipped.empty()) {
    text += found.tensor->recorded() ? "\nvalues were not recorded; saved_data \"tensor\" or \"full\" keeps them\n"
                                     : "\nonly its place in the graph was recorded\n";
  }
  if (!options.trend.empty()) text += trend_table(options.trend, trend);
  if (options.link) text += "\n" + link_of(found);
  return print_text(text) ? status : kUnreadable;
}

// A tensor file alone, inside a dump or not.
int print_tensor(const std::string& path, const std::string& title, const TensorSpec& spec,
                 const ShowCommand& options) {
  const Result<TensorFile> file = TensorFile::open(path, spec);
  if (!file) return print_error(file.error(), kUnreadable);
  const int written = write_files(options, file->view(), title, title);
  if (written != kNothingFound || text_alone(options)) return written;
  CatalogTensor tensor;
  tensor.dtype = file->dtype();
  tensor.shape = file->shape();
  tensor.has_shape = true;
  if (info(tensor.dtype).has_statistics) tensor.statistics = known(summarize(file->view()));
  const Values values = values_of(*file);
  if (options.json) {
    Answer::get().add(ShownFile{.tensor_file = path,
                                .dtype = dtype_text(tensor),
                                .shape = std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end()),
                                .statistics = tensor.statistics,
                                .values = shown_values(values)});
    return kNothingFound;
  }
  const std::string text = printable(title) + "\n" + field("shape", shape_text(tensor) + " " + dtype_text(tensor)) +
                           fmt::format("  {:<11} {}\n", "statistics", statistics_text(tensor)) +
                           corner_text(values.corner) + histogram_text(values.histogram);
  return print_text(text) ? kNothingFound : kUnreadable;
}

std::string format_text(const ContainerTensor& tensor) {
  const std::string_view name = name_of(static_cast<Format>(tensor.format));
  return name.empty() ? std::to_string(tensor.format) : std::string(name);
}

// The content of a container, slot by slot.
int print_container(const std::string& path, const ShowCommand& options) {
  const Result<Container> container = read_container(path);
  if (!container) return print_error(container.error(), kUnreadable);
  ContainerContent content{path, container->op_name, container->dump_time, {}};
  for (const Side side : {Side::input, Side::output}) {
    std::uint32_t slot = 0;
    for (const ContainerTensor& tensor : side == Side::input ? container->inputs : container->outputs) {
      content.tensors.push_back({.side = side,
                                 .slot = slot++,
                                 .cann_type = cann_type_name(tensor.data_type),
                                 .format = format_text(tensor),
                                 .shape = {tensor.shape.begin(), tensor.shape.end()},
                                 .bytes = tensor.bytes});
    }
  }
  if (options.json) {
    Answer::get().add(content);
    return kNothingFound;
  }
  Table table({{"slot"}, {"type"}, {"format"}, {"shape"}, {"bytes", Align::right}});
  for (const ContainerSlot& tensor : content.tensors) {
    table.add({fmt::format("{}.{}", word_of(tensor.side), tensor.slot), tensor.cann_type, tensor.format,
               fmt::format("({})", fmt::join(tensor.shape, ",")), std::to_string(tensor.bytes)});
  }
  const std::string text = printable(path) + "\n" + field("op", container->op_name) +
                           field("written", time_text(container->dump_time)) + "\n" + table.text(terminal_width());
  return print_text(text) ? kNothingFound : kUnreadable;
}

// The tensors of a .pt, if it holds several.
int print_torch(const std::string& path, const TorchHeader& header, const ShowCommand& options) {
  TorchContent content{path, {}};
  for (const TorchTensor& tensor : header.tensors) {
    content.tensors.push_back({.side = Side::output,
                               .slot = static_cast<std::uint32_t>(content.tensors.size()),
                               .parameter = tensor.name,
                               .dtype = std::string(info(tensor.dtype).lower),
                               .shape = {tensor.shape.begin(), tensor.shape.end()}});
  }
  if (options.json) {
    Answer::get().add(content);
    return kNothingFound;
  }
  Table table({{"slot"}, {"name"}, {"type"}, {"shape"}});
  for (const TorchSlot& tensor : content.tensors) {
    table.add({fmt::format("{}.{}", word_of(tensor.side), tensor.slot), tensor.parameter, tensor.dtype,
               shape_text(tensor.shape, '(', ')')});
  }
  return print_text(printable(path) + "\n" + table.text(terminal_width())) ? kNothingFound : kUnreadable;
}

// "output.0"
bool parse_slot(std::string_view text, TensorSpec& spec) {
  spec.is_input = text.starts_with("input.");
  if (!spec.is_input && !text.starts_with("output.")) return false;
  text.remove_prefix(text.find('.') + 1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), spec.slot);
  return error == std::errc() && end == text.data() + text.size();
}

int print_file(const std::string& path, const std::string& slot, const ShowCommand& options) {
  TensorSpec spec;
  parse_slot(slot, spec);
  if (!options.trend.empty()) {
    print_error("--trend needs the dump that '" + path + "' belongs to, and the name of a tensor in it");
    return kBadUsage;
  }
  const std::string name = std::filesystem::path(path).filename();
  const Result<TorchHeader> header = slot.empty() && is_torch_name(name) ? read_torch(path) : TorchHeader();
  const bool holds_several = is_torch_name(name) ? header && header->tensors.size() > 1 : is_container_name(name);
  if (slot.empty() && holds_several) {
    if (is_torch_name(name) && !any_of_values(options)) return print_torch(path, *header, options);
    if (!any_of_values(options)) return print_container(path, options);
    print_error(fmt::format("'{}' holds several tensors: which one? such as `sonde show {} output.0`", path, path));
    return kBadUsage;
  }
  return print_tensor(path, slot.empty() ? path : path + " " + slot, spec, options);
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

// Also for a file that does not exist here: the name of a file in the dump.
bool names_file(const std::string& text) {
  OpFileName op;
  return is_file(text) || text.ends_with(".npy") || text.ends_with(".bin") || is_torch_name(text) ||
         parse_op_file_name(text, op);
}

}  // namespace

int show(const ShowCommand& options) {
  if (const std::string wrong = complaint_of(options); !wrong.empty()) {
    print_error(wrong);
    return kBadUsage;
  }
  if (options.json && options.txt == "-") {
    print_error("--txt - writes the values where --json answers; name a file");
    return kBadUsage;
  }
  TensorSpec slot;
  const bool by_itself = options.tensor.empty() || (is_file(options.dump) && parse_slot(options.tensor, slot));
  if (by_itself && names_file(options.dump)) {
    return print_file(options.dump, options.tensor, options);
  }
  if (options.tensor.empty()) {
    print_error("TENSOR is missing: which one? `sonde ls --ops " + options.dump + "` lists the ops");
    return kBadUsage;
  }
  int status = kNothingFound;
  const CatalogQuery query = query_of_tensor(options, options.tensor, names_file(options.tensor));
  std::optional<Catalog> catalog = open_dump(options, query, status);
  if (!catalog) return status;
  std::optional<std::vector<SelectedStep>> steps = select_steps(*catalog, options, status);
  if (!steps) return status;
  if (names_file(options.tensor)) {
    FoundTensor found = find_by_file(*steps, options.tensor);
    if (found.tensor != nullptr) return print_found(found, *steps, options, *catalog);
    return print_file(options.tensor, "", options);
  }
  std::string wrong;
  FoundTensor found = find_by_name(*steps, options.tensor, wrong);
  if (found.tensor != nullptr) {
    note_choice(found, *steps, options);
    return print_found(found, *steps, options, *catalog);
  }
  if (comes_from_index(*catalog)) {  // similar names may be among ops that were not read from the index
    catalog = open_dump(options, query_of(options), status);
    if (catalog) steps = select_steps(*catalog, options, status);
    if (catalog && steps) find_by_name(*steps, options.tensor, wrong);
  }
  print_error(wrong);
  return kBadUsage;
}

}  // namespace sonde
