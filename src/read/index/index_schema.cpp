#include "read/index/index_schema.h"

namespace sonde {

const char* const kIndexTables = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE sources(path TEXT NOT NULL, kind INTEGER, inode INTEGER, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER);
CREATE TABLE problems(path TEXT NOT NULL, message TEXT NOT NULL, is_lost INTEGER);
CREATE TABLE texts(id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE op_names(id INTEGER PRIMARY KEY, op_name TEXT NOT NULL, op_type TEXT NOT NULL);
CREATE TABLE traces(id INTEGER PRIMARY KEY, lines TEXT NOT NULL);
CREATE TABLE attributes(id INTEGER, position INTEGER, name TEXT NOT NULL, kind INTEGER, integers TEXT, reals TEXT,
  text TEXT, PRIMARY KEY(id, position)) WITHOUT ROWID;
CREATE TABLE source_lines(rank_id INTEGER, file TEXT NOT NULL, line INTEGER, text TEXT NOT NULL);
CREATE TABLE ranks(id INTEGER PRIMARY KEY, rank INTEGER, directory TEXT NOT NULL, metadata TEXT NOT NULL,
  has_journal INTEGER, has_host_data_flow INTEGER, kind TEXT, dump TEXT);
CREATE TABLE runs(rank_id INTEGER, run INTEGER, finished INTEGER, host TEXT, command TEXT, layout TEXT, saved_data TEXT,
  net_name TEXT, error TEXT, pid INTEGER, started_us INTEGER, ended_us INTEGER, bytes_read INTEGER,
  bytes_written INTEGER, only_overflows INTEGER, only_exceptions INTEGER, inputs_after INTEGER, reread INTEGER);
CREATE TABLE notes(rank_id INTEGER, run INTEGER, note TEXT NOT NULL);
CREATE TABLE steps(id INTEGER PRIMARY KEY, rank_id INTEGER, run INTEGER, graph INTEGER, step INTEGER,
  started_us INTEGER, ended_us INTEGER, ended INTEGER, directory TEXT, first_op INTEGER, end_op INTEGER,
  ops INTEGER, parameters INTEGER, tensors INTEGER, files INTEGER, bytes INTEGER, new_bytes INTEGER, is_mended INTEGER,
  known INTEGER, not_recorded INTEGER, is_fine INTEGER);
CREATE TABLE ops(id INTEGER PRIMARY KEY, step_id INTEGER, name_id INTEGER, phase TEXT, flags INTEGER, sequence INTEGER,
  timestamp_us INTEGER, thread INTEGER, scope INTEGER, parent INTEGER, source_file INTEGER, source_line INTEGER, function INTEGER, trace INTEGER,
  attributes INTEGER, recorded INTEGER);
CREATE TABLE tensors(op_id INTEGER, position INTEGER, is_input INTEGER, slot INTEGER, dtype TEXT, shape TEXT,
  max REAL, min REAL, avg REAL, l2norm REAL, count INTEGER, nan_count INTEGER, positive_inf_count INTEGER,
  negative_inf_count INTEGER, positive_count INTEGER, negative_count INTEGER, zero_count INTEGER,
  md5 TEXT, sha1 TEXT, parameter INTEGER, key INTEGER, skipped INTEGER, directory INTEGER, stem INTEGER, file_end TEXT,
  content INTEGER, source INTEGER, source_slot INTEGER, constant REAL, timestamp_us INTEGER, flags INTEGER,
  PRIMARY KEY(op_id, position)) WITHOUT ROWID;
)sql";

const char* const kIndexLookups = R"sql(
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
    tensors.dtype, tensors.shape, tensors.max, tensors.min, tensors.avg, tensors.l2norm, tensors.count,
    tensors.nan_count, tensors.positive_inf_count, tensors.negative_inf_count, tensors.positive_count,
    tensors.negative_count, tensors.zero_count, tensors.md5, tensors.sha1, reasons.text AS skipped,
    ranks.directory || '/' || directories.text || stems.text || tensors.file_end AS tensor_file,
    files.text AS source_file, ops.source_line, tensors.timestamp_us, ops.id AS op_id
  FROM tensors JOIN ops ON ops.id = tensors.op_id JOIN steps ON steps.id = ops.step_id
    JOIN ranks ON ranks.id = steps.rank_id JOIN op_names ON op_names.id = ops.name_id
    LEFT JOIN texts AS names ON names.id = tensors.parameter
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

const std::array<PartialLookup, 3> kPartialLookups = {
    PartialLookup{
        "CREATE INDEX tensors_by_nan ON tensors(nan_count) WHERE nan_count > 0",
        [](const CatalogTensor& tensor) { return tensor.statistics && tensor.statistics->nan_count.value_or(0) > 0; }},
    PartialLookup{"CREATE INDEX tensors_by_parameter ON tensors(parameter) WHERE parameter IS NOT NULL",
                  [](const CatalogTensor& tensor) { return !tensor.parameter.empty(); }},
    PartialLookup{"CREATE INDEX tensors_by_source ON tensors(source) WHERE source IS NOT NULL",
                  [](const CatalogTensor& tensor) { return tensor.source != kNoSequence; }}};

}  // namespace sonde
