#include "read/index/index_reader.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "contract/tables.h"
#include "dump/graph/host_graph.h"
#include "read/catalog/replicas.h"
#include "read/index/index_rows.h"
#include "read/index/index_schema.h"

namespace sonde {
namespace {

// The place of a step in the catalog and in the table of ops.
struct StepPlaceInIndex {
  std::size_t rank = 0, step = 0;
  std::int64_t first_op = 0, end_op = 0;
  bool is_asked_for = false;
};

class Reader {
 public:
  Reader(Database& database, const CatalogQuery& query) : database_(database), query_(query) {}

  Result<Catalog> read() {
    catalog_.owner = rows_.owner();
    Status status = read_frame();
    if (status && query_.with_ops) status = rows_.prepare();
    if (status && query_.with_ops) {
      status = query_.first_of_name     ? read_first_of_names()
               : query_.takes_all_ops() ? read_all_ops()
                                        : read_chosen_ops();
    }
    if (status) status = rows_.check();
    if (!status) return status.error();
    return std::move(catalog_);
  }

 private:
  // --- everything except ops -----------------------------------------------------------------------------------------

  // Calls `take` for each row.
  template <typename Take>
  Status each(const char* sql, const Take& take) {
    Result<Statement> rows = database_.prepare(sql);
    if (!rows) return rows.error();
    while (rows->next()) take(*rows);
    if (rows->failed()) return database_.error("cannot read it");
    return {};
  }
  template <typename Row, typename Take>
  Status each_row(std::string_view order, const Take& take) {
    return each(select_text<Row>(order).c_str(), [&](const Statement& row) { take(row_of<Row>(row)); });
  }

  Status read_frame() {
    Status status = each_row<tables::Problems>("", [&](const tables::Problems& row) {
      catalog_.problems.push_back({std::string(row.path), std::string(row.message), row.is_lost});
    });
    if (status) status = each_row<tables::Ranks>("ORDER BY id", [&](const auto& row) { add_rank(row); });
    if (status) status = each_row<tables::Runs>("ORDER BY rank_id, run", [&](const auto& row) { add_run(row); });
    if (status) {
      status = each_row<tables::Notes>("ORDER BY rowid", [&](const tables::Notes& row) {
        CatalogRank* const rank = rank_of(row.rank_id);
        if (rank != nullptr && row.run < rank->runs.size()) rank->runs[row.run].notes.emplace_back(row.note);
      });
    }
    if (status) status = read_source_lines();
    if (status) status = each_row<tables::Steps>("ORDER BY id", [&](const auto& row) { add_step(row); });
    if (status) status = each_row<tables::Requests>("ORDER BY rowid", [&](const auto& row) { add_request(row); });
    return status;
  }

  CatalogRank* rank_of(std::uint64_t id) { return id < catalog_.ranks.size() ? &catalog_.ranks[id] : nullptr; }

  void add_rank(const tables::Ranks& row) {
    CatalogRank& rank = catalog_.ranks.emplace_back();
    rank.rank = row.rank;
    rank.directory = std::string(row.directory);
    rank.metadata = std::string(row.metadata);
    rank.has_journal = row.has_journal;
    rank.has_host_data_flow = row.has_host_data_flow;
    rank.kind = value_of_word<DumpKind>(row.kind);
    rank.dump = row.dump;
  }

  void add_run(const tables::Runs& row) {
    CatalogRank* const rank = rank_of(row.rank_id);
    if (rank == nullptr) return;
    CatalogRun& run = rank->runs.emplace_back();
    run.finished = row.finished;
    run.sonde_version = row.sonde_version;
    run.world_size = static_cast<std::uint32_t>(row.world_size);
    run.host = row.host;
    run.command = row.command;
    run.layout = row.layout;
    run.saved_data = row.saved_data;
    run.net_name = row.net_name;
    run.error = row.error;
    run.pid = row.pid;
    run.started_us = row.started_us;
    run.ended_us = row.ended_us;
    run.bytes_read = row.bytes_read;
    run.bytes_written = row.bytes_written;
    run.settings = {.only_overflows = row.only_overflows,
                    .overflow_number = static_cast<std::uint32_t>(row.overflow_number),
                    .only_exceptions = row.only_exceptions,
                    .inputs_after = row.inputs_after,
                    .reread = row.reread};
  }

  Status read_source_lines() {
    std::map<std::uint64_t, std::shared_ptr<HostGraph>> graphs;
    const Status status = each_row<tables::SourceLines>("ORDER BY rowid", [&](const tables::SourceLines& row) {
      std::shared_ptr<HostGraph>& graph = graphs[row.rank_id];
      if (!graph) graph = std::make_shared<HostGraph>();
      graph->lines[std::string(row.file)].insert_or_assign(row.line, std::string(row.text));
    });
    for (const auto& [id, graph] : graphs) {
      if (CatalogRank* const rank = rank_of(id)) rank->host_graphs.push_back(graph);
    }
    return status;
  }

  void add_step(const tables::Steps& row) {
    CatalogRank* const rank = rank_of(row.rank_id);
    if (rank == nullptr) return;
    StepPlaceInIndex place;
    place.rank = static_cast<std::size_t>(row.rank_id);
    place.step = rank->steps.size();
    place.first_op = row.first_op;
    place.end_op = row.end_op;
    CatalogStep& step = rank->steps.emplace_back();
    step.run = row.run;
    step.id = {row.graph, row.step};
    step.started_us = row.started_us;
    step.ended_us = row.ended_us;
    step.ended = row.ended;
    step.directory = catalog_.texts->keep(row.directory);
    step.sum = {row.ops, row.parameters, row.tensors, row.files, row.bytes, row.new_bytes};
    step.is_mended = row.is_mended;
    step.health = {.known = row.known, .not_recorded = row.not_recorded, .is_fine = row.is_fine};
    place.is_asked_for = query_.takes(rank->rank, step.id) && !(query_.first_step_only && any_asked_for_);
    any_asked_for_ |= place.is_asked_for;
    places_.push_back(place);
  }

  // Steps are numbered from 0.
  void add_request(const tables::Requests& row) {
    if (row.step_id >= places_.size()) return;
    const StepPlaceInIndex& place = places_[row.step_id];
    catalog_.ranks[place.rank].steps[place.step].requests.push_back(
        {.request = std::string(row.request), .row = row.first_row, .rows = row.rows, .position = row.position});
  }

  // --- ops ---------------------------------------------------------------------------------------------------------

  void read_ops(std::size_t rank, std::int64_t first, std::int64_t end, std::vector<CatalogOp>& ops) {
    const std::size_t before = ops.size();
    rows_.read_ops(first, end, ops);
    find_replicas(catalog_.ranks[rank].directory, std::span(ops).subspan(before), *catalog_.texts);
  }

  Status read_all_ops() {
    for (const StepPlaceInIndex& place : places_) {
      std::vector<CatalogOp>& ops = catalog_.ranks[place.rank].steps[place.step].ops;
      if (place.is_asked_for) read_ops(place.rank, place.first_op, place.end_op, ops);
    }
    return {};
  }

  Status read_chosen_ops() {
    std::set<std::int64_t> chosen;
    Status status = choose(chosen);
    if (status && query_.with_makers) status = add_makers(chosen);
    if (status && query_.with_neighbours) status = add_neighbours(chosen);
    if (!status) return status;
    for (const StepPlaceInIndex& place : places_) {
      if (!place.is_asked_for) continue;
      CatalogStep& step = catalog_.ranks[place.rank].steps[place.step];
      auto at = chosen.lower_bound(place.first_op);
      while (at != chosen.end() && *at < place.end_op) {
        const std::int64_t first = *at;
        std::int64_t end = first;
        for (; at != chosen.end() && *at == end && end < place.end_op; ++at) ++end;
        read_ops(place.rank, first, end, step.ops);
      }
    }
    return {};
  }

  struct FirstOfName {
    std::size_t rank = 0, step = 0;
    std::int64_t id = 0;
    OpSum sum;
  };

  // Ids of names that are taken, each with the number of its line: a name may occur with several types.
  Status choose_names(std::unordered_map<std::int64_t, std::size_t>& line_of, std::size_t& lines) {
    std::unordered_map<std::string, std::size_t> by_name;
    return each("SELECT id, op_name, op_type FROM op_names", [&](const Statement& row) {
      if (query_.ops && !query_.ops(row.text(1), row.text(2))) return;
      const std::size_t line = by_name.try_emplace(std::string(row.text(1)), by_name.size()).first->second;
      line_of.emplace(row.integer(0), line);
      lines = by_name.size();
    });
  }

  Status read_first_of_names() {
    std::unordered_map<std::int64_t, std::size_t> line_of;
    std::size_t lines = 0;
    if (Status status = choose_names(line_of, lines); !status) return status;
    Result<Statement> rows = database_.prepare("SELECT id, name_id, recorded FROM ops WHERE id>=? AND id<?");
    if (!rows) return rows.error();
    std::vector<FirstOfName> found(lines);
    std::vector<std::size_t> order;  // lines by their first op
    for (const StepPlaceInIndex& place : places_) {
      if (!place.is_asked_for) continue;
      rows->set(0, place.first_op);
      rows->set(1, place.end_op);
      while (rows->next()) {
        const auto line = line_of.find(rows->integer(1));
        if (line == line_of.end()) continue;
        FirstOfName& first = found[line->second];
        if (first.sum.times == 0) {
          first = {.rank = place.rank, .step = place.step, .id = rows->integer(0), .sum = {}};
          order.push_back(line->second);
        }
        ++first.sum.times;
        first.sum.recorded += rows->number(2);
      }
      rows->reset();
    }
    if (rows->failed()) return database_.error("cannot read it");
    for (const std::size_t line : order) {
      const FirstOfName& first = found[line];
      CatalogStep& step = catalog_.ranks[first.rank].steps[first.step];
      read_ops(first.rank, first.id, first.id + 1, step.ops);
      if (!step.ops.empty()) step.ops.back().sum = first.sum;
    }
    return {};
  }

  const StepPlaceInIndex* place_of(std::int64_t op) const {
    const auto after = std::ranges::upper_bound(places_, op, {}, &StepPlaceInIndex::first_op);
    if (after == places_.begin()) return nullptr;
    // Steps without ops begin at the next step's first op.
    const StepPlaceInIndex& place = *(after - 1);
    return op < place.end_op ? &place : nullptr;
  }

  bool is_asked_for(std::int64_t op) const {
    const StepPlaceInIndex* const place = place_of(op);
    return place != nullptr && place->is_asked_for;
  }

  // Adds the ops in the first column of the rows to `chosen`, if their steps are requested.
  Status add(Statement& rows, std::set<std::int64_t>& chosen) const {
    while (rows.next()) {
      if (is_asked_for(rows.integer(0))) chosen.insert(rows.integer(0));
    }
    rows.reset();
    if (rows.failed()) return database_.error("cannot read it");
    return {};
  }

  Status choose(std::set<std::int64_t>& chosen) {
    Status status;
    std::vector<std::int64_t> names;
    if (query_.ops) {
      status = each("SELECT id, op_name, op_type FROM op_names", [&](const Statement& row) {
        if (query_.ops(row.text(1), row.text(2))) names.push_back(row.integer(0));
      });
    }
    Result<Statement> by_name = database_.prepare("SELECT id FROM ops WHERE name_id=?");
    if (!by_name) return by_name.error();
    for (std::size_t i = 0; status && i < names.size(); ++i) {
      by_name->set(0, names[i]);
      status = add(*by_name, chosen);
    }
    if (status && !query_.parameter.empty()) {
      status = add_by("SELECT op_id FROM tensors WHERE parameter IN (SELECT id FROM texts WHERE text=?)",
                      query_.parameter, chosen);
    }
    if (status && !query_.file.empty()) {
      status = add_by("SELECT op_id FROM tensors JOIN texts ON texts.id=tensors.stem WHERE texts.text||file_end=?",
                      query_.file, chosen);
    }
    return status;
  }

  template <typename Value>
  Status add_by(const char* sql, const Value& value, std::set<std::int64_t>& chosen) {
    Result<Statement> rows = database_.prepare(sql);
    if (!rows) return rows.error();
    rows->set(0, value);
    return add(*rows, chosen);
  }

  Status add_makers(std::set<std::int64_t>& chosen) {
    Result<Statement> of_tensors = database_.prepare("SELECT source FROM tensors WHERE op_id=? AND source IS NOT NULL");
    Result<Statement> of_sequence = database_.prepare("SELECT id FROM ops WHERE sequence=?");
    if (!of_tensors || !of_sequence) return database_.error("cannot read it");
    std::set<std::int64_t> sequences;
    for (const std::int64_t op : chosen) {
      of_tensors->set(0, op);
      while (of_tensors->next()) sequences.insert(of_tensors->integer(0));
      of_tensors->reset();
    }
    Status status;
    for (const std::int64_t sequence : sequences) {
      of_sequence->set(0, sequence);
      if (status) status = add(*of_sequence, chosen);
    }
    return of_tensors->failed() ? database_.error("cannot read it") : status;
  }

  // Adds the ops that feed the chosen ops, that read them or their inputs, or that read the same parameter.
  Status add_neighbours(std::set<std::int64_t>& chosen) {
    std::set<std::int64_t> sequences;
    std::set<std::int64_t> names;
    Result<Statement> of_op = database_.prepare("SELECT sequence, flags FROM ops WHERE id=?");
    Result<Statement> of_tensors = database_.prepare("SELECT source, parameter FROM tensors WHERE op_id=?");
    Result<Statement> of_name = database_.prepare(
        "SELECT texts.id FROM ops JOIN op_names ON op_names.id=ops.name_id JOIN texts ON texts.text=op_names.op_name"
        " WHERE ops.id=?");
    if (!of_op || !of_tensors || !of_name) return database_.error("cannot read it");
    for (const std::int64_t op : chosen) {
      for (Statement* rows : {&*of_op, &*of_tensors, &*of_name}) rows->set(0, op);
      while (of_op->next()) sequences.insert(of_op->integer(0));
      while (of_tensors->next()) {
        if (!of_tensors->is_null(0)) sequences.insert(of_tensors->integer(0));
        if (!of_tensors->is_null(1)) names.insert(of_tensors->integer(1));
      }
      while (of_name->next()) names.insert(of_name->integer(0));
      for (Statement* rows : {&*of_op, &*of_tensors, &*of_name}) rows->reset();
    }
    Status status;
    for (const std::int64_t sequence : sequences) {
      if (status) status = add_by("SELECT id FROM ops WHERE sequence=?", sequence, chosen);
      if (status) status = add_by("SELECT op_id FROM tensors WHERE source=?", sequence, chosen);
    }
    for (const std::int64_t name : names) {
      if (status) status = add_by("SELECT op_id FROM tensors WHERE parameter=?", name, chosen);
    }
    return status;
  }

  Database& database_;
  const CatalogQuery& query_;
  Catalog catalog_;
  IndexRows rows_ = IndexRows(database_, *catalog_.texts);
  std::vector<StepPlaceInIndex> places_;  // in the order of the steps' ids
  bool any_asked_for_ = false;
};

// The first column of the first row.
std::optional<std::string> value_of(Database& database, const char* sql) {
  Result<Statement> rows = database.prepare(sql);
  if (!rows || !rows->next()) return std::nullopt;
  return std::string(rows->text(0));
}

}  // namespace

Status check_index(Database& database, const std::filesystem::path& file, const std::filesystem::path& root) {
  const auto wrong = [&](const std::string& why) {
    return Error{ErrorCode::corrupt, "'" + file.string() + "' " + why};
  };
  if (value_of(database, "PRAGMA application_id") != std::to_string(kIndexApplication)) {
    return wrong("is not an index of Sonde");
  }
  const std::string version = value_of(database, "PRAGMA user_version").value_or("?");
  if (version != std::to_string(kIndexVersion)) {
    return wrong("is an index of version " + version + "; this is version " + std::to_string(kIndexVersion));
  }
  const std::string dump = value_of(database, "SELECT value FROM meta WHERE key='dump'").value_or("?");
  return dump == root.native() ? Status() : wrong("is the index of another dump, '" + dump + "'");
}

Result<std::vector<SourceState>> read_sources(Database& database) {
  Result<Statement> rows = database.prepare(select_text<tables::Sources>().c_str());
  if (!rows) return rows.error();
  std::vector<SourceState> sources;
  while (rows->next()) {
    const auto row = row_of<tables::Sources>(*rows);
    SourceState& source = sources.emplace_back();
    source.path = row.path;
    source.kind = static_cast<SourceState::Kind>(row.kind);
    source.inode = row.inode;
    source.size = row.size;
    source.mtime_ns = row.mtime_ns;
    source.ctime_ns = row.ctime_ns;
  }
  if (rows->failed() || sources.empty()) return database.error("cannot read it");
  return sources;
}

Result<Catalog> read_index(Database& database, const CatalogQuery& query) { return Reader(database, query).read(); }

}  // namespace sonde
