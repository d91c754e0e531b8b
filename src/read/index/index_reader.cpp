#include "read/index/index_reader.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "dump/graph/host_graph.h"
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

  Status read_frame() {
    Status status = each("SELECT path, message, is_lost FROM problems", [&](const Statement& row) {
      catalog_.problems.push_back({std::string(row.text(0)), std::string(row.text(1)), row.number(2) != 0});
    });
    if (status)
      status = each(
          "SELECT id, rank, directory, metadata, has_journal, has_host_data_flow, kind, dump FROM ranks "
          "ORDER BY id",
          [&](const Statement& row) { add_rank(row); });
    if (status)
      status = each(
          "SELECT rank_id, finished, host, command, layout, saved_data, net_name, error, pid, started_us, "
          "ended_us, bytes_read, bytes_written, only_overflows, only_exceptions, inputs_after, reread FROM runs ORDER "
          "BY rank_id, run",
          [&](const Statement& row) { add_run(row); });
    if (status)
      status = each("SELECT rank_id, run, note FROM notes ORDER BY rowid", [&](const Statement& row) {
        CatalogRank* const rank = rank_of(row.integer(0));
        if (rank != nullptr && row.number(1) < rank->runs.size()) {
          rank->runs[row.number(1)].notes.emplace_back(row.text(2));
        }
      });
    if (status) status = read_source_lines();
    if (status)
      status = each(
          "SELECT rank_id, run, graph, step, started_us, ended_us, ended, directory, first_op, end_op, "
          "ops, parameters, tensors, files, bytes, new_bytes, is_mended, known, not_recorded, is_fine FROM steps ORDER "
          "BY id",
          [&](const Statement& row) { add_step(row); });
    return status;
  }

  CatalogRank* rank_of(std::int64_t id) {
    const auto index = static_cast<std::size_t>(id);
    return index < catalog_.ranks.size() ? &catalog_.ranks[index] : nullptr;
  }

  void add_rank(const Statement& row) {
    CatalogRank& rank = catalog_.ranks.emplace_back();
    rank.rank = static_cast<std::uint32_t>(row.integer(1));
    rank.directory = std::string(row.text(2));
    rank.metadata = std::string(row.text(3));
    rank.has_journal = row.integer(4) != 0;
    rank.has_host_data_flow = row.integer(5) != 0;
    rank.kind = static_cast<DumpKind>(number_in(kDumpKinds, row.text(6)));
    rank.dump = row.text(7);
  }

  void add_run(const Statement& row) {
    CatalogRank* const rank = rank_of(row.integer(0));
    if (rank == nullptr) return;
    CatalogRun& run = rank->runs.emplace_back();
    run.finished = row.integer(1) != 0;
    run.host = row.text(2);
    run.command = row.text(3);
    run.layout = row.text(4);
    run.saved_data = row.text(5);
    run.net_name = row.text(6);
    run.error = row.text(7);
    run.pid = row.number(8);
    run.started_us = row.number(9);
    run.ended_us = row.number(10);
    run.bytes_read = row.number(11);
    run.bytes_written = row.number(12);
    run.settings = {.only_overflows = row.integer(13) != 0,
                    .only_exceptions = row.integer(14) != 0,
                    .inputs_after = row.integer(15) != 0,
                    .reread = row.integer(16) != 0};
  }

  Status read_source_lines() {
    std::map<std::int64_t, std::shared_ptr<HostGraph>> graphs;
    const Status status =
        each("SELECT rank_id, file, line, text FROM source_lines ORDER BY rowid", [&](const Statement& row) {
          std::shared_ptr<HostGraph>& graph = graphs[row.integer(0)];
          if (!graph) graph = std::make_shared<HostGraph>();
          graph->lines[std::string(row.text(1))].insert_or_assign(static_cast<std::uint32_t>(row.integer(2)),
                                                                  std::string(row.text(3)));
        });
    for (const auto& [id, graph] : graphs) {
      if (CatalogRank* const rank = rank_of(id)) rank->host_graphs.push_back(graph);
    }
    return status;
  }

  void add_step(const Statement& row) {
    CatalogRank* const rank = rank_of(row.integer(0));
    if (rank == nullptr) return;
    StepPlaceInIndex place;
    place.rank = static_cast<std::size_t>(row.integer(0));
    place.step = rank->steps.size();
    place.first_op = row.integer(8);
    place.end_op = row.integer(9);
    CatalogStep& step = rank->steps.emplace_back();
    step.run = row.number(1);
    step.id = {static_cast<std::uint32_t>(row.integer(2)), row.number(3)};
    step.started_us = row.number(4);
    step.ended_us = row.number(5);
    step.ended = row.integer(6) != 0;
    step.directory = catalog_.texts->keep(row.text(7));
    step.sum = {row.number(10), row.number(11), row.number(12), row.number(13), row.number(14), row.number(15)};
    step.is_mended = row.integer(16) != 0;
    step.health = {.known = row.number(17), .not_recorded = row.number(18), .is_fine = row.integer(19) != 0};
    place.is_asked_for = query_.takes(rank->rank, step.id) && !(query_.first_step_only && any_asked_for_);
    any_asked_for_ |= place.is_asked_for;
    places_.push_back(place);
  }

  // --- ops ---------------------------------------------------------------------------------------------------------

  Status read_all_ops() {
    for (const StepPlaceInIndex& place : places_) {
      std::vector<CatalogOp>& ops = catalog_.ranks[place.rank].steps[place.step].ops;
      if (place.is_asked_for) rows_.read_ops(place.first_op, place.end_op, ops);
    }
    return {};
  }

  Status read_chosen_ops() {
    std::set<std::int64_t> chosen;
    Status status = choose(chosen);
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
        rows_.read_ops(first, end, step.ops);
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
      rows_.read_ops(first.id, first.id + 1, step.ops);
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
  Result<Statement> rows = database.prepare("SELECT path, kind, inode, size, mtime_ns, ctime_ns FROM sources");
  if (!rows) return rows.error();
  std::vector<SourceState> sources;
  while (rows->next()) {
    SourceState& source = sources.emplace_back();
    source.path = rows->text(0);
    source.kind = static_cast<SourceState::Kind>(rows->integer(1));
    source.inode = rows->number(2);
    source.size = rows->number(3);
    source.mtime_ns = rows->integer(4);
    source.ctime_ns = rows->integer(5);
  }
  if (rows->failed() || sources.empty()) return database.error("cannot read it");
  return sources;
}

Result<Catalog> read_index(Database& database, const CatalogQuery& query) { return Reader(database, query).read(); }

}  // namespace sonde
