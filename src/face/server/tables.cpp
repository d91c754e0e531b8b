#include <fmt/format.h>

#include "contract/names.h"
#include "contract/served_rows.h"
#include "dump/run_files/replica_rows.h"
#include "face/report/catalog_text.h"
#include "face/server/ask.h"
#include "face/server/limits.h"
#include "face/server/rows.h"
#include "ground/base/text.h"
#include "read/catalog/replicas.h"
#include "read/index/index_schema.h"
#include "read/index/row_fields.h"

namespace sonde::server {
namespace {

// Facts that rows of ops and of tensors share.
template <typename Row>
void put_op(const Snapshot& snapshot, const Facts& facts, const OpFact& op, Row& row) {
  const StepPlaceFact& place = facts.steps[op.step];
  const CatalogRank& of = snapshot.frame().ranks[place.rank];
  const OpName& name = facts.names[op.name];
  row.rank = rank_text(of);
  row.run = static_cast<std::uint32_t>(of.steps[place.step].run);
  row.graph = place.graph;
  row.step = place.number;
  row.op_name = name.op_name;
  row.op_type = name.op_type;
  row.scope = name.scope;
  row.phase = static_cast<Phase>(op.phase);
  row.is_parameter = (op.flags & kIsParameter) != 0;
}

template <typename Details, typename Row>
void put_source(const Details& details, Row& row) {
  row.source_file = details.source_file;
  row.source_line = details.source_line;
  row.function = details.function;
  row.timestamp_us = details.timestamp_us;
}

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
                                    shell_word(ask.dump.path().string()));
  for (const std::string_view word : split(query.filter, ' ')) {
    if (word.empty()) continue;
    if (word.find_first_of(":<>=!\"'") != std::string_view::npos) return "";
    command += fmt::format(" -s {}", shell_word(word));
  }
  for (const auto& [name, value] : ask.request.query) {
    if (name == "rank" && value.find_first_not_of("0123456789") != std::string::npos) return "";
    if (value.find('\'') != std::string::npos) return "";
    if (name == "step" || name == "rank" || name == "graph")
      command += fmt::format(" --{} {}", name, shell_word(value));
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
  std::uint32_t source_line = 0;
  std::uint64_t timestamp_us = 0;
};
constexpr auto kOpDetails = std::tuple(
    RowField{"files.text", &OpDetails::source_file}, RowField{"ops.source_line", &OpDetails::source_line},
    RowField{"functions.text", &OpDetails::function}, RowField{"ops.timestamp_us", &OpDetails::timestamp_us});
constexpr const char* kOfOp =
    "FROM ops LEFT JOIN texts AS files ON files.id=ops.source_file LEFT JOIN texts AS functions ON "
    "functions.id=ops.function WHERE ops.id=?";

struct TensorDetails {
  std::optional<KnownStatistics> statistics;
  std::uint32_t flags = 0, slot = 0, source_line = 0;
  std::uint64_t timestamp_us = 0;
  bool is_input = false;
  std::string_view parameter, key, placement, shape, source_file, function;
  std::optional<std::string_view> dtype, md5, sha1, skipped, tensor_file;
};
constexpr auto kTensorDetails = std::tuple(
    StatisticsField{&TensorDetails::statistics}, RowField{"tensors.flags", &TensorDetails::flags},
    RowField{"is_input", &TensorDetails::is_input}, RowField{"slot", &TensorDetails::slot},
    RowField{"names.text", &TensorDetails::parameter}, RowField{"keys.text", &TensorDetails::key},
    RowField{"placements.text", &TensorDetails::placement}, RowField{"dtype", &TensorDetails::dtype},
    RowField{"shape", &TensorDetails::shape}, RowField{"md5", &TensorDetails::md5},
    RowField{"sha1", &TensorDetails::sha1}, RowField{"reasons.text", &TensorDetails::skipped},
    RowField{"directories.text || stems.text || file_end", &TensorDetails::tensor_file},
    RowField{"files.text", &TensorDetails::source_file}, RowField{"ops.source_line", &TensorDetails::source_line},
    RowField{"functions.text", &TensorDetails::function},
    RowField{"coalesce(nullif(tensors.timestamp_us, 0), ops.timestamp_us)", &TensorDetails::timestamp_us});
constexpr const char* kOfTensor =
    "FROM tensors JOIN ops ON ops.id=tensors.op_id LEFT JOIN texts AS names ON names.id=tensors.parameter "
    "LEFT JOIN texts AS keys ON keys.id=tensors.key LEFT JOIN texts AS placements ON placements.id=tensors.placement "
    "LEFT JOIN texts AS reasons ON reasons.id=tensors.skipped "
    "LEFT JOIN texts AS directories ON directories.id=tensors.directory LEFT JOIN texts AS stems ON "
    "stems.id=tensors.stem LEFT JOIN texts AS files ON files.id=ops.source_file LEFT JOIN texts AS functions ON "
    "functions.id=ops.function WHERE op_id=? AND position=?";

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
  RowTable<ServedOp> ops;
  const Status read = ask.snapshot->with_database([&](Database& database) -> Status {
    Result<Statement> row = database.prepare(select_text(kOpDetails, kOfOp).c_str());
    if (!row) return row.error();
    for (std::uint64_t i = page->begin; i < page->end; ++i) {
      const std::uint64_t number = (*page->rows)[i];
      const OpFact& op = page->facts->ops[number];
      row->set(0, number);
      if (!row->next()) return database.error("cannot read it: an op is missing");
      ServedOp next;
      put_op(*ask.snapshot, *page->facts, op, next);
      put_source(row_of<OpDetails>(*row, kOpDetails), next);
      next.tensors = op.recorded;
      next.class_ = op.state;
      next.nan_tensors = op.nan_tensors;
      next.inf_tensors = op.inf_tensors;
      next.not_measured = op.not_measured;
      next.op_id = number;
      ops.add(next);
      row->reset();
    }
    return {};
  });
  if (!read) return read.error();
  return finish(ask, ops.table, *page);
}

Result<Response> tensors(Ask& ask) {
  Result<Page> page = page_of(ask, RowsOf::tensors);
  if (!page) return page.error();
  RowTable<ServedTensor> tensors;
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
      ServedTensor next;
      put_op(*ask.snapshot, *page->facts, op, next);
      put_source(details, next);
      next.side = details.is_input ? Side::input : Side::output;
      next.slot = details.slot;
      next.parameter = details.parameter;
      next.key = details.key;
      next.placement = details.placement;
      next.dtype = details.dtype.value_or("?");
      if ((details.flags & kHasShape) != 0) next.shape.emplace(details.shape);
      next.statistics = judgement->statistics_of(tensor.op, tensor.position, details.statistics);
      next.md5 = details.md5;
      next.sha1 = details.sha1;
      next.skipped = details.skipped;
      const CatalogRank& rank = ask.snapshot->frame().ranks[page->facts->steps[op.step].rank];
      const std::string elsewhere =
          file_of_replica(rank.directory, details.skipped.value_or(""),
                          content_key(details.md5.value_or(""), details.dtype.value_or(""), details.shape));
      if (!elsewhere.empty()) next.tensor_file.emplace(elsewhere);
      if (details.tensor_file) next.tensor_file.emplace((rank.directory / *details.tensor_file).string());
      next.class_ = tensor.state;
      next.op_id = tensor.op;
      tensors.add(next);
      row->reset();
    }
    return {};
  });
  if (!read) return read.error();
  return finish(ask, tensors.table, *page);
}

}  // namespace sonde::server
