#include "read/index/index_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <future>
#include <system_error>
#include <unordered_map>

#include "contract/names.h"
#include "contract/tables.h"
#include "dump/graph/host_graph.h"
#include "read/catalog/replicas.h"
#include "read/index/index_schema.h"
#include "read/index/index_sums.h"
#include "read/index/sealed_file.h"
#include "read/index/sqlite.h"
#include "read/measure/health.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFast =
    "PRAGMA page_size=16384; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;"
    "PRAGMA cache_size=-65536; PRAGMA temp_store=MEMORY;";

// The path of a file in the dump, in parts: many paths begin alike.
struct FilePath {
  std::string_view directory;  // with its `/`
  std::string_view stem;       // up to the first dot before a digit, the ids and the time
  std::string_view end;
};

FilePath split_path(std::string_view file) {
  FilePath path;
  const std::size_t slash = file.rfind('/');
  path.directory = file.substr(0, slash == std::string_view::npos ? 0 : slash + 1);
  const std::string_view name = file.substr(path.directory.size());
  std::size_t dot = name.find('.');
  while (dot != std::string_view::npos && !(dot + 1 < name.size() && name[dot + 1] >= '0' && name[dot + 1] <= '9')) {
    dot = name.find('.', dot + 1);
  }
  path.stem = name.substr(0, dot);
  path.end = name.substr(path.stem.size());
  return path;
}

std::string text_of(std::span<const std::int64_t> shape) { return fmt::format("({})", fmt::join(shape, ",")); }

bool is_negative_zero(double value) { return value == 0 && std::signbit(value); }

class Writer {
 public:
  Writer(Database database, const StepsWritten& step_written)
      : database_(std::move(database)), step_written_(step_written) {}

  Status write(const Catalog& catalog, const fs::path& root, const TreeSnapshot& snapshot) {
    if (Status status = begin(); !status) return status;
    std::vector<const char*> later;
    Status status = make_empty_lookups(catalog, later);
    if (status) status = prepare();
    if (!status) return status;
    for (const CatalogRank& rank : catalog.ranks) all_steps_ += rank.steps.size();
    // Looks at every file while the ops are written.
    std::future<std::vector<std::vector<StepFacts>>> facts =
        std::async(std::launch::async | std::launch::deferred, [&] { return step_facts(catalog); });
    bool written = write_meta(root, snapshot);
    for (const CatalogProblem& problem : catalog.problems) {
      written &= write_row(problem_, tables::Problems{problem.path.native(), problem.message, problem.is_lost});
    }
    for (std::size_t i = 0; written && i < catalog.ranks.size(); ++i) written = write_rank(catalog.ranks[i], i);
    const std::vector<std::vector<StepFacts>> of_steps = facts.get();
    for (std::size_t i = 0; written && i < catalog.ranks.size(); ++i) {
      written = write_steps(catalog.ranks[i], i, of_steps[i]);
    }
    if (!written) return database_.error("cannot write it");
    status = database_.execute("COMMIT; BEGIN;");
    if (status) status = database_.execute(index_lookups().c_str());
    for (const char* const sql : later) {
      if (status) status = database_.execute(sql);
    }
    if (status) status = database_.execute("PRAGMA analysis_limit=400; ANALYZE; COMMIT;");
    return status;
  }

  Database& database() { return database_; }

  // The tables of a dump that grows: first this, then write_steps_of for what is over; write_rest replaces what it wrote
  // the last time.
  Status begin_growing(const fs::path& root) {
    owns_texts_ = true;
    Status status = begin();
    if (status) status = prepare();
    if (status && !write_meta(root, {})) status = database_.error("cannot write it");
    return status ? database_.execute("COMMIT") : status;
  }

  Status write_steps_of(const CatalogRank& rank, std::size_t id) {
    if (Status status = forget_rest(); !status) return status;
    const bool written = write_growing(rank, id, counter_);
    Status status = written ? Status() : database_.error("cannot write it");
    if (status) status = database_.execute("COMMIT");
    over_ = {next_step_, next_op_};
    return status;
  }

  Status write_rest(const Catalog& catalog) {
    if (Status status = forget_rest(); !status) return status;
    bool written = true;
    for (const CatalogProblem& problem : catalog.problems) {
      written &= write_row(problem_, tables::Problems{problem.path.native(), problem.message, problem.is_lost});
    }
    for (std::size_t i = 0; written && i < catalog.ranks.size(); ++i) {
      StepCounter counter;
      written = write_frame(catalog.ranks[i], i) && write_growing(catalog.ranks[i], i, counter);
    }
    if (!written) return database_.error("cannot write it");
    Status status = database_.execute("COMMIT");
    if (status && !has_lookups_) status = database_.execute(index_lookups().c_str());
    for (const PartialLookup& lookup : kPartialLookups) {
      if (status && !has_lookups_) status = database_.execute(lookup.sql);
    }
    has_lookups_ = has_lookups_ || status;
    return status;
  }

  std::uint64_t ops_over() const { return over_.ops; }

 private:
  struct Over {
    std::uint64_t steps = 0, ops = 0;
  };

  // Begins a transaction.
  Status forget_rest() {
    last_directory_ = last_stem_ = {};
    next_step_ = step_row_ = over_.steps;
    next_op_ = first_op_ = over_.ops;
    const std::string sql = fmt::format(
        "BEGIN; DELETE FROM problems; DELETE FROM ranks; DELETE FROM runs; DELETE FROM notes;"
        "DELETE FROM requests WHERE step_id>={}; DELETE FROM steps WHERE id>={}; DELETE FROM ops WHERE id>={}; DELETE "
        "FROM tensors WHERE op_id>={}",
        over_.steps, over_.steps, over_.ops, over_.ops);
    return database_.execute(sql.c_str());
  }

  bool write_growing(const CatalogRank& rank, std::size_t id, StepCounter& counter) {
    bool written = true;
    for (const CatalogStep& step : rank.steps) {
      for (const CatalogOp& op : step.ops) written = written && write_op(op, next_step_);
      ++next_step_;
      written = written && write_step(step, id, {counter.count(rank, step.ops), health_of(step)});
      last_directory_ = {};  // it is the step's
    }
    return written;
  }

  Status begin() {
    Status status = database_.execute(kFast);
    if (status) {
      status = database_.execute(
          fmt::format("PRAGMA application_id={}; PRAGMA user_version={};", kIndexApplication, kIndexVersion).c_str());
    }
    if (status) status = database_.execute("BEGIN");
    return status ? database_.execute(index_tables().c_str()) : status;
  }

  // Those that will have rows are `later`.
  Status make_empty_lookups(const Catalog& catalog, std::vector<const char*>& later) {
    std::array<bool, kPartialLookups.size()> has{};
    for (const CatalogRank& rank : catalog.ranks) {
      for (const CatalogStep& step : rank.steps) {
        for (const CatalogOp& op : step.ops) {
          for (std::size_t i = 0; i < has.size(); ++i) {
            has[i] = has[i] || std::ranges::any_of(op.tensors, kPartialLookups[i].has);
          }
        }
      }
    }
    Status status;
    for (std::size_t i = 0; status && i < has.size(); ++i) {
      if (has[i]) {
        later.push_back(kPartialLookups[i].sql);
      } else {
        status = database_.execute(kPartialLookups[i].sql);
      }
    }
    return status;
  }

  Status prepare() {
    const std::pair<Statement*, std::string> all[] = {
        {&meta_, "INSERT INTO meta VALUES(?,?)"},         {&source_, insert_text<tables::Sources>()},
        {&problem_, insert_text<tables::Problems>()},     {&text_, insert_text<tables::Texts>()},
        {&op_name_, insert_text<tables::OpNames>()},      {&trace_, insert_text<tables::Traces>()},
        {&attribute_, insert_text<tables::Attributes>()}, {&source_line_, insert_text<tables::SourceLines>()},
        {&rank_, insert_text<tables::Ranks>()},           {&run_, insert_text<tables::Runs>()},
        {&note_, insert_text<tables::Notes>()},           {&step_, insert_text<tables::Steps>()},
        {&request_, insert_text<tables::Requests>()},     {&op_, insert_text<tables::Ops>()},
        {&tensor_, insert_text<tables::Tensors>()},
    };
    for (const auto& [statement, sql] : all) {
      Result<Statement> prepared = database_.prepare(sql.c_str());
      if (!prepared) return prepared.error();
      *statement = std::move(*prepared);
    }
    return {};
  }

  template <typename Value>
  bool write_fact(std::string_view key, const Value& value) {
    meta_.set(0, key);
    meta_.set(1, value);
    return meta_.run();
  }

  bool write_meta(const fs::path& root, const TreeSnapshot& snapshot) {
    bool written = write_fact("dump", std::string_view(root.native()));
    written &= write_fact(names::sonde_version, std::string_view(SONDE_VERSION));
    written &= write_fact("files", std::uint64_t{snapshot.files});
    for (const SourceState& source : snapshot.sources) {
      written &= write_row(source_, tables::Sources{.path = source.path,
                                                    .kind = static_cast<std::uint32_t>(source.kind),
                                                    .inode = source.inode,
                                                    .size = source.size,
                                                    .mtime_ns = source.mtime_ns,
                                                    .ctime_ns = source.ctime_ns});
    }
    return written;
  }

  bool write_frame(const CatalogRank& rank, std::size_t id) {
    bool written = write_row(rank_, tables::Ranks{.id = id,
                                                  .rank = rank.rank,
                                                  .directory = rank.directory.native(),
                                                  .metadata = rank.metadata.native(),
                                                  .has_journal = rank.has_journal,
                                                  .has_host_data_flow = rank.has_host_data_flow,
                                                  .kind = Words<DumpKind>::list[static_cast<std::size_t>(rank.kind)],
                                                  .dump = rank.dump});
    for (std::size_t i = 0; i < rank.runs.size(); ++i) written &= write_run(rank.runs[i], id, i);
    for (const std::shared_ptr<const HostGraph>& graph : rank.host_graphs) {
      for (const auto& [file, lines] : graph->lines) {
        for (const auto& [number, text] : lines) {
          written &= write_row(source_line_, tables::SourceLines{id, file, number, text});
        }
      }
    }
    return written;
  }

  bool write_rank(const CatalogRank& rank, std::size_t id) {
    bool written = write_frame(rank, id);
    for (std::size_t step = 0; written && step < rank.steps.size(); ++step, ++next_step_) {
      const std::vector<CatalogOp>& ops = rank.steps[step].ops;
      for (std::size_t i = 0; written && i < ops.size(); ++i) written = write_op(ops[i], next_step_);
      if (step_written_) step_written_(next_step_ + 1, all_steps_);
    }
    return written;
  }

  // After all ranks: their ops have the ids that are counted here again.
  bool write_steps(const CatalogRank& rank, std::size_t id, const std::vector<StepFacts>& facts) {
    bool written = true;
    for (std::size_t i = 0; written && i < rank.steps.size(); ++i) written = write_step(rank.steps[i], id, facts[i]);
    return written;
  }

  bool write_run(const CatalogRun& run, std::size_t rank_id, std::size_t number) {
    bool written = write_row(run_, tables::Runs{.rank_id = rank_id,
                                                .run = number,
                                                .finished = run.finished,
                                                .sonde_version = run.sonde_version,
                                                .world_size = run.world_size,
                                                .host = run.host,
                                                .command = run.command,
                                                .layout = run.layout,
                                                .saved_data = run.saved_data,
                                                .net_name = run.net_name,
                                                .error = run.error,
                                                .pid = run.pid,
                                                .started_us = run.started_us,
                                                .ended_us = run.ended_us,
                                                .bytes_read = run.bytes_read,
                                                .bytes_written = run.bytes_written,
                                                .only_overflows = run.settings.only_overflows,
                                                .overflow_number = run.settings.overflow_number,
                                                .only_exceptions = run.settings.only_exceptions,
                                                .inputs_after = run.settings.inputs_after,
                                                .reread = run.settings.reread});
    for (const std::string& note : run.notes) written &= write_row(note_, tables::Notes{rank_id, number, note});
    return written;
  }

  bool write_step(const CatalogStep& step, std::size_t rank_id, const StepFacts& facts) {
    const StepSum& sum = facts.sum;
    const std::uint64_t first_op = first_op_;
    first_op_ += step.ops.size();
    for (const StepRequest& one : step.requests) {
      const tables::Requests row{step_row_, one.request, one.row, one.rows, one.position};
      if (!write_row(request_, row)) return false;
    }
    return write_row(step_, tables::Steps{.id = step_row_++,
                                          .rank_id = rank_id,
                                          .run = step.run,
                                          .graph = step.id.graph,
                                          .step = step.id.number,
                                          .started_us = step.started_us,
                                          .ended_us = step.ended_us,
                                          .ended = step.ended,
                                          .directory = step.directory,
                                          .first_op = static_cast<std::int64_t>(first_op),
                                          .end_op = static_cast<std::int64_t>(first_op_),
                                          .ops = sum.ops,
                                          .parameters = sum.parameters,
                                          .tensors = sum.tensors,
                                          .files = sum.files,
                                          .bytes = sum.bytes,
                                          .new_bytes = sum.new_bytes,
                                          .is_mended = step.is_mended,
                                          .known = facts.health.known,
                                          .not_recorded = facts.health.not_recorded,
                                          .is_fine = facts.health.is_fine});
  }

  bool write_op(const CatalogOp& op, std::uint64_t step_id) {
    const std::uint64_t id = next_op_++;
    const std::uint32_t flags =
        (op.is_parameter ? kIsParameter : 0U) | (op.failed ? kHasFailed : 0U) | (op.is_module ? kIsModule : 0U);
    const auto recorded = std::ranges::count_if(op.tensors, &CatalogTensor::recorded);
    // In this order the texts get their numbers.
    tables::Ops row{.id = id, .step_id = step_id, .name_id = name_id(op)};
    row.phase = word_of(op.phase);
    row.flags = flags;
    row.sequence = op.sequence;
    row.timestamp_us = op.timestamp_us;
    row.thread = op.thread;
    if (op.call_number != 0) row.call_number = op.call_number;
    row.scope = known_text(op.scope);
    row.parent = known_text(op.parent);
    row.source_file = known_text(op.source_file);
    row.source_line = op.line;
    row.function = known_text(op.function);
    if (op.trace != nullptr) row.trace = trace_id(op.trace);
    if (op.attributes != nullptr) row.attributes = attributes_id(op.attributes);
    row.recorded = static_cast<std::uint64_t>(recorded);
    bool written = write_row(op_, row);
    for (std::size_t i = 0; written && i < op.tensors.size(); ++i) written = write_tensor(op.tensors[i], id, i);
    return written && !failed_;
  }

  static std::uint32_t flags_of(const CatalogTensor& tensor) {
    std::uint32_t flags = (tensor.wanted ? kIsWanted : 0U) | (tensor.has_shape ? kHasShape : 0U) |
                          (tensor.source_is_likely ? kSourceIsLikely : 0U);
    if (tensor.constant) flags |= kHasConstant | (is_negative_zero(*tensor.constant) ? kConstantIsNegativeZero : 0U);
    if (!tensor.statistics) return flags;
    flags |= kHasStatistics;
    const KnownStatistics& s = *tensor.statistics;
    std::uint32_t bit = 0;
    for_each_statistic(s, [&]<typename Value>(std::string_view, const std::optional<Value>& value) {
      if constexpr (std::is_floating_point_v<Value>) {
        if (value && is_negative_zero(*value)) flags |= kFirstNegativeZero << bit;
        if (value) flags |= kFirstKnown << bit;
        ++bit;
      }
    });
    return flags;
  }

  bool write_tensor(const CatalogTensor& tensor, std::uint64_t op_id, std::size_t position) {
    // The file of a copy is another rank's: each reader looks for it.
    const FilePath file = is_elsewhere(tensor) ? FilePath() : split_path(tensor.file);
    tables::Tensors row{.op_id = op_id, .position = position, .is_input = tensor.is_input, .slot = tensor.slot};
    row.parameter = known_text(tensor.parameter);
    row.key = known_text(tensor.key);
    row.placement = known_text(tensor.placement);
    row.skipped = known_text(tensor.skipped);
    if (file.directory != last_directory_ || !last_directory_.data()) {
      last_directory_ = file.directory;
      last_directory_id_ = text_id(file.directory);
    }
    if (file.stem != last_stem_ || !last_stem_.data()) {
      last_stem_ = file.stem;
      last_stem_id_ = text_id(file.stem);
    }
    if (tensor.has_shape && (shape_.empty() || !std::ranges::equal(tensor.shape, last_shape_))) {
      last_shape_.assign(tensor.shape.begin(), tensor.shape.end());
      shape_ = text_of(tensor.shape);
    }
    if (tensor.dtype != DType::undefined) row.dtype = info(tensor.dtype).lower;
    if (tensor.has_shape) row.shape = shape_;
    row.statistics = tensor.statistics;
    if (!tensor.md5.empty()) row.md5 = tensor.md5;
    if (!tensor.sha1.empty()) row.sha1 = tensor.sha1;
    if (!tensor.file.empty() && !is_elsewhere(tensor)) {
      row.directory = last_directory_id_;
      row.stem = last_stem_id_;
      row.file_end = file.end;
    }
    if (tensor.content != 0) row.content = tensor.content;
    const bool has_source = tensor.source != kNoSequence;
    if (has_source) row.source = tensor.source;
    if (has_source || tensor.source_slot != 0) row.source_slot = tensor.source_slot;
    row.constant = tensor.constant;
    row.timestamp_us = tensor.timestamp_us;
    row.flags = flags_of(tensor);
    return write_row(tensor_, row);
  }

  // The numbers of values that are stored once; a value is written at its first use.
  std::uint64_t text_id(std::string_view text) {
    if (const auto known = texts_.find(text); known != texts_.end()) return known->second;
    const std::uint64_t id = texts_.size();
    texts_.emplace(owns_texts_ ? own_texts_.keep_unique(text) : text, id);
    failed_ |= !write_row(text_, tables::Texts{id, text});
    return id;
  }

  // Empty texts are null in the tables.
  std::optional<std::uint64_t> known_text(std::string_view text) {
    return text.empty() ? std::nullopt : std::optional(text_id(text));
  }

  std::uint64_t name_id(const CatalogOp& op) {
    const auto [at, is_new] = names_.try_emplace({text_id(op.op_name), text_id(op.op_type)}, names_.size());
    if (is_new) failed_ |= !write_row(op_name_, tables::OpNames{at->second, op.op_name, op.op_type});
    return at->second;
  }

  std::uint64_t trace_id(const std::vector<SourceLine>* trace) {
    const auto [at, is_new] = traces_.try_emplace(trace, traces_.size());
    if (!is_new) return at->second;
    std::string lines;
    for (const SourceLine& line : *trace) {
      lines += fmt::format("{}[{},{},{},{},{},{}]", lines.empty() ? "" : ",", text_id(line.file),
                           text_id(line.function), line.line, line.column, line.end_line, line.end_column);
    }
    lines = "[" + lines + "]";
    failed_ |= !write_row(trace_, tables::Traces{at->second, lines});
    return at->second;
  }

  std::uint64_t attributes_id(const std::vector<Attribute>* attributes) {
    const auto [at, is_new] = attribute_sets_.try_emplace(attributes, attribute_sets_.size());
    if (!is_new) return at->second;
    std::size_t position = 0;
    for (const Attribute& attribute : *attributes) {
      const std::string integers = fmt::format("{}", fmt::join(attribute.integers, ","));
      const std::string reals =
          fmt::format("{}", fmt::join(attribute.reals, ","));  // the shortest text that gives the same number
      failed_ |= !write_row(attribute_, tables::Attributes{.id = at->second,
                                                           .position = position++,
                                                           .name = attribute.name,
                                                           .kind = static_cast<std::uint32_t>(attribute.kind),
                                                           .integers = integers,
                                                           .reals = reals,
                                                           .text = attribute.text});
    }
    return at->second;
  }

  struct PairHash {
    std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& pair) const {
      return pair.first * 0x9E3779B97F4A7C15ULL + pair.second;
    }
  };

  Database database_;
  const StepsWritten& step_written_;
  std::uint64_t all_steps_ = 0;
  Statement meta_, source_, problem_, text_, op_name_, trace_, attribute_, source_line_, rank_, run_, note_, step_,
      request_, op_, tensor_;
  bool failed_ = false;
  bool owns_texts_ = false, has_lookups_ = false;  // of a dump that grows
  TextPool own_texts_;
  StepCounter counter_;
  Over over_;
  std::vector<std::int64_t> last_shape_;
  std::string shape_;                          // as text
  std::uint64_t next_step_ = 0, next_op_ = 0;  // of the next op that is written
  std::uint64_t step_row_ = 0, first_op_ = 0;  // of the next step that is written
  std::string_view last_directory_;
  std::uint64_t last_directory_id_ = 0;
  std::string_view last_stem_;
  std::uint64_t last_stem_id_ = 0;
  std::unordered_map<std::string_view, std::uint64_t> texts_;
  std::unordered_map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t, PairHash> names_;
  std::unordered_map<const std::vector<SourceLine>*, std::uint64_t> traces_;
  std::unordered_map<const std::vector<Attribute>*, std::uint64_t> attribute_sets_;
};

const StepsWritten kNoProgress;

Status write_file(const Catalog& catalog, const fs::path& root, const TreeSnapshot& snapshot, const fs::path& file,
                  const StepsWritten& written) {
  Result<Database> database = Database::create(file);
  if (!database) return database.error();
  // Closed before it is sealed.
  if (Status status = Writer(std::move(*database), written).write(catalog, root, snapshot); !status) return status;
  return seal_index(file);
}

}  // namespace

struct GrowingTables::State {
  explicit State(Database database) : writer(std::move(database), kNoProgress) {}
  Writer writer;
};

GrowingTables::GrowingTables(std::unique_ptr<State> state) : state_(std::move(state)) {}
GrowingTables::GrowingTables(GrowingTables&&) noexcept = default;
GrowingTables& GrowingTables::operator=(GrowingTables&&) noexcept = default;
GrowingTables::~GrowingTables() = default;

Result<GrowingTables> GrowingTables::create(const fs::path& root) {
  Result<Database> database = Database::create_in_memory();
  if (!database) return database.error();
  auto state = std::make_unique<State>(std::move(*database));
  if (Status status = state->writer.begin_growing(root); !status) return status.error();
  return GrowingTables(std::move(state));
}

Status GrowingTables::add(const CatalogRank& over, std::size_t rank) {
  return state_->writer.write_steps_of(over, rank);
}
Status GrowingTables::set_rest(const Catalog& rest) { return state_->writer.write_rest(rest); }
std::uint64_t GrowingTables::ops_over() const { return state_->writer.ops_over(); }
Database& GrowingTables::database() { return state_->writer.database(); }

Result<Database> make_index(const Catalog& catalog, const fs::path& root, const TreeSnapshot& snapshot,
                            const StepsWritten& written) {
  Result<Database> database = Database::create_in_memory();
  if (!database) return database.error();
  Writer writer(std::move(*database), written);
  if (Status status = writer.write(catalog, root, snapshot); !status) return status.error();
  return std::move(writer.database());
}

Status write_index(const Catalog& catalog, const fs::path& root, const TreeSnapshot& snapshot, const fs::path& file,
                   const StepsWritten& written) {
  Status status = write_file(catalog, root, snapshot, file, written);
  std::error_code ignored;
  if (!status) fs::remove(file, ignored);
  return status;
}

}  // namespace sonde
