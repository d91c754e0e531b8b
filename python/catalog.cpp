// sonde._core.Dump: the content of a dump as columns: one array for all tensors, not one object for each. Only
// converts.
#include "catalog.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "contract/names.h"
#include "raise.h"
#include "sonde/dump.h"
#include "text_caster.h"

namespace nb = nanobind;

namespace {

using sonde::DType;
using sonde::Dump;

// Names in a dump are bytes from anybody, not always UTF-8.
nb::object text(std::string_view bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace"));
}
nb::object path_text(const std::filesystem::path& path) {
  return nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.c_str(), static_cast<Py_ssize_t>(path.native().size())));
}

// --- columns ---------------------------------------------------------------------------------------------------------

template <typename T>
nb::object array(std::vector<T> values) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* data) noexcept { delete static_cast<std::vector<T>*>(data); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner));
}

// A column with many equal texts: numbers, and the texts that they stand for.
class Words {
 public:
  explicit Words(std::size_t rows) { codes_.reserve(rows); }
  void add(std::string_view word) {
    const auto [at, is_new] = known_.try_emplace(word, static_cast<std::int32_t>(known_.size()));
    if (is_new) words_.append(text(word));
    codes_.push_back(at->second);
  }
  nb::tuple finish() { return nb::make_tuple(array(std::move(codes_)), words_); }

 private:
  std::vector<std::int32_t> codes_;
  std::unordered_map<std::string_view, std::int32_t> known_;  // views of the dump's own texts
  nb::list words_;
};

template <typename T>
class Column {
 public:
  explicit Column(std::size_t rows) { values_.reserve(rows); }
  void add(T value) { values_.push_back(value); }
  nb::object finish() { return array(std::move(values_)); }

 private:
  std::vector<T> values_;
};

std::string_view dtype_name(DType dtype) { return dtype == DType::undefined ? "" : sonde::info(dtype).lower; }

nb::dict step_columns(const Dump& dump) {
  const std::size_t rows = dump.step_count();
  Column<std::uint32_t> rank(rows), graph(rows);
  Column<std::uint64_t> number(rows), first_op(rows), ops(rows);
  Column<std::uint8_t> ended(rows);
  Words directory(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const sonde::DumpStep step = dump.step(i);
    rank.add(step.rank);
    graph.add(step.graph);
    number.add(step.step);
    first_op.add(step.first_op);
    ops.add(step.ops);
    ended.add(step.ended ? 1 : 0);
    directory.add(step.directory);
  }
  nb::dict columns;
  columns["rank"] = rank.finish();
  columns["graph"] = graph.finish();
  columns["step"] = number.finish();
  columns["first_op"] = first_op.finish();
  columns["ops"] = ops.finish();
  columns["ended"] = ended.finish();
  columns["directory"] = directory.finish();
  return columns;
}

nb::dict op_columns(const Dump& dump) {
  const std::size_t rows = dump.op_count();
  Column<std::uint32_t> step(rows), tensors(rows), line(rows);
  Column<std::uint64_t> first_tensor(rows), timestamp(rows), call_number(rows);
  Column<std::uint8_t> is_parameter(rows), failed(rows);
  Words name(rows), type(rows), phase(rows), file(rows), function(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const sonde::DumpOp op = dump.op(i);
    step.add(static_cast<std::uint32_t>(op.step));
    tensors.add(static_cast<std::uint32_t>(op.tensors));
    line.add(op.source.line);
    first_tensor.add(op.first_tensor);
    timestamp.add(op.timestamp_us);
    call_number.add(op.call_number);
    is_parameter.add(op.is_parameter ? 1 : 0);
    failed.add(op.failed ? 1 : 0);
    name.add(op.op_name);
    type.add(op.op_type);
    phase.add(op.phase);
    file.add(op.source.file);
    function.add(op.source.function);
  }
  nb::dict columns;
  columns["step"] = step.finish();
  columns["first_tensor"] = first_tensor.finish();
  columns["tensors"] = tensors.finish();
  columns["name"] = name.finish();
  columns["type"] = type.finish();
  columns["phase"] = phase.finish();
  columns["file"] = file.finish();
  columns["line"] = line.finish();
  columns["function"] = function.finish();
  columns[sonde::names::is_parameter] = is_parameter.finish();
  columns["failed"] = failed.finish();
  columns[sonde::names::timestamp_us] = timestamp.finish();
  columns[sonde::names::call_number] = call_number.finish();
  return columns;
}

// The facts of tensors, some at a time and without the GIL: a thread that holds the dump may wait for Python's, to bring a
// file.
class TensorRows {
 public:
  explicit TensorRows(const Dump& dump) : dump_(dump) {}
  const sonde::DumpTensor& row(std::size_t index) const {
    constexpr std::size_t kAtOnce = 4096;
    if (index < first_ || index - first_ >= rows_.size()) {
      const nb::gil_scoped_release release;
      first_ = index;
      rows_.clear();
      const std::size_t end = std::min(dump_.tensor_count(), index + kAtOnce);
      for (std::size_t i = index; i < end; ++i) rows_.push_back(dump_.tensor(i));
    }
    return rows_[index - first_];
  }

 private:
  const Dump& dump_;
  mutable std::size_t first_ = 0;
  mutable std::vector<sonde::DumpTensor> rows_;
};

// Sizes of all tensors one after the other, and where each begins: what Arrow calls a list.
nb::dict tensor_columns(const Dump& dump) {
  const std::size_t rows = dump.tensor_count();
  Column<std::uint32_t> op(rows), slot(rows);
  Column<std::uint8_t> is_input(rows), has_shape(rows), has_statistics(rows);
  Column<std::uint64_t> timestamp(rows);
  Column<std::int64_t> sizes(4 * rows);
  Column<std::int32_t> shape_begins(rows + 1);
  Words dtype(rows), name(rows), key(rows), placement(rows), file(rows), skipped(rows), md5(rows), sha1(rows);
  std::int32_t begins = 0;
  const TensorRows tensors(dump);
  for (std::size_t i = 0; i < rows; ++i) {
    const sonde::DumpTensor& tensor = tensors.row(i);
    op.add(static_cast<std::uint32_t>(tensor.op));
    slot.add(tensor.slot);
    is_input.add(tensor.is_input ? 1 : 0);
    has_shape.add(tensor.has_shape ? 1 : 0);
    has_statistics.add(tensor.has_statistics ? 1 : 0);
    timestamp.add(tensor.timestamp_us);
    shape_begins.add(begins);
    for (const std::int64_t size : tensor.shape) sizes.add(size);
    begins += static_cast<std::int32_t>(tensor.shape.size());
    dtype.add(dtype_name(tensor.dtype));
    name.add(tensor.parameter);
    key.add(tensor.key);
    placement.add(tensor.placement);
    file.add(tensor.tensor_file);
    skipped.add(tensor.skipped);
    md5.add(tensor.md5);
    sha1.add(tensor.sha1);
  }
  shape_begins.add(begins);
  nb::dict columns;
  columns["op"] = op.finish();
  columns["is_input"] = is_input.finish();
  columns["slot"] = slot.finish();
  columns["dtype"] = dtype.finish();
  columns["has_shape"] = has_shape.finish();
  columns["shape_begins"] = shape_begins.finish();
  columns["sizes"] = sizes.finish();
  columns["name"] = name.finish();
  columns["key"] = key.finish();
  columns["placement"] = placement.finish();
  columns["file"] = file.finish();
  columns["skipped"] = skipped.finish();
  columns["md5"] = md5.finish();
  columns["sha1"] = sha1.finish();
  columns[sonde::names::has_statistics] = has_statistics.finish();
  columns[sonde::names::timestamp_us] = timestamp.finish();
  return columns;
}

// --- statistics ------------------------------------------------------------------------------------------------------

using Known = sonde::KnownStatistics;
nb::dict statistics_dict(const Known& known) {
  nb::dict out;
  sonde::for_each_statistic(known, [&](std::string_view name, const auto& value) {
    out[nb::str(name.data(), name.size())] = value ? nb::cast(*value) : nb::none();
  });
  return out;
}

// {name: (values, which of them are known)} of these tensors.
nb::dict statistics_columns(const Dump& dump, const std::vector<std::size_t>& tensors) {
  std::vector<Known> rows;
  rows.reserve(tensors.size());
  {
    const nb::gil_scoped_release release;
    for (const std::size_t tensor : tensors) rows.push_back(dump.known_statistics(tensor).value_or(Known{}));
  }
  nb::dict columns;
  const auto put = [&]<typename Value>(std::string_view name, std::optional<Value> Known::*member) {
    Column<Value> values(rows.size());
    Column<std::uint8_t> known(rows.size());
    constexpr bool is_real = std::is_floating_point_v<Value>;
    for (const Known& row : rows) {
      values.add((row.*member).value_or(is_real ? std::numeric_limits<Value>::quiet_NaN() : Value()));
      known.add((row.*member).has_value() ? 1 : 0);
    }
    columns[nb::str(name.data(), name.size())] = nb::make_tuple(values.finish(), known.finish());
  };
  sonde::for_each_statistic_member(put);
  return columns;
}

nb::list problem_list(std::span<const sonde::DumpProblem> problems) {
  nb::list list;
  for (const sonde::DumpProblem& problem : problems)
    list.append(nb::make_tuple(path_text(problem.path), text(problem.message)));
  return list;
}

nb::list measure(const Dump& dump, const std::vector<std::size_t>& tensors) {
  std::vector<sonde::DumpProblem> problems;
  {
    const nb::gil_scoped_release release;
    problems = dump.measure(tensors);
  }
  return problem_list(problems);
}

// --- values ----------------------------------------------------------------------------------------------------------

// NumPy's name of the type; for a type that NumPy lacks, the type of its bits.
nb::dlpack::dtype numpy_type(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * sonde::info(dtype).item_bytes);
  const auto of = [](nb::dlpack::dtype_code code, std::uint8_t width) {
    return nb::dlpack::dtype{static_cast<std::uint8_t>(code), width, 1};
  };
  switch (dtype) {
    case DType::bool8:
      return of(nb::dlpack::dtype_code::Bool, 8);
    case DType::int8:
    case DType::int16:
    case DType::int32:
    case DType::int64:
    case DType::qint8:
    case DType::qint32:
      return of(nb::dlpack::dtype_code::Int, bits);
    case DType::float16:
    case DType::float32:
    case DType::float64:
      return of(nb::dlpack::dtype_code::Float, bits);
    case DType::complex64:
    case DType::complex128:
      return of(nb::dlpack::dtype_code::Complex, bits);
    default:
      return of(nb::dlpack::dtype_code::UInt, bits);
  }
}

// (elements as in the file, the name of their type)
nb::tuple values(const Dump& dump, std::size_t tensor) {
  sonde::Result<sonde::DumpValues> opened = [&] {
    const nb::gil_scoped_release release;
    return dump.values(tensor);
  }();
  if (!opened) raise(opened.error());
  auto* owned = new sonde::DumpValues(*std::move(opened));
  nb::capsule owner(owned, [](void* data) noexcept { delete static_cast<sonde::DumpValues*>(data); });
  const sonde::TensorView view = owned->view();
  std::vector<std::size_t> shape(view.shape.begin(), view.shape.end());
  std::vector<std::int64_t> strides(view.strides.begin(), view.strides.end());
  nb::ndarray<nb::numpy, nb::ro> elements(view.data, shape.size(), shape.data(), owner, strides.data(),
                                          numpy_type(view.dtype));
  return nb::make_tuple(nb::cast(elements), text(dtype_name(view.dtype)));
}

nb::object values_as_float32(const Dump& dump, std::size_t tensor) {
  const sonde::Result<sonde::DumpValues> opened = [&] {
    const nb::gil_scoped_release release;
    return dump.values(tensor);
  }();
  if (!opened) raise(opened.error());
  const sonde::TensorView view = opened->view();
  std::vector<float> elements(static_cast<std::size_t>(view.elements()));
  {
    const nb::gil_scoped_release release;
    opened->copy_as_float32(elements.data());
  }
  return array(std::move(elements));
}

// --- watchpoints -----------------------------------------------------------------------------------------------------

using Parameters = std::vector<std::pair<std::string, double>>;

void check_condition(const std::string& condition, const Parameters& parameters) {
  const sonde::Status good = Dump::check_condition(condition, parameters);
  if (!good) raise(good.error());
}

nb::list watch_errors(std::uint32_t error_code) {
  nb::list sentences;
  for (const std::string_view sentence : Dump::watch_errors(error_code)) sentences.append(text(sentence));
  return sentences;
}

// (hits, gaps): (watchpoint, tensor, is a hit, error code, [(parameter, value, actual, hit)]), (watchpoint, tensor,
// reason)
nb::tuple watch(const Dump& dump,
                const std::vector<std::tuple<std::string, Parameters, std::vector<std::size_t>>>& asked,
                std::uint64_t most_bytes, bool error_on_no_value) {
  std::vector<sonde::DumpWatchpoint> watchpoints;
  for (const auto& [condition, parameters, tensors] : asked) watchpoints.push_back({condition, parameters, tensors});
  const sonde::DumpWatchOptions options{most_bytes, error_on_no_value};
  const sonde::Result<sonde::DumpWatchReport> report = [&] {
    const nb::gil_scoped_release release;
    return dump.watch(watchpoints, options);
  }();
  if (!report) raise(report.error());
  nb::list hits, gaps;
  for (const sonde::DumpHit& hit : report->hits) {
    nb::list parameters;
    for (const sonde::DumpWatchParameter& parameter : hit.parameters)
      parameters.append(nb::make_tuple(text(parameter.name), parameter.value, parameter.actual, parameter.hit));
    hits.append(nb::make_tuple(hit.watchpoint, hit.tensor, hit.hit, hit.error_code, parameters));
  }
  for (const sonde::DumpWatchGap& gap : report->gaps)
    gaps.append(nb::make_tuple(gap.watchpoint, gap.tensor, text(gap.reason)));
  return nb::make_tuple(hits, gaps);
}

// (paths written, errors)
nb::tuple convert_to_host(const std::string& file) {
  sonde::DumpConverted converted;
  {
    const nb::gil_scoped_release release;
    converted = Dump::convert_to_host(file);
  }
  nb::list written, failed;
  for (const std::filesystem::path& path : converted.written) written.append(path_text(path));
  for (const std::string& message : converted.failed) failed.append(text(message));
  return nb::make_tuple(written, failed);
}

// --- the dump --------------------------------------------------------------------------------------------------------

Dump open_dump(const std::string& path, std::vector<std::uint32_t> ranks, std::vector<std::uint64_t> steps,
               std::vector<std::uint32_t> graphs, const std::string& op, const std::string& type,
               const std::string& source) {
  sonde::DumpSelection only;
  only.ranks = std::move(ranks);
  only.steps = std::move(steps);
  only.graphs = std::move(graphs);
  only.op = op;
  only.type = type;
  only.source = source;
  sonde::Result<Dump> dump = [&] {
    const nb::gil_scoped_release release;
    return Dump::open(path, only);
  }();
  if (!dump) raise(dump.error());
  return *std::move(dump);
}

std::vector<std::uint64_t> listed(std::string_view what, std::string_view list,
                                  const std::vector<std::uint64_t>& numbers) {
  sonde::Result<std::vector<std::uint64_t>> chosen = Dump::listed(what, list, numbers);
  if (!chosen) raise(chosen.error());
  return *std::move(chosen);
}

nb::object select_indices(const Dump& dump, bool ops, std::vector<std::uint32_t> ranks,
                          std::vector<std::uint64_t> steps, std::vector<std::uint32_t> graphs,
                          std::vector<std::uint32_t> slots, const std::string& op, const std::string& type,
                          const std::string& source, std::optional<bool> inputs) {
  sonde::DumpSelection selection;
  selection.ranks = std::move(ranks);
  selection.steps = std::move(steps);
  selection.graphs = std::move(graphs);
  selection.slots = std::move(slots);
  selection.op = op;
  selection.type = type;
  selection.source = source;
  selection.inputs = inputs;
  sonde::Result<std::vector<std::size_t>> found = [&] {
    const nb::gil_scoped_release release;
    return ops ? dump.select_ops(selection) : dump.select_tensors(selection);
  }();
  if (!found) raise(found.error());
  return array(*std::move(found));
}

nb::tuple look(const Dump& dump, std::size_t tensor) {
  const sonde::Result<sonde::DumpTensor> seen = [&] {
    const nb::gil_scoped_release release;
    return dump.look(tensor);
  }();
  if (!seen) raise(seen.error());
  nb::list shape;
  for (const std::int64_t size : seen->shape) shape.append(size);
  return nb::make_tuple(text(dtype_name(seen->dtype)), seen->has_shape ? nb::object(nb::tuple(shape)) : nb::none());
}

nb::dict statistics(const Dump& dump, std::size_t tensor) {
  const sonde::Result<Known> known = [&] {
    const nb::gil_scoped_release release;
    return dump.statistics(tensor);
  }();
  if (!known) raise(known.error());
  return statistics_dict(*known);
}

nb::list trace(const Dump& dump, std::size_t op) {
  nb::list lines;
  for (const sonde::DumpSource& line : dump.trace(op))
    lines.append(nb::make_tuple(text(line.file), line.line, text(line.function)));
  return lines;
}

nb::dict attributes(const Dump& dump, std::size_t op) {
  nb::dict values;
  for (const auto& [name, value] : dump.attributes(op)) values[text(name)] = text(value);
  return values;
}

nb::dict edge_columns(const Dump& dump, std::size_t step) {
  const std::vector<sonde::DumpEdge> edges = [&] {
    const nb::gil_scoped_release release;
    return dump.edges(step);
  }();
  Column<std::int64_t> from(edges.size()), to(edges.size());
  Column<std::uint32_t> from_slot(edges.size()), to_slot(edges.size());
  Words parameter(edges.size());
  for (const sonde::DumpEdge& edge : edges) {
    from.add(edge.from_parameter ? -1 : static_cast<std::int64_t>(edge.from));
    to.add(static_cast<std::int64_t>(edge.to));
    from_slot.add(edge.from_slot);
    to_slot.add(edge.to_slot);
    parameter.add(edge.parameter);
  }
  nb::dict columns;
  columns["from"] = from.finish();
  columns["from_slot"] = from_slot.finish();
  columns["to"] = to.finish();
  columns["to_slot"] = to_slot.finish();
  columns["parameter"] = parameter.finish();
  return columns;
}

constexpr const char* kNeeds[] = {"file", "part", "directory", "tree"};

// `ask(need, path, offset, bytes)` returns the reason why it failed, or "". It is called from any thread, and never
// freed: the engine may read until the process ends.
void add_file_source(const std::string& root, nb::object ask) {
  auto* const kept = new nb::object(std::move(ask));
  Dump::add_file_source(root, [kept](const sonde::FileRequest& request) -> sonde::Status {
    const nb::gil_scoped_acquire acquire;
    std::string why;
    try {
      why = nb::cast<std::string>((*kept)(kNeeds[static_cast<std::size_t>(request.need)], path_text(request.path),
                                          request.offset, request.bytes));
    } catch (const std::exception& error) {
      why = error.what();
    }
    if (why.empty()) return {};
    return sonde::Error{sonde::ErrorCode::io, why};
  });
}

}  // namespace

void add_catalog(nb::module_& module) {
  nb::class_<Dump>(module, "Dump")
      .def("ranks", &Dump::ranks)
      .def(
          "directory", [](const Dump& dump, std::uint32_t rank) { return path_text(dump.directory(rank)); },
          nb::arg("rank"))
      .def("problems", [](const Dump& dump) { return problem_list(dump.problems()); })
      .def("notes", &Dump::notes)
      .def("op_count", &Dump::op_count)
      .def("tensor_count", &Dump::tensor_count)
      .def("step_columns", &step_columns)
      .def("op_columns", &op_columns)
      .def("tensor_columns", &tensor_columns)
      .def("statistics_columns", &statistics_columns, nb::arg("tensors"))
      .def("edge_columns", &edge_columns, nb::arg("step"))
      .def("select", &select_indices, nb::arg("ops"), nb::arg("ranks"), nb::arg("steps"), nb::arg("graphs"),
           nb::arg("slots"), nb::arg("op"), nb::arg("type"), nb::arg("source"), nb::arg("inputs").none())
      .def("look", &look, nb::arg("tensor"))
      .def("statistics", &statistics, nb::arg("tensor"))
      .def("measure", &measure, nb::arg("tensors"))
      .def("values", &values, nb::arg("tensor"))
      .def("values_as_float32", &values_as_float32, nb::arg("tensor"))
      .def("watch", &watch, nb::arg("watchpoints"), nb::arg("most_bytes"), nb::arg("error_on_no_value"))
      .def("trace", &trace, nb::arg("op"))
      .def("attributes", &attributes, nb::arg("op"))
      .def(
          "code",
          [](const Dump& dump, std::size_t op, const std::string& file, std::uint32_t line) {
            const std::string found = [&] {
              const nb::gil_scoped_release release;
              return dump.code(op, file, line);
            }();
            return text(found);
          },
          nb::arg("op"), nb::arg("file"), nb::arg("line"));
  module.def("add_file_source", &add_file_source, nb::arg("root"), nb::arg("ask"));
  module.def("convert_to_host", &convert_to_host, nb::arg("file"));
  module.def("check_condition", &check_condition, nb::arg("condition"), nb::arg("parameters"));
  module.def("watch_errors", &watch_errors, nb::arg(sonde::names::error_code));
  module.def("listed", &listed, nb::arg("what"), nb::arg("list"), nb::arg("numbers"));
  module.def("pattern_selects", &Dump::pattern_selects, nb::arg("pattern"), nb::arg(sonde::names::op_name),
             nb::arg(sonde::names::op_type));
  module.def("open_dump", &open_dump, nb::arg("path"), nb::arg("ranks"), nb::arg("steps"), nb::arg("graphs"),
             nb::arg("op"), nb::arg("type"), nb::arg("source"));
}
