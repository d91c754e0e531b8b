#include <fmt/format.h>

#include "face/report/catalog_text.h"
#include "face/server/ask.h"
#include "face/server/limits.h"
#include "face/server/rows.h"
#include "ground/base/text.h"
#include "read/index/index_schema.h"
#include "read/index/row_fields.h"

namespace sonde::server {
namespace {

// Columns that tables of ops and of tensors share.
struct OpColumns {
  explicit OpColumns(AnswerTable& table)
      : rank(table.add("rank", ColumnType::text)),
        run(table.add("run", ColumnType::uint32)),
        graph(table.add("graph", ColumnType::uint32)),
        step(table.add("step", ColumnType::uint64)),
        op_name(table.add("op_name", ColumnType::text)),
        op_type(table.add("op_type", ColumnType::text)),
        scope(table.add("scope", ColumnType::text)),
        phase(table.add("phase", ColumnType::text)),
        is_parameter(table.add("is_parameter", ColumnType::boolean)) {}

  void add(const Snapshot& snapshot, const Facts& facts, const OpFact& op) {
    const StepPlaceFact& place = facts.steps[op.step];
    const CatalogRank& of = snapshot.frame().ranks[place.rank];
    const OpName& name = facts.names[op.name];
    rank.add(rank_text(of));
    run.add_number(of.steps[place.step].run);
    graph.add_number(place.graph);
    step.add_number(place.number);
    op_name.add(name.op_name);
    op_type.add(name.op_type);
    scope.add(name.scope);
    phase.add(kPhases[op.phase]);
    is_parameter.add_number((op.flags & kIsParameter) != 0 ? 1 : 0);
  }

  AnswerColumn &rank, &run, &graph, &step, &op_name, &op_type, &scope, &phase, &is_parameter;
};

struct SourceColumns {
  explicit SourceColumns(AnswerTable& table)
      : source_file(table.add("source_file", ColumnType::text)),
        source_line(table.add("source_line", ColumnType::uint32)),
        function(table.add("function", ColumnType::text)) {}
  template <typename Row>
  void add(const Row& row) {
    source_file.add(row.source_file);
    source_line.add_number(row.source_line);
    function.add(row.function);
  }
  AnswerColumn &source_file, &source_line, &function;
};

// The rows of one page.
struct Page {
  std::shared_ptr<const Facts> facts;
  RowList rows;
  std::uint64_t begin = 0, end = 0;
  std::string columns, command;
};

// The command that prints the same rows, if its options can choose them.
std::string command_of(const Ask& ask, const RowQuery& query) {
  if (!query.sort.empty()) return "";
  std::string command = fmt::format("sonde {} {}", query.of == RowsOf::tensors ? "stats" : "ls --ops",
                                    shell_quoted(ask.dump.path().string()));
  std::string_view rest = query.filter;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (word.empty()) continue;
    if (word.find_first_of(":<>=!\"'") != std::string_view::npos) return "";
    command += fmt::format(" -s '{}'", word);
  }
  for (const auto& [name, value] : ask.request.query) {
    if (name == "rank" && value.find_first_not_of("0123456789") != std::string::npos) return "";
    if (value.find('\'') != std::string::npos) return "";
    if (name == "step" || name == "rank" || name == "graph") command += fmt::format(" --{} '{}'", name, value);
  }
  return command;
}

Result<Page> page_of(Ask& ask, RowsOf of) {
  const RowQuery query = asked_rows(ask, of);
  Page page;
  page.columns = ask.parameters.text("columns").value_or("");
  page.begin = ask.parameters.number("offset", 0, ~0ULL);
  const std::uint64_t limit =
      ask.parameters.number("limit", 200, is_export(ask.request) ? kLimits.exported_rows : kLimits.rows);
  const std::optional<std::uint64_t> generation = ask.parameters.number("generation");
  if (Status good = ask.parameters.finish(); !good) return good.error();
  if (generation && *generation != ask.snapshot->generation()) {
    return Error{ErrorCode::busy, fmt::format("the dump has changed: generation {} is gone, it is {} now", *generation,
                                              ask.snapshot->generation())};
  }
  Result<std::shared_ptr<const Facts>> facts = ask.snapshot->facts();
  if (!facts) return facts.error();
  page.facts = *facts;
  Result<RowList> rows = find_rows(*ask.snapshot, *page.facts, query);
  if (!rows) return rows.error();
  page.rows = *rows;
  page.begin = std::min<std::uint64_t>(page.begin, page.rows->size());
  page.end = std::min<std::uint64_t>(page.begin + limit, page.rows->size());
  page.command = command_of(ask, query);
  return page;
}

Result<Response> finish(Ask& ask, AnswerTable& table, const Page& page) {
  if (Status good = table.choose(page.columns); !good) return good.error();
  table.counts_itself = false;
  table.count = page.rows->size();
  table.offset = page.begin;
  table.command = page.command;
  return table.response(ask.request, ask.snapshot->generation());
}

// More of an operator than the facts have.
struct OpDetails {
  std::string_view source_file, function;
  std::uint64_t source_line = 0, timestamp_us = 0;
};
constexpr auto kOpDetails = std::tuple(
    RowField{"files.text", &OpDetails::source_file}, RowField{"ops.source_line", &OpDetails::source_line},
    RowField{"functions.text", &OpDetails::function}, RowField{"ops.timestamp_us", &OpDetails::timestamp_us});
constexpr const char* kOfOp =
    "FROM ops LEFT JOIN texts AS files ON files.id=ops.source_file LEFT JOIN texts AS functions ON "
    "functions.id=ops.function WHERE ops.id=?";

struct TensorDetails {
  std::optional<KnownStatistics> statistics;
  std::uint32_t flags = 0;
  bool is_input = false;
  std::uint64_t slot = 0, source_line = 0, timestamp_us = 0;
  std::string_view parameter, key, shape, source_file, function;
  std::optional<std::string_view> dtype, md5, sha1, skipped, tensor_file;
};
constexpr auto kTensorDetails = std::tuple(
    StatisticsField{&TensorDetails::statistics}, RowField{"tensors.flags", &TensorDetails::flags},
    RowField{"is_input", &TensorDetails::is_input}, RowField{"slot", &TensorDetails::slot},
    RowField{"names.text", &TensorDetails::parameter}, RowField{"keys.text", &TensorDetails::key},
    RowField{"dtype", &TensorDetails::dtype}, RowField{"shape", &TensorDetails::shape},
    RowField{"md5", &TensorDetails::md5}, RowField{"sha1", &TensorDetails::sha1},
    RowField{"reasons.text", &TensorDetails::skipped},
    RowField{"directories.text || stems.text || file_end", &TensorDetails::tensor_file},
    RowField{"files.text", &TensorDetails::source_file}, RowField{"ops.source_line", &TensorDetails::source_line},
    RowField{"functions.text", &TensorDetails::function},
    RowField{"coalesce(nullif(tensors.timestamp_us, 0), ops.timestamp_us)", &TensorDetails::timestamp_us});
constexpr const char* kOfTensor =
    "FROM tensors JOIN ops ON ops.id=tensors.op_id LEFT JOIN texts AS names ON names.id=tensors.parameter "
    "LEFT JOIN texts AS keys ON keys.id=tensors.key LEFT JOIN texts AS reasons ON reasons.id=tensors.skipped "
    "LEFT JOIN texts AS directories ON directories.id=tensors.directory LEFT JOIN texts AS stems ON "
    "stems.id=tensors.stem LEFT JOIN texts AS files ON files.id=ops.source_file LEFT JOIN texts AS functions ON "
    "functions.id=ops.function WHERE op_id=? AND position=?";

void add_text(AnswerColumn& column, const std::optional<std::string_view>& text) {
  text ? column.add(*text) : column.add_null();
}

}  // namespace

RowQuery asked_rows(Ask& ask, RowsOf of) {
  RowQuery query;
  query.of = of;
  query.where = Where::of(ask.parameters);
  query.filter = ask.parameters.text("filter").value_or("");
  query.sort = ask.parameters.text("sort").value_or("");
  query.is_gone = [&request = ask.request] { return request.is_gone(); };
  for (const std::string_view name : {"rank", "graph", "step"}) {
    query.key += fmt::format("{}\n", ask.parameters.text(name).value_or("-"));
  }
  query.key += fmt::format("{}\n{}\n{}", static_cast<int>(of), query.sort, query.filter);
  return query;
}

Result<Response> ops(Ask& ask) {
  Result<Page> page = page_of(ask, RowsOf::ops);
  if (!page) return page.error();
  AnswerTable table;
  OpColumns op_columns(table);
  SourceColumns source_columns(table);
  AnswerColumn& timestamp = table.add("timestamp_us", ColumnType::uint64);
  AnswerColumn& recorded = table.add("tensors", ColumnType::uint32);
  AnswerColumn& state = table.add("class", ColumnType::text);
  AnswerColumn& nans = table.add("nan_tensors", ColumnType::uint32);
  AnswerColumn& infs = table.add("inf_tensors", ColumnType::uint32);
  AnswerColumn& unknown = table.add("not_measured", ColumnType::uint32);
  AnswerColumn& id = table.add("op_id", ColumnType::uint64);
  const Status read = ask.snapshot->with_database([&](Database& database) -> Status {
    Result<Statement> row = database.prepare(select_text(kOpDetails, kOfOp).c_str());
    if (!row) return row.error();
    for (std::uint64_t i = page->begin; i < page->end; ++i) {
      const std::uint64_t number = (*page->rows)[i];
      const OpFact& op = page->facts->ops[number];
      row->set(0, number);
      if (!row->next()) return database.error("cannot read it: an op is missing");
      op_columns.add(*ask.snapshot, *page->facts, op);
      const OpDetails details = row_of<OpDetails>(*row, kOpDetails);
      source_columns.add(details);
      timestamp.add_number(details.timestamp_us);
      recorded.add_number(op.recorded);
      state.add(word_of(op.state));
      nans.add_number(op.nan_tensors);
      infs.add_number(op.inf_tensors);
      unknown.add_number(op.not_measured);
      id.add_number(number);
      row->reset();
    }
    return {};
  });
  if (!read) return read.error();
  return finish(ask, table, *page);
}

Result<Response> tensors(Ask& ask) {
  Result<Page> page = page_of(ask, RowsOf::tensors);
  if (!page) return page.error();
  AnswerTable table;
  OpColumns op_columns(table);
  AnswerColumn& side = table.add("side", ColumnType::text);
  AnswerColumn& slot = table.add("slot", ColumnType::uint32);
  AnswerColumn& parameter = table.add("parameter", ColumnType::text);
  AnswerColumn& key = table.add("key", ColumnType::text);
  AnswerColumn& dtype = table.add("dtype", ColumnType::text);
  AnswerColumn& shape = table.add("shape", ColumnType::shape, true);
  StatisticColumns statistics(table);
  AnswerColumn& md5 = table.add("md5", ColumnType::unique, true);
  AnswerColumn& sha1 = table.add("sha1", ColumnType::unique, true);
  AnswerColumn& skipped = table.add("skipped", ColumnType::text, true);
  AnswerColumn& file = table.add("tensor_file", ColumnType::unique, true);
  SourceColumns source_columns(table);
  AnswerColumn& timestamp = table.add("timestamp_us", ColumnType::uint64);
  AnswerColumn& state = table.add("class", ColumnType::text);
  AnswerColumn& id = table.add("op_id", ColumnType::uint64);
  const std::shared_ptr<const Judgement> judgement = ask.snapshot->judgement();
  const Status read = ask.snapshot->with_database([&](Database& database) -> Status {
    Result<Statement> row = database.prepare(select_text(kTensorDetails, kOfTensor).c_str());
    if (!row) return row.error();
    for (std::uint64_t i = page->begin; i < page->end; ++i) {
      const TensorFact& tensor = page->facts->tensors[(*page->rows)[i]];
      const OpFact& op = page->facts->ops[tensor.op];
      row->set(0, std::uint64_t{tensor.op});
      row->set(1, std::uint64_t{tensor.position});
      if (!row->next()) return database.error("cannot read it: a tensor is missing");
      const TensorDetails details = row_of<TensorDetails>(*row, kTensorDetails);
      op_columns.add(*ask.snapshot, *page->facts, op);
      side.add(details.is_input ? "input" : "output");
      slot.add_number(details.slot);
      parameter.add(details.parameter);
      key.add(details.key);
      dtype.add(details.dtype.value_or("?"));
      (details.flags & kHasShape) != 0 ? shape.add(details.shape) : shape.add_null();
      statistics.add(judgement->statistics_of(tensor.op, tensor.position, details.statistics));
      add_text(md5, details.md5);
      add_text(sha1, details.sha1);
      add_text(skipped, details.skipped);
      const CatalogRank& rank = ask.snapshot->frame().ranks[page->facts->steps[op.step].rank];
      details.tensor_file ? file.add((rank.directory / *details.tensor_file).string()) : file.add_null();
      source_columns.add(details);
      timestamp.add_number(details.timestamp_us);
      state.add(word_of(tensor.state));
      id.add_number(tensor.op);
      row->reset();
    }
    return {};
  });
  if (!read) return read.error();
  return finish(ask, table, *page);
}

}  // namespace sonde::server
