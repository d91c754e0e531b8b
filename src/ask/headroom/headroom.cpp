#include "ask/headroom/headroom.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>

#include "ask/headroom/magnitudes.h"
#include "ground/base/parallel.h"
#include "read/catalog/slot_text.h"
#include "read/measure/measure.h"

namespace sonde {
namespace {

constexpr const char* kUsual[] = {"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"};

// One recording of a tensor.
struct Recording {
  const RecordedOp* of;
  const CatalogTensor* tensor;
  Magnitudes found{};
  bool is_known = false;
  std::string problem{};  // why the file could not be read
};

bool is_asked(const CatalogTensor& tensor, const HeadroomOptions& options) {
  const bool may_float = is_floating(tensor.dtype) || tensor.dtype == DType::undefined;
  return tensor.recorded() && may_float && (tensor.is_input ? options.inputs : options.outputs);
}

std::vector<Recording> recordings_of(const std::vector<RecordedOp>& ops, const HeadroomOptions& options) {
  std::vector<Recording> all;
  for (const RecordedOp& one : ops) {
    for (const CatalogTensor& tensor : one.op->tensors) {
      if (is_asked(tensor, options)) all.push_back({&one, &tensor});
    }
  }
  return all;
}

void look(Recording& recording, const HeadroomOptions& options) {
  const CatalogTensor& tensor = *recording.tensor;
  if (!tensor.file.empty()) {
    const Result<TensorFile> file = open_file(*recording.of->rank, tensor);
    if (file && !is_floating(file->dtype())) return;
    if (file) recording.found = magnitudes_of(file->view(), options.formats, options.scale);
    if (!file) recording.problem = file.error().message;
    recording.is_known = bool(file);
  }
  if (!recording.is_known && tensor.statistics && is_floating(tensor.dtype)) {
    recording.found = magnitudes_of(*tensor.statistics, options.formats, options.scale);
    recording.is_known = true;
  }
}

// Not known as soon as one part is not.
void add_to(std::optional<std::uint64_t>& sum, const std::optional<std::uint64_t>& part) {
  sum = sum && part ? std::optional(*sum + *part) : std::nullopt;
}

HeadroomTensor row_of(const Recording& recording, const HeadroomOptions& options) {
  const CatalogOp& op = *recording.of->op;
  const CatalogTensor& tensor = *recording.tensor;
  HeadroomTensor row;
  row.op_name = op.op_name;
  row.op_type = op.op_type;
  row.source_file = op.source_file;
  row.source_line = op.line;
  row.side = side_of(tensor);
  row.slot = tensor.slot;
  row.parameter = tensor.parameter;
  row.dtype = tensor.dtype == DType::undefined ? "?" : std::string(info(tensor.dtype).lower);
  row.rank = recording.of->rank->rank;
  row.graph = recording.of->step->id.graph;
  row.step = recording.of->step->id.number;
  for (const NumberFormat* format : options.formats) {
    HeadroomOf& as = row.as_dtypes.emplace_back();
    as.dtype = format->name;
    as.overflow_count = as.underflow_count = as.subnormal_count = 0;
  }
  return row;
}

void add(const Recording& recording, HeadroomTensor& row) {
  const Magnitudes& found = recording.found;
  ++row.recordings;
  row.from_values += found.from_values;
  row.elements += found.elements;
  row.infinite_count += found.infinite_count;
  if (found.largest && *found.largest > row.max_abs.value_or(-1)) {
    row.max_abs = found.largest;
    row.rank = recording.of->rank->rank;
    row.graph = recording.of->step->id.graph;
    row.step = recording.of->step->id.number;
  }
  if (found.least) row.least_abs = std::min(row.least_abs.value_or(*found.least), *found.least);
  for (std::size_t i = 0; i < row.as_dtypes.size(); ++i) {
    row.as_dtypes[i].overflows |= found.as_types[i].overflows;
    add_to(row.as_dtypes[i].overflow_count, found.as_types[i].overflow_count);
    add_to(row.as_dtypes[i].underflow_count, found.as_types[i].underflow_count);
    add_to(row.as_dtypes[i].subnormal_count, found.as_types[i].subnormal_count);
  }
}

std::optional<double> headroom_in(const NumberFormat& format, const std::optional<double>& largest) {
  return largest && *largest > 0 ? std::optional(std::log2(format.largest) - std::log2(*largest)) : std::nullopt;
}

void measure_headroom(HeadroomTensor& row, const HeadroomOptions& options) {
  if (const NumberFormat* own = number_format(row.dtype)) row.headroom = headroom_in(*own, row.max_abs);
  // The least element of all is known only where that of each recording is.
  if (row.from_values < row.recordings) row.least_abs.reset();
  if (options.scale != HeadroomScale::none) return;
  for (std::size_t i = 0; i < row.as_dtypes.size(); ++i) {
    row.as_dtypes[i].headroom = headroom_in(*options.formats[i], row.max_abs);
  }
}

bool comes_first(const HeadroomTensor& a, const HeadroomTensor& b) {
  const auto key = [](const HeadroomTensor& row) {
    return row.headroom.value_or(std::numeric_limits<double>::infinity());
  };
  return key(a) < key(b);
}

}  // namespace

Result<HeadroomOptions> headroom_options(const HeadroomQuestion& question) {
  HeadroomOptions options;
  constexpr HeadroomScale kScales[] = {HeadroomScale::none, HeadroomScale::tensor, HeadroomScale::block};
  const auto* scale = std::ranges::find_if(kScales, [&](HeadroomScale one) { return word_of(one) == question.scale; });
  if (scale == std::end(kScales)) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("scale: found '{}', expected none, tensor or block", question.scale)};
  }
  options.scale = *scale;
  for (const std::string& name : question.dtypes) {
    const NumberFormat* format = number_format(name);
    if (format == nullptr) {
      std::string known;
      for (const NumberFormat& one : number_formats())
        known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
      return Error{ErrorCode::invalid_argument, fmt::format("dtype: found '{}', expected one of {}", name, known)};
    }
    options.formats.push_back(format);
  }
  if (question.dtypes.empty()) {
    for (const char* name : kUsual) options.formats.push_back(number_format(name));
  }
  if (question.side != "output" && question.side != "input" && question.side != "both") {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("side: found '{}', expected output, input or both", question.side)};
  }
  options.outputs = question.side != "input";
  options.inputs = question.side != "output";
  return options;
}

HeadroomReport headroom(const std::vector<RecordedOp>& ops, const HeadroomOptions& options,
                        const std::function<void(std::size_t, std::size_t)>& advance) {
  std::vector<Recording> recordings = recordings_of(ops, options);
  std::mutex one;
  std::size_t done = 0;
  Threads(options.threads).for_each(recordings.size(), [&](std::size_t i) {
    look(recordings[i], options);
    const std::scoped_lock lock(one);
    if (advance) advance(++done, recordings.size());
  });
  HeadroomReport report;
  report.scale = options.scale;
  using Key = std::tuple<std::string_view, bool, std::uint32_t, std::string_view>;
  std::map<Key, std::size_t> rows;
  for (const Recording& recording : recordings) {
    const CatalogTensor& tensor = *recording.tensor;
    if (!recording.problem.empty())
      report.problems.push_back({recording.of->rank->directory / tensor.file, recording.problem});
    if (!recording.is_known) {
      report.not_known += !recording.problem.empty() || is_floating(tensor.dtype);
      continue;
    }
    const Key key = {recording.of->op->op_name, tensor.is_input, tensor.slot, tensor.parameter};
    const auto [at, fresh] = rows.try_emplace(key, report.tensors.size());
    if (fresh) report.tensors.push_back(row_of(recording, options));
    add(recording, report.tensors[at->second]);
  }
  for (HeadroomTensor& row : report.tensors) measure_headroom(row, options);
  report.complete =
      report.not_known == 0 && report.problems.empty() &&
      std::ranges::all_of(report.tensors, [](const HeadroomTensor& row) { return row.from_values == row.recordings; });
  std::ranges::stable_sort(report.tensors, comes_first);
  return report;
}

}  // namespace sonde
