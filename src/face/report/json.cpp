#include "face/report/json.h"

#include "face/report/catalog_text.h"

namespace sonde {

Json json_of(const CatalogRank& rank, const CatalogStep& step, const CatalogOp& op, const CatalogTensor& tensor) {
  Json json = {{"rank", rank.rank},          {"graph", step.id.graph},          {"step", step.id.number},
               {"op_name", op.op_name},      {"op_type", op.op_type},           {"scope", scope_of(op)},
               {"phase", word_of(op.phase)}, {"is_parameter", op.is_parameter}, {"side", side_of(tensor)},
               {"slot", tensor.slot},        {"parameter", tensor.parameter},   {"dtype", dtype_text(tensor)}};
  if (!rank.dump.empty()) json["dump"] = rank.dump;
  if (!tensor.key.empty()) json["key"] = tensor.key;
  if (op.is_module) json["is_module"] = true;
  json["shape"] = tensor.has_shape ? Json(tensor.shape) : Json();
  if (tensor.statistics) json.update(json_of(*tensor.statistics));
  if (!tensor.md5.empty()) json["md5"] = tensor.md5;
  if (!tensor.sha1.empty()) json["sha1"] = tensor.sha1;
  if (!tensor.skipped.empty()) json["skipped"] = tensor.skipped;
  if (!tensor.file.empty()) json["tensor_file"] = (rank.directory / tensor.file).string();
  json.update(json_of_source(op));
  json["timestamp_us"] = tensor.timestamp_us != 0 ? tensor.timestamp_us : op.timestamp_us;
  return json;
}

Json json_of_source(const CatalogOp& op) {
  return {{"source_file", op.source_file}, {"source_line", op.line}, {"function", op.function}};
}

std::string_view scope_of(const CatalogOp& op) {
  if (!op.scope.empty() || op.is_parameter) return op.scope;
  const std::size_t slash = op.op_name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : op.op_name.substr(0, slash);
}

std::string_view side_of(const CatalogTensor& tensor) { return tensor.is_input ? "input" : "output"; }

}  // namespace sonde
