#include "read/index/index_schema.h"

#include <tuple>
#include <type_traits>

#include "contract/tables.h"

namespace sonde {

namespace {

constexpr const char* kMeta = "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;\n";
constexpr std::string_view kStatisticsHere = "{statistics}";

constexpr const char* kLookups = R"sql(
CREATE INDEX texts_by_text ON texts(text);
CREATE INDEX op_names_by_name ON op_names(op_name);
CREATE INDEX ops_by_name ON ops(name_id, step_id);
CREATE INDEX ops_by_sequence ON ops(sequence);
CREATE INDEX tensors_by_norm ON tensors(l2norm);

CREATE VIEW all_ops AS
  SELECT ranks.rank, steps.run, steps.graph, steps.step, op_names.op_name, op_names.op_type, ops.phase,
    ops.flags & 1 AS is_parameter, files.text AS source_file, ops.source_line, functions.text AS function, ops.sequence,
    ops.timestamp_us, ops.id AS op_id
  FROM ops JOIN steps ON steps.id = ops.step_id JOIN ranks ON ranks.id = steps.rank_id
    JOIN op_names ON op_names.id = ops.name_id
    LEFT JOIN texts AS files ON files.id = ops.source_file LEFT JOIN texts AS functions ON functions.id = ops.function;

CREATE VIEW all_tensors AS
  SELECT ranks.rank, steps.run, steps.graph, steps.step, op_names.op_name, op_names.op_type, +ops.phase AS phase,
    CASE WHEN tensors.is_input THEN 'input' ELSE 'output' END AS side, tensors.slot, names.text AS parameter,
    placements.text AS placement,
    tensors.dtype, tensors.shape, {statistics}, tensors.md5, tensors.sha1, reasons.text AS skipped,
    ranks.directory || '/' || directories.text || stems.text || tensors.file_end AS tensor_file,
    files.text AS source_file, ops.source_line, tensors.timestamp_us, ops.id AS op_id
  FROM tensors JOIN ops ON ops.id = tensors.op_id JOIN steps ON steps.id = ops.step_id
    JOIN ranks ON ranks.id = steps.rank_id JOIN op_names ON op_names.id = ops.name_id
    LEFT JOIN texts AS names ON names.id = tensors.parameter
    LEFT JOIN texts AS placements ON placements.id = tensors.placement
    LEFT JOIN texts AS reasons ON reasons.id = tensors.skipped
    LEFT JOIN texts AS directories ON directories.id = tensors.directory
    LEFT JOIN texts AS stems ON stems.id = tensors.stem
    LEFT JOIN texts AS files ON files.id = ops.source_file;

CREATE VIEW gradients AS
  SELECT ranks.rank, steps.run, steps.graph, steps.step, op_names.op_name, op_names.op_type,
    tensors.slot, tensors.dtype, tensors.shape, tensors.max, tensors.min, tensors.avg, tensors.l2norm,
    tensors.nan_count,
    ranks.directory || '/' || directories.text || stems.text || tensors.file_end AS tensor_file, files.text AS source_file,
    ops.source_line, ops.id AS op_id
  FROM tensors CROSS JOIN ops ON ops.id = tensors.op_id CROSS JOIN steps ON steps.id = ops.step_id
    CROSS JOIN ranks ON ranks.id = steps.rank_id CROSS JOIN op_names ON op_names.id = ops.name_id
    LEFT JOIN texts AS directories ON directories.id = tensors.directory
    LEFT JOIN texts AS stems ON stems.id = tensors.stem
    LEFT JOIN texts AS files ON files.id = ops.source_file
  WHERE NOT tensors.is_input AND (ops.phase = 'backward' OR op_names.op_name LIKE '%.grad');
)sql";

}  // namespace

std::string index_tables() {
  std::string text = kMeta;
  std::apply([&](const auto&... row) { (text.append(create_text<std::remove_cvref_t<decltype(row)>>()), ...); },
             AllTables());
  return text;
}

std::string index_lookups() {
  std::string columns;
  for_each_statistic_member(
      [&](std::string_view name, auto) { columns.append(columns.empty() ? "tensors." : ", tensors.").append(name); });
  std::string text = kLookups;
  return text.replace(text.find(kStatisticsHere), kStatisticsHere.size(), columns);
}

const std::array<PartialLookup, 3> kPartialLookups = {
    PartialLookup{
        "CREATE INDEX tensors_by_nan ON tensors(nan_count) WHERE nan_count > 0",
        [](const CatalogTensor& tensor) { return tensor.statistics && tensor.statistics->nan_count.value_or(0) > 0; }},
    PartialLookup{"CREATE INDEX tensors_by_parameter ON tensors(parameter) WHERE parameter IS NOT NULL",
                  [](const CatalogTensor& tensor) { return !tensor.parameter.empty(); }},
    PartialLookup{"CREATE INDEX tensors_by_source ON tensors(source) WHERE source IS NOT NULL",
                  [](const CatalogTensor& tensor) { return tensor.source != kNoSequence; }}};

}  // namespace sonde
