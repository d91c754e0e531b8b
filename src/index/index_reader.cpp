#include "index/index_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "graph/host_graph.h"
#include "index/index_schema.h"

namespace sonde {
namespace {

// Data that ops point to (traces and attributes), and file names, each stored once.
struct Kept {
  std::deque<std::vector<SourceLine>> traces;
  std::deque<std::vector<Attribute>> attributes;
  std::deque<std::string> files;
};

// The numbers in a text, whatever separates them.
template <typename Number>
std::vector<Number> numbers_in(std::string_view text) {
  std::vector<Number> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    Number number{};
    const auto [next, error] = std::from_chars(at, end, number);
    if (next == at) {
      ++at;
      continue;
    }
    if (error == std::errc()) numbers.push_back(number);
    at = next;
  }
  return numbers;
}

template <std::size_t Size>
std::size_t index_in(const std::array<std::string_view, Size>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? 0 : static_cast<std::size_t>(found - names.begin());
}

// The place of a step in the catalog and in the table of ops.
struct StepPlaceInIndex {
  std::size_t rank = 0, step = 0;
  std::int64_t first_op = 0, end_op = 0;
  bool is_asked_for = false;
};

double value_in(const Statement& row, int column) {
  return row.is_null(column) ? std::numeric_limits<double>::quiet_NaN() : row.real(column);
}

class Reader {
 public:
  Reader(Database& database, const CatalogQuery& query) : database_(database), query_(query) {}

  Result<Catalog> read() {
    catalog_.owner = kept_;
    Status status = prepare();
    if (status) status = read_frame();
    if (status && query_.with_ops) {
      status = query_.first_of_name     ? read_first_of_names()
               : query_.takes_all_ops() ? read_all_ops()
                                        : read_chosen_ops();
    }
    if (!status) return status.error();
    for (const Statement* statement : {&text_, &name_, &trace_, &attribute_, &tensors_}) {
      if (statement->failed()) return database_.error("cannot read it");
    }
    return std::move(catalog_);
  }

 private:
  // --- everything except ops -----------------------------------------------------------------------------------------

  Status prepare() {
    const std::pair<Statement*, const char*> all[] = {
        {&text_, "SELECT text FROM texts WHERE id=?"},
        {&name_, "SELECT op_name, op_type FROM op_names WHERE id=?"},
        {&trace_, "SELECT lines FROM traces WHERE id=?"},
        {&attribute_, "SELECT name, kind, integers, reals, text FROM attributes WHERE id=? ORDER BY position"},
        {&tensors_,
         "SELECT op_id, is_input, slot, dtype, shape, max, min, avg, l2norm, count, nan_count, positive_inf_count,"
         " negative_inf_count, positive_count, negative_count, zero_count, md5, sha1, parameter, key, skipped, "
         "directory,"
         " stem, file_end, content, source, source_slot, constant, timestamp_us, flags"
         " FROM tensors WHERE op_id>=? AND op_id<? ORDER BY op_id, position"}};
    for (const auto& [statement, sql] : all) {
      Result<Statement> prepared = database_.prepare(sql);
      if (!prepared) return prepared.error();
      *statement = std::move(*prepared);
    }
    return {};
  }

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
    rank.kind = static_cast<DumpKind>(index_in(kDumpKinds, row.text(6)));
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

  static constexpr const char* kOps =
      "SELECT id, name_id, phase, flags, sequence, timestamp_us, thread, scope, parent, source_file, source_line, "
      "function, "
      "trace,"
      " attributes FROM ops WHERE id>=? AND id<? ORDER BY id";

  Status read_all_ops() {
    Result<Statement> ops = database_.prepare(kOps);
    if (!ops) return ops.error();
    for (const StepPlaceInIndex& place : places_) {
      if (place.is_asked_for)
        read_ops(*ops, place.first_op, place.end_op, catalog_.ranks[place.rank].steps[place.step]);
    }
    if (ops->failed()) return database_.error("cannot read it");
    return {};
  }

  // Ops [first, end) and their tensors.
  void read_ops(Statement& rows, std::int64_t first, std::int64_t end, CatalogStep& step) {
    const std::size_t before = step.ops.size();
    std::vector<std::int64_t> ids;
    rows.set(0, first);
    rows.set(1, end);
    while (rows.next()) {
      ids.push_back(rows.integer(0));
      step.ops.push_back(op_of(rows));
    }
    rows.reset();
    tensors_.set(0, first);
    tensors_.set(1, end);
    std::size_t at = 0;
    while (tensors_.next()) {
      const std::int64_t id = tensors_.integer(0);
      while (at < ids.size() && ids[at] < id) ++at;
      if (at < ids.size() && ids[at] == id) step.ops[before + at].tensors.push_back(tensor_of(tensors_));
    }
    tensors_.reset();
  }

  Status read_chosen_ops() {
    std::set<std::int64_t> chosen;
    Status status = choose(chosen);
    if (status && query_.with_neighbours) status = add_neighbours(chosen);
    Result<Statement> ops = database_.prepare(kOps);
    if (!ops) return ops.error();
    if (!status) return status;
    for (const StepPlaceInIndex& place : places_) {
      if (!place.is_asked_for) continue;
      CatalogStep& step = catalog_.ranks[place.rank].steps[place.step];
      auto at = chosen.lower_bound(place.first_op);
      while (at != chosen.end() && *at < place.end_op) {
        const std::int64_t first = *at;
        std::int64_t end = first;
        for (; at != chosen.end() && *at == end && end < place.end_op; ++at) ++end;
        read_ops(*ops, first, end, step);
      }
    }
    if (ops->failed()) return database_.error("cannot read it");
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
    Result<Statement> ops = database_.prepare(kOps);
    if (!ops) return ops.error();
    for (const std::size_t line : order) {
      const FirstOfName& first = found[line];
      CatalogStep& step = catalog_.ranks[first.rank].steps[first.step];
      read_ops(*ops, first.id, first.id + 1, step);
      if (!step.ops.empty()) step.ops.back().sum = first.sum;
    }
    if (ops->failed()) return database_.error("cannot read it");
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

  CatalogOp op_of(const Statement& row) {
    const auto flags = static_cast<std::uint32_t>(row.integer(3));
    CatalogOp op;
    const auto& [op_name, op_type] = name_of(row.integer(1));
    op.op_name = op_name;
    op.op_type = op_type;
    op.is_parameter = (flags & kIsParameter) != 0;
    op.failed = (flags & kHasFailed) != 0;
    op.is_module = (flags & kIsModule) != 0;
    op.phase = static_cast<Phase>(index_in(kPhases, row.text(2)));
    op.sequence = row.number(4);
    op.timestamp_us = row.number(5);
    op.thread = static_cast<std::uint16_t>(row.integer(6));
    op.scope = text_in(row, 7);
    op.parent = text_in(row, 8);
    op.source_file = text_in(row, 9);
    op.line = static_cast<std::uint32_t>(row.integer(10));
    op.function = text_in(row, 11);
    if (!row.is_null(12)) op.trace = trace_of(row.integer(12));
    if (!row.is_null(13)) op.attributes = attributes_of(row.integer(13));
    return op;
  }

  CatalogTensor tensor_of(const Statement& row) {
    const auto flags = static_cast<std::uint32_t>(row.integer(29));
    CatalogTensor tensor;
    tensor.is_input = row.integer(1) != 0;
    tensor.slot = static_cast<std::uint32_t>(row.integer(2));
    if (!row.is_null(3)) tensor.dtype = dtype_of(row.text(3));
    tensor.has_shape = (flags & kHasShape) != 0;
    if (tensor.has_shape) tensor.shape = numbers_in<std::int64_t>(row.text(4));
    if ((flags & kHasStatistics) != 0) tensor.statistics = statistics_in(row, 5, flags);
    tensor.md5 = kept_text(row, 16);
    tensor.sha1 = kept_text(row, 17);
    tensor.parameter = text_in(row, 18);
    tensor.key = text_in(row, 19);
    tensor.skipped = text_in(row, 20);
    if (!row.is_null(21)) {
      std::string& file = kept_->files.emplace_back(text_in(row, 21));
      file.append(text_in(row, 22)).append(row.text(23));
      tensor.file = file;
    }
    tensor.content = row.number(24);
    if (!row.is_null(25)) tensor.source = row.number(25);
    tensor.source_slot = static_cast<std::uint32_t>(row.integer(26));
    if ((flags & kHasConstant) != 0) {
      tensor.constant = (flags & kConstantIsNegativeZero) != 0 ? -0.0 : value_in(row, 27);
    }
    tensor.timestamp_us = row.number(28);
    tensor.wanted = (flags & kIsWanted) != 0;
    tensor.source_is_likely = (flags & kSourceIsLikely) != 0;
    return tensor;
  }

  // --- data that is stored once --------------------------------------------------------------------------------------

  std::string_view text_in(const Statement& row, int column) {
    return row.is_null(column) ? std::string_view() : text_of(row.integer(column));
  }

  std::string_view kept_text(const Statement& row, int column) {
    return row.is_null(column) ? std::string_view() : std::string_view(kept_->files.emplace_back(row.text(column)));
  }

  std::string_view text_of(std::int64_t id) {
    const auto [at, is_new] = texts_.try_emplace(id);
    if (!is_new) return at->second;
    text_.set(0, id);
    if (text_.next()) at->second = catalog_.texts->keep(text_.text(0));
    text_.reset();
    return at->second;
  }

  const std::pair<std::string_view, std::string_view>& name_of(std::int64_t id) {
    const auto [at, is_new] = names_.try_emplace(id);
    if (!is_new) return at->second;
    name_.set(0, id);
    if (name_.next()) at->second = {catalog_.texts->keep(name_.text(0)), catalog_.texts->keep(name_.text(1))};
    name_.reset();
    return at->second;
  }

  DType dtype_of(std::string_view name) {
    if (name != last_dtype_name_) {
      last_dtype_name_ = name;
      last_dtype_ = dtype_from_name(name);
    }
    return last_dtype_;
  }

  const std::vector<SourceLine>* trace_of(std::int64_t id) {
    const auto [at, is_new] = traces_.try_emplace(id, nullptr);
    if (!is_new) return at->second;
    trace_.set(0, id);
    if (trace_.next()) {
      const std::vector<std::int64_t> numbers = numbers_in<std::int64_t>(trace_.text(0));
      std::vector<SourceLine>& trace = kept_->traces.emplace_back();
      for (std::size_t i = 0; i + 6 <= numbers.size(); i += 6) {
        const auto number = [&](std::size_t part) { return static_cast<std::uint32_t>(numbers[i + part]); };
        trace.push_back({std::string(text_of(numbers[i])), std::string(text_of(numbers[i + 1])), number(2), number(3),
                         number(4), number(5)});
      }
      at->second = &trace;
    }
    trace_.reset();
    return at->second;
  }

  const std::vector<Attribute>* attributes_of(std::int64_t id) {
    const auto [at, is_new] = attribute_sets_.try_emplace(id, nullptr);
    if (!is_new) return at->second;
    std::vector<Attribute>& attributes = kept_->attributes.emplace_back();
    attribute_.set(0, id);
    while (attribute_.next()) {
      Attribute& attribute = attributes.emplace_back();
      attribute.name = attribute_.text(0);
      attribute.kind = static_cast<AttributeKind>(attribute_.integer(1));
      attribute.integers = numbers_in<std::int64_t>(attribute_.text(2));
      attribute.reals = numbers_in<double>(attribute_.text(3));
      attribute.text = attribute_.text(4);
    }
    attribute_.reset();
    at->second = &attributes;
    return at->second;
  }

  Database& database_;
  const CatalogQuery& query_;
  Catalog catalog_;
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
  std::vector<StepPlaceInIndex> places_;  // in the order of the steps' ids
  bool any_asked_for_ = false;
  Statement text_, name_, trace_, attribute_, tensors_;
  std::string last_dtype_name_;
  DType last_dtype_ = DType::undefined;
  std::unordered_map<std::int64_t, std::string_view> texts_;
  std::unordered_map<std::int64_t, std::pair<std::string_view, std::string_view>> names_;
  std::unordered_map<std::int64_t, const std::vector<SourceLine>*> traces_;
  std::unordered_map<std::int64_t, const std::vector<Attribute>*> attribute_sets_;
};

// The first column of the first row.
std::optional<std::string> value_of(Database& database, const char* sql) {
  Result<Statement> rows = database.prepare(sql);
  if (!rows || !rows->next()) return std::nullopt;
  return std::string(rows->text(0));
}

}  // namespace

KnownStatistics statistics_in(const Statement& row, int first, std::uint32_t flags) {
  KnownStatistics s;
  std::uint32_t bit = 0;
  for (std::optional<double>* value : {&s.max, &s.min, &s.avg, &s.l2norm}) {
    const bool is_negative_zero = (flags & (kFirstNegativeZero << bit)) != 0;
    if ((flags & (kFirstKnown << bit)) != 0) {
      *value = is_negative_zero ? -0.0 : value_in(row, first + static_cast<int>(bit));
    }
    ++bit;
  }
  int column = first + 4;
  for (std::optional<std::uint64_t>* count : {&s.count, &s.nan_count, &s.positive_inf_count, &s.negative_inf_count,
                                              &s.positive_count, &s.negative_count, &s.zero_count}) {
    if (!row.is_null(column)) *count = row.number(column);
    ++column;
  }
  return s;
}

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
