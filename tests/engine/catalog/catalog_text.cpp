#include "catalog_text.h"

#include <bit>
#include <sstream>

#include "dump/graph/host_graph.h"

namespace sonde {
namespace {

// Structured bindings name every field, so a new field does not compile until it is handled here, and in the index.
class Text {
 public:
  std::string text() const { return out_.str(); }

  void add(const Catalog& catalog) {
    const auto& [path, ranks, problems, texts, owner] = catalog;
    put("catalog", path.native());
    for (const CatalogProblem& problem : problems)
      put("problem", problem.path.native(), problem.message, problem.is_lost);
    for (const CatalogRank& rank : ranks) add(rank);
  }

 private:
  template <typename... Values>
  void put(const char* name, const Values&... values) {
    out_ << name;
    (put_value(values), ...);
    out_ << '\n';
  }
  void put_value(double value) {
    out_ << ' ' << std::bit_cast<std::uint64_t>(value == value ? value : 0.0) << (value == value ? "" : "nan");
  }
  template <typename Value>
  void put_value(const Value& value) {
    if constexpr (requires { value.has_value(); }) {
      value ? put_value(*value) : put_value("-");
    } else if constexpr (std::is_enum_v<Value>) {
      out_ << ' ' << static_cast<int>(value);
    } else if constexpr (std::is_integral_v<Value>) {
      out_ << ' ' << +value;
    } else if constexpr (std::is_convertible_v<Value, std::string_view>) {
      out_ << " '" << std::string_view(value) << "'";
    } else {
      for (const auto& element : value) put_value(element);
    }
  }

  void add(const CatalogRank& from) {
    const auto& [rank, kind, dump, directory, metadata, has_journal, runs, steps, host_graphs, host_flow] = from;
    put("rank", rank, kind, dump, directory.native(), metadata.native(), has_journal, host_flow);
    for (const auto& graph : host_graphs) {
      for (const auto& [file, lines] : graph->lines) {
        for (const auto& [number, line] : lines) put("line", file, number, line);
      }
    }
    for (const CatalogRun& run : runs) add(run);
    for (const CatalogStep& step : steps) add(step);
  }

  void add(const CatalogRun& run) {
    const auto& [finished, sonde_version, world_size, host, command, layout, saved_data, net_name, settings, error, pid,
                 started_us, ended_us, bytes_read, bytes_written, notes, sites, attributes] = run;
    const auto& [only_overflows, overflow_number, only_exceptions, inputs_after, reread] = settings;
    put("run", finished, sonde_version, world_size, host, command, layout, saved_data, net_name, error, pid, started_us,
        ended_us, bytes_read, bytes_written, notes, only_overflows, overflow_number, only_exceptions, inputs_after,
        reread);
  }

  void add(const CatalogStep& step) {
    const auto& [id, run, started_us, ended_us, ended, is_mended, directory, requests, ops, sum, health] = step;
    put("step", id.graph, id.number, run, started_us, ended_us, ended, is_mended, directory);
    for (const auto& [request, row, rows, position] : requests) put("request", request, row, rows, position);
    for (const CatalogOp& op : ops) add(op);
  }

  void add(const CatalogOp& op) {
    const auto& [is_parameter, is_module, phase, op_name, op_type, scope, parent, source_file, line, function, trace,
                 attributes, sequence, timestamp_us, call_number, thread, failed, tensors, sum] = op;
    put("op", is_parameter, is_module, phase, op_name, op_type, scope, parent, source_file, line, function, sequence,
        timestamp_us, call_number, thread, failed, trace != nullptr, attributes != nullptr);
    if (trace != nullptr) {
      for (const auto& [file, of, number, column, end_line, end_column] : *trace) {
        put("trace", file, of, number, column, end_line, end_column);
      }
    }
    if (attributes != nullptr) {
      for (const auto& [name, kind, integers, reals, text] : *attributes) {
        put("attribute", name, kind, integers, reals, text);
      }
    }
    for (const CatalogTensor& tensor : tensors) add(tensor);
  }

  void add(const CatalogTensor& tensor) {
    const auto& [is_input, wanted, slot, dtype, has_shape, shape, content, source, source_slot, constant,
                 timestamp_us] = static_cast<const TensorMeta&>(tensor);
    put("tensor", is_input, wanted, slot, dtype, has_shape, shape, content, source, source_slot, constant,
        timestamp_us);
    put("texts", tensor.parameter, tensor.key, tensor.skipped, tensor.file, tensor.md5, tensor.sha1,
        tensor.source_is_likely);
    const auto& statistics = tensor.statistics;
    if (!statistics) return;
    const auto& [max, min, avg, l2norm, count, nan, positive_inf, negative_inf, positive, negative, zero] = *statistics;
    put("statistics", max, min, avg, l2norm, count, nan, positive_inf, negative_inf, positive, negative, zero);
  }

  std::ostringstream out_;
};

}  // namespace

std::string text_of(const Catalog& catalog) {
  Text text;
  text.add(catalog);
  return text.text();
}

}  // namespace sonde
