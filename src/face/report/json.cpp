#include "face/report/json.h"

#include "face/report/catalog_text.h"
#include "read/catalog/slot_text.h"

namespace sonde {

ListedTensor listed(const CatalogRank& rank, const CatalogStep& step, const CatalogOp& op,
                    const CatalogTensor& tensor) {
  ListedTensor listed{.rank = rank.rank,
                      .graph = step.id.graph,
                      .step = step.id.number,
                      .op_name = std::string(op.op_name),
                      .op_type = std::string(op.op_type),
                      .scope = std::string(scope_of(op)),
                      .phase = op.phase,
                      .is_parameter = op.is_parameter,
                      .side = side_of(tensor),
                      .slot = tensor.slot,
                      .parameter = std::string(tensor.parameter),
                      .dtype = dtype_text(tensor),
                      .run = std::nullopt,
                      .dump = rank.dump,
                      .key = std::string(tensor.key),
                      .placement = std::string(tensor.placement),
                      .is_module = op.is_module,
                      .shape = std::nullopt,
                      .statistics = tensor.statistics,
                      .md5 = std::string(tensor.md5),
                      .sha1 = std::string(tensor.sha1),
                      .skipped = std::string(tensor.skipped),
                      .tensor_file = {},
                      .source_file = std::string(op.source_file),
                      .source_line = op.line,
                      .function = std::string(op.function),
                      .timestamp_us = tensor.timestamp_us != 0 ? tensor.timestamp_us : op.timestamp_us};
  if (step.run != 0) listed.run = step.run;
  if (tensor.has_shape) listed.shape.emplace(tensor.shape.begin(), tensor.shape.end());
  if (!tensor.file.empty()) listed.tensor_file = (rank.directory / tensor.file).string();
  return listed;
}

Json json_of(const CatalogRank& rank, const CatalogStep& step, const CatalogOp& op, const CatalogTensor& tensor) {
  return json_of(listed(rank, step, op, tensor));
}

std::optional<std::vector<ListedRequest>> listed_requests(const CatalogStep& step) {
  if (step.requests.empty()) return std::nullopt;
  std::vector<ListedRequest> all;
  for (const StepRequest& one : step.requests) {
    all.push_back({.request = one.request, .row = one.row, .rows = one.rows, .position = one.position});
  }
  return all;
}

ListedRun listed(const CatalogRun& run) {
  return {.finished = run.finished,
          .host = run.host,
          .command = run.command,
          .layout = run.layout,
          .saved_data = run.saved_data,
          .net_name = run.net_name,
          .error = std::string(failure_of(run)),
          .pid = run.pid,
          .started_us = run.started_us,
          .ended_us = run.ended_us,
          .bytes_read = run.bytes_read,
          .bytes_written = run.bytes_written,
          .notes = run.notes};
}

std::string_view scope_of(const CatalogOp& op) {
  if (!op.scope.empty() || op.is_parameter) return op.scope;
  const std::size_t slash = op.op_name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : op.op_name.substr(0, slash);
}

}  // namespace sonde
