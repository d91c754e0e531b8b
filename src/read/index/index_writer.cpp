#include "read/index/index_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <future>
#include <system_error>
#include <unordered_map>

#include "dump/graph/host_graph.h"
#include "read/index/index_schema.h"
#include "read/index/index_sums.h"
#include "read/index/row.h"
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

FilePath split(std::string_view file) {
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
      written &= Row(problem_).add(problem.path.native()).add(problem.message).add(problem.is_lost).run();
    }
    for (std::size_t i = 0; written && i < catalog.ranks.size(); ++i) written = write_rank(catalog.ranks[i], i);
    const std::vector<std::vector<StepFacts>> of_steps = facts.get();
    for (std::size_t i = 0; written && i < catalog.ranks.size(); ++i) {
      written = write_steps(catalog.ranks[i], i, of_steps[i]);
    }
    if (!written) return database_.error("cannot write it");
    status = database_.execute("COMMIT; BEGIN;");
    if (status) status = database_.execute(kIndexLookups);
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
      written &= Row(problem_).add(problem.path.native()).add(problem.message).add(problem.is_lost).run();
    }
    for (std::size_t i = 0; written && i < catalog.ranks.size(); ++i) {
      StepCounter counter;
      written = write_frame(catalog.ranks[i], i) && write_growing(catalog.ranks[i], i, counter);
    }
    if (!written) return database_.error("cannot write it");
    Status status = database_.execute("COMMIT");
    if (status && !has_lookups_) status = database_.execute(kIndexLookups);
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
        "DELETE FROM steps WHERE id>={}; DELETE FROM ops WHERE id>={}; DELETE FROM tensors WHERE op_id>={}",
        over_.steps, over_.ops, over_.ops);
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
    return status ? database_.execute(kIndexTables) : status;
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
    const std::pair<Statement*, const char*> all[] = {
        {&meta_, "INSERT INTO meta VALUES(?,?)"},
        {&source_, "INSERT INTO sources VALUES(?,?,?,?,?,?)"},
        {&problem_, "INSERT INTO problems VALUES(?,?,?)"},
        {&text_, "INSERT INTO texts VALUES(?,?)"},
        {&op_name_, "INSERT INTO op_names VALUES(?,?,?)"},
        {&trace_, "INSERT INTO traces VALUES(?,?)"},
        {&attribute_, "INSERT INTO attributes VALUES(?,?,?,?,?,?,?)"},
        {&source_line_, "INSERT INTO source_lines VALUES(?,?,?,?)"},
        {&rank_, "INSERT INTO ranks VALUES(?,?,?,?,?,?,?,?)"},
        {&run_, "INSERT INTO runs VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"},
        {&note_, "INSERT INTO notes VALUES(?,?,?)"},
        {&step_, "INSERT INTO steps VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"},
        {&op_, "INSERT INTO ops VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"},
        {&tensor_, "INSERT INTO tensors VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"},
    };
    for (const auto& [statement, sql] : all) {
      Result<Statement> prepared = database_.prepare(sql);
      if (!prepared) return prepared.error();
      *statement = std::move(*prepared);
    }
    return {};
  }

  bool write_meta(const fs::path& root, const TreeSnapshot& snapshot) {
    bool written = Row(meta_).add("dump").add(root.native()).run();
    written &= Row(meta_).add("sonde_version").add(SONDE_VERSION).run();
    written &= Row(meta_).add("files").add(snapshot.files).run();
    for (const SourceState& source : snapshot.sources) {
      written &= Row(source_)
                     .add(source.path)
                     .add(static_cast<int>(source.kind))
                     .add(source.inode)
                     .add(source.size)
                     .add(source.mtime_ns)
                     .add(source.ctime_ns)
                     .run();
    }
    return written;
  }

  bool write_frame(const CatalogRank& rank, std::size_t id) {
    bool written = Row(rank_)
                       .add(id)
                       .add(rank.rank)
                       .add(rank.directory.native())
                       .add(rank.metadata.native())
                       .add(rank.has_journal)
                       .add(rank.has_host_data_flow)
                       .add(kDumpKinds.at(static_cast<std::size_t>(rank.kind)))
                       .add(rank.dump)
                       .run();
    for (std::size_t i = 0; i < rank.runs.size(); ++i) written &= write_run(rank.runs[i], id, i);
    for (const std::shared_ptr<const HostGraph>& graph : rank.host_graphs) {
      for (const auto& [file, lines] : graph->lines) {
        for (const auto& [number, text] : lines) {
          written &= Row(source_line_).add(id).add(file).add(number).add(text).run();
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
    bool written = Row(run_)
                       .add(rank_id)
                       .add(number)
                       .add(run.finished)
                       .add(run.host)
                       .add(run.command)
                       .add(run.layout)
                       .add(run.saved_data)
                       .add(run.net_name)
                       .add(run.error)
                       .add(run.pid)
                       .add(run.started_us)
                       .add(run.ended_us)
                       .add(run.bytes_read)
                       .add(run.bytes_written)
                       .add(run.settings.only_overflows)
                       .add(run.settings.only_exceptions)
                       .add(run.settings.inputs_after)
                       .add(run.settings.reread)
                       .run();
    for (const std::string& note : run.notes) written &= Row(note_).add(rank_id).add(number).add(note).run();
    return written;
  }

  bool write_step(const CatalogStep& step, std::size_t rank_id, const StepFacts& facts) {
    const StepSum& sum = facts.sum;
    const std::uint64_t first_op = first_op_;
    first_op_ += step.ops.size();
    return Row(step_)
        .add(step_row_++)
        .add(rank_id)
        .add(step.run)
        .add(step.id.graph)
        .add(step.id.number)
        .add(step.started_us)
        .add(step.ended_us)
        .add(step.ended)
        .add(step.directory)
        .add(first_op)
        .add(first_op_)
        .add(sum.ops)
        .add(sum.parameters)
        .add(sum.tensors)
        .add(sum.files)
        .add(sum.bytes)
        .add(sum.new_bytes)
        .add(step.is_mended)
        .add(facts.health.known)
        .add(facts.health.not_recorded)
        .add(facts.health.is_fine)
        .run();
  }

  bool write_op(const CatalogOp& op, std::uint64_t step_id) {
    const std::uint64_t id = next_op_++;
    const std::uint32_t flags =
        (op.is_parameter ? kIsParameter : 0U) | (op.failed ? kHasFailed : 0U) | (op.is_module ? kIsModule : 0U);
    const std::uint64_t name = name_id(op);
    const std::optional<std::uint64_t> scope = known_text(op.scope), parent = known_text(op.parent);
    const std::optional<std::uint64_t> file = known_text(op.source_file), function = known_text(op.function);
    const std::uint64_t trace = trace_id(op.trace), attributes = attributes_id(op.attributes);
    bool written = Row(op_)
                       .add(id)
                       .add(step_id)
                       .add(name)
                       .add(kPhases.at(static_cast<std::size_t>(op.phase)))
                       .add(flags)
                       .add(op.sequence)
                       .add(op.timestamp_us)
                       .add(op.thread)
                       .add_known(scope)
                       .add_known(parent)
                       .add_known(file)
                       .add(op.line)
                       .add_known(function)
                       .add_unless(op.trace == nullptr, trace)
                       .add_unless(op.attributes == nullptr, attributes)
                       .add(std::ranges::count_if(op.tensors, &CatalogTensor::recorded))
                       .run();
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
    const std::optional<double>* const values[] = {&s.max, &s.min, &s.avg, &s.l2norm};
    std::uint32_t bit = 0;
    for (const std::optional<double>* value : values) {
      if (*value && is_negative_zero(**value)) flags |= kFirstNegativeZero << bit;
      if (*value) flags |= kFirstKnown << bit;
      ++bit;
    }
    return flags;
  }

  bool write_tensor(const CatalogTensor& tensor, std::uint64_t op_id, std::size_t position) {
    const KnownStatistics s = tensor.statistics.value_or(KnownStatistics());
    const FilePath file = split(tensor.file);
    const bool no_file = tensor.file.empty();
    const std::optional<std::uint64_t> name = known_text(tensor.parameter), key = known_text(tensor.key);
    const std::optional<std::uint64_t> skipped = known_text(tensor.skipped);
    if (file.directory != last_directory_ || !last_directory_.data()) {
      last_directory_ = file.directory;
      last_directory_id_ = text_id(file.directory);
    }
    if (file.stem != last_stem_ || !last_stem_.data()) {
      last_stem_ = file.stem;
      last_stem_id_ = text_id(file.stem);
    }
    const std::uint64_t directory = last_directory_id_, stem = last_stem_id_;
    if (tensor.has_shape && (shape_.empty() || !std::ranges::equal(tensor.shape, last_shape_))) {
      last_shape_.assign(tensor.shape.begin(), tensor.shape.end());
      shape_ = text_of(tensor.shape);
    }
    return Row(tensor_)
        .add(op_id)
        .add(position)
        .add(tensor.is_input)
        .add(tensor.slot)
        .add_unless(tensor.dtype == DType::undefined, info(tensor.dtype).lower)
        .add_unless(!tensor.has_shape, shape_)
        .add_known(s.max)
        .add_known(s.min)
        .add_known(s.avg)
        .add_known(s.l2norm)
        .add_known(s.count)
        .add_known(s.nan_count)
        .add_known(s.positive_inf_count)
        .add_known(s.negative_inf_count)
        .add_known(s.positive_count)
        .add_known(s.negative_count)
        .add_known(s.zero_count)
        .add_unless(tensor.md5.empty(), tensor.md5)
        .add_unless(tensor.sha1.empty(), tensor.sha1)
        .add_known(name)
        .add_known(key)
        .add_known(skipped)
        .add_unless(no_file, directory)
        .add_unless(no_file, stem)
        .add_unless(no_file, file.end)
        .add_unless(tensor.content == 0, tensor.content)
        .add_unless(tensor.source == kNoSequence, tensor.source)
        .add_unless(tensor.source == kNoSequence && tensor.source_slot == 0, tensor.source_slot)
        .add_known(tensor.constant)
        .add(tensor.timestamp_us)
        .add(flags_of(tensor))
        .run();
  }

  // The numbers of values that are stored once; a value is written at its first use.
  std::uint64_t text_id(std::string_view text) {
    if (const auto known = texts_.find(text); known != texts_.end()) return known->second;
    const std::uint64_t id = texts_.size();
    texts_.emplace(owns_texts_ ? own_texts_.keep_unique(text) : text, id);
    failed_ |= !Row(text_).add(id).add(text).run();
    return id;
  }

  // Empty texts are null in the tables.
  std::optional<std::uint64_t> known_text(std::string_view text) {
    return text.empty() ? std::nullopt : std::optional(text_id(text));
  }

  std::uint64_t name_id(const CatalogOp& op) {
    const auto [at, is_new] = names_.try_emplace({text_id(op.op_name), text_id(op.op_type)}, names_.size());
    if (is_new) failed_ |= !Row(op_name_).add(at->second).add(op.op_name).add(op.op_type).run();
    return at->second;
  }

  std::uint64_t trace_id(const std::vector<SourceLine>* trace) {
    if (trace == nullptr) return 0;
    const auto [at, is_new] = traces_.try_emplace(trace, traces_.size());
    if (!is_new) return at->second;
    std::string lines;
    for (const SourceLine& line : *trace) {
      lines += fmt::format("{}[{},{},{},{},{},{}]", lines.empty() ? "" : ",", text_id(line.file),
                           text_id(line.function), line.line, line.column, line.end_line, line.end_column);
    }
    lines = "[" + lines + "]";
    failed_ |= !Row(trace_).add(at->second).add(lines).run();
    return at->second;
  }

  std::uint64_t attributes_id(const std::vector<Attribute>* attributes) {
    if (attributes == nullptr) return 0;
    const auto [at, is_new] = attribute_sets_.try_emplace(attributes, attribute_sets_.size());
    if (!is_new) return at->second;
    std::size_t position = 0;
    for (const Attribute& attribute : *attributes) {
      const std::string integers = fmt::format("{}", fmt::join(attribute.integers, ","));
      const std::string reals =
          fmt::format("{}", fmt::join(attribute.reals, ","));  // the shortest text that gives the same number
      failed_ |= !Row(attribute_)
                      .add(at->second)
                      .add(position++)
                      .add(attribute.name)
                      .add(static_cast<int>(attribute.kind))
                      .add(integers)
                      .add(reals)
                      .add(attribute.text)
                      .run();
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
  Statement meta_, source_, problem_, text_, op_name_, trace_, attribute_, source_line_, rank_, run_, note_, step_, op_,
      tensor_;
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
