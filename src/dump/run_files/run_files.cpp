#include "dump/run_files/run_files.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "dump/journal/journal.h"
#include "dump/run_files/graph_files.h"
#include "dump/run_files/private_text.h"
#include "dump/run_files/statistic_csv.h"
#include "ground/files/files.h"
#include "ground/files/safe_path.h"

namespace sonde {
namespace {

constexpr std::size_t kFlushBytes = 512 << 10;
constexpr std::size_t kMostTables = 16;  // of ended steps too; late records must not keep them open forever

// An open step of one graph, which is not yet in its history.
struct OpenStep {
  bool is_open = false;
  std::uint64_t number = 0;
};

struct StepTable {
  StepId step;
  std::string directory;  // relative to the rank directory
  AppendFile file;
};

}  // namespace

struct RunFiles::State {
  State(const Plan& chosen, const Layout& naming, bool host_graphs, AppendFile file, Fd rank_directory,
        Fd aside_directory)
      : layout(naming),
        with_graphs(!host_graphs),
        is_private(chosen.sonde.is_private),
        with_rows(chosen.wants_statistics() && !naming.has_op_tables()),
        categories(chosen.statistic_category),
        statistic_rows(naming, chosen.statistic_category, chosen.low_precision),
        rank(std::move(rank_directory)),
        aside(std::move(aside_directory)),
        journal_file(std::move(file)),
        graphs(naming, rank.get(), aside.get(), chosen.source_lines, !chosen.sonde.is_private) {}

  Layout layout;
  bool with_graphs, is_private, with_rows;
  std::vector<Category> categories;
  StatisticRows statistic_rows;
  std::string header;  // of statistic.csv
  Fd rank, aside;
  AppendFile journal_file;
  JournalWriter journal;
  GraphFiles graphs;
  std::vector<StepTable> tables;                 // few are open at a time
  std::map<std::uint32_t, OpenStep> open_steps;  // by graph
  std::map<std::uint32_t, AppendFile> histories;
  std::uint64_t rows = 0, row_bytes = 0;
  bool lost_entries = false;  // an entry of the journal was refused; later entries may refer to it

  Result<Fd> make_directory(const std::filesystem::path& path);
  Result<AppendFile*> table_of(const Record& record);
  Status append_rows(const Record& record);
  void begin_step(StepId step);
  Status end_step(StepId step);
  Status append_history(std::uint32_t graph, OpenStep& step);
  Status flush_journal();
  Status flush();
};

Result<Fd> RunFiles::State::make_directory(const std::filesystem::path& path) {
  const std::filesystem::path& above = layout.rank_directory();
  return open_below(rank.get(), above, path.lexically_relative(above), Missing::make);
}

Result<AppendFile*> RunFiles::State::table_of(const Record& record) {
  std::string path = layout.directory_of(record);
  for (StepTable& table : tables) {
    if (table.step == record.step && table.directory == path) return &table.file;
  }
  if (tables.size() >= kMostTables) {
    Status closed = flush();  // with the records of its rows
    if (closed) closed = tables.front().file.close();
    tables.erase(tables.begin());
    if (!closed) return closed.error();
  }
  const std::filesystem::path directory = layout.rank_directory() / path;
  const Result<Fd> made = make_directory(directory);
  if (!made) return made.error();
  Result<AppendFile> file = AppendFile::open(made->get(), directory / "statistic.csv", header);
  if (!file) return file.error();
  tables.push_back({record.step, std::move(path), std::move(*file)});
  return &tables.back().file;
}

Status RunFiles::State::append_rows(const Record& record) {
  if (!with_rows || record.op == nullptr || std::ranges::none_of(record.tensors, has_statistic_row)) return {};
  Result<AppendFile*> table = table_of(record);
  if (!table) return table.error();
  for (const TensorRecord& tensor : record.tensors) {
    if (!has_statistic_row(tensor)) continue;
    const std::size_t before = (*table)->rows().size();
    statistic_rows.append(record, tensor, (*table)->rows());
    row_bytes += (*table)->rows().size() - before;
    ++rows;
  }
  return (*table)->rows().size() > kFlushBytes ? flush() : Status();
}

void RunFiles::State::begin_step(StepId step) {
  if (!with_graphs) return;
  open_steps[step.graph] = {true, step.number};
  graphs.begin_step(step);
}

Status RunFiles::State::append_history(std::uint32_t graph, OpenStep& step) {
  step.is_open = false;
  auto at = histories.find(graph);
  if (at == histories.end()) {
    const Result<Fd> made = make_directory(layout.execution_order_directory());
    if (!made) return made.error();
    Result<AppendFile> file = AppendFile::open(made->get(), layout.history_file(graph), {});
    if (!file) return file.error();
    at = histories.emplace(graph, std::move(*file)).first;
  }
  at->second.rows().append(std::to_string(step.number)).append("\n");
  return {};
}

Status RunFiles::State::end_step(StepId step) {
  const auto open = open_steps.find(step.graph);
  if (open != open_steps.end() && open->second.is_open) {
    if (Status status = append_history(step.graph, open->second); !status) return status;
  }
  Status status = flush();
  if (status && with_graphs) status = graphs.end_step(step);
  for (const std::string& note : graphs.take_notes()) journal.note(note);
  if (status) status = graphs.flush();
  for (StepTable& table : tables) {
    Status closed = table.step == step ? table.file.close() : Status();
    if (status) status = std::move(closed);
  }
  std::erase_if(tables, [&](const StepTable& table) { return table.step == step; });
  return status;
}

Status RunFiles::State::flush_journal() {
  if (journal_file.rows().empty()) {
    std::swap(journal_file.rows(), journal.buffer());
  } else {
    journal_file.rows().append(journal.buffer());
  }
  journal.buffer().clear();
  return journal_file.flush();
}

Status RunFiles::State::flush() {
  Status status = flush_journal();
  if (!status) {  // a row needs its record in the journal
    lost_entries = true;
    for (StepTable& table : tables) table.file.rows().clear();
    for (auto& [graph, history] : histories) history.rows().clear();
    return status;
  }
  for (StepTable& table : tables) {
    Status flushed = status ? table.file.flush() : Status();
    if (!flushed) status = std::move(flushed);
  }
  for (auto& [graph, history] : histories) {
    Status flushed = status ? history.flush() : Status();
    if (!flushed) status = std::move(flushed);
  }
  return status ? graphs.flush() : status;
}

RunFiles::RunFiles(std::unique_ptr<State> state) : state_(std::move(state)) {}
RunFiles::RunFiles(RunFiles&&) noexcept = default;
RunFiles& RunFiles::operator=(RunFiles&&) noexcept = default;
RunFiles::~RunFiles() = default;

Result<RunFiles> RunFiles::open(const Plan& plan, const Layout& layout, const std::filesystem::path& aside,
                                const std::string& run_json, bool host_graphs) {
  // An incomplete end of the journal stays: each run begins with a mark that readers find after it.
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  const Result<Fd> own = open_in_dump(layout.root(), layout.own_directory(), Missing::leave);
  if (!own) return own.error();
  Result<AppendFile> file = AppendFile::open(own->get(), layout.journal_file(), {}, kAll);
  if (!file) return file.error();
  Result<Fd> aside_directory = open_in_dump(layout.root(), aside, Missing::leave);
  if (!aside_directory) return aside_directory.error();
  Result<Fd> rank = open_in_dump(layout.root(), layout.rank_directory(), Missing::leave);
  if (!rank) return rank.error();
  auto state = std::make_unique<State>(plan, layout, host_graphs, std::move(*file), std::move(*rank),
                                       std::move(*aside_directory));
  state->header = statistic_header(state->categories);
  state->journal.run(run_json);
  return RunFiles(std::move(state));
}

void RunFiles::define(const Site& named) {
  if (state_->lost_entries) return;
  const Site site = state_->is_private ? without_paths(named) : named;
  state_->journal.site(site);
  state_->graphs.define(site);
}

void RunFiles::define(const OpName& name) {
  if (state_->lost_entries) return;
  state_->journal.op_name(name);
  state_->graphs.define(name);
}

void RunFiles::define(const Attributes& attributes) {
  if (state_->lost_entries) return;
  state_->journal.attributes(attributes);
  state_->graphs.define(attributes);
}

void RunFiles::define(const SourceText& text) { state_->graphs.define(text); }

Status RunFiles::append(const Record& record, const std::vector<StoredFile>& files) {
  State& state = *state_;
  if (state.lost_entries) return {};
  state.journal.record(record);
  for (const StoredFile& file : files) append_file(file);
  switch (record.kind) {
    case RecordKind::step_begin:
      state.begin_step(record.step);
      return {};
    case RecordKind::step_end:
      return state.end_step(record.step);
    case RecordKind::note:
      return {};
    case RecordKind::op:
      if (record.op != nullptr && state.with_graphs) state.graphs.add(record);
      break;
    case RecordKind::parameter:
      break;
  }
  if (Status status = state.append_rows(record); !status) return status;
  return state.journal.buffer().size() > kFlushBytes ? state.flush() : Status();
}

void RunFiles::append_file(const StoredFile& file) {
  if (!state_->lost_entries) state_->journal.file(file.sequence, file.is_input, file.slot, file.path);
}

void RunFiles::append_note(const std::string& text) { state_->journal.note(text); }

bool RunFiles::has_unflushed() const {
  const auto unflushed = [](auto& file) { return !file.rows().empty(); };
  return !state_->journal.buffer().empty() || unflushed(state_->journal_file) ||
         std::ranges::any_of(state_->tables, [&](StepTable& t) { return unflushed(t.file); }) ||
         std::ranges::any_of(state_->histories, [&](auto& h) { return unflushed(h.second); });
}

Status RunFiles::flush() { return state_->flush(); }

Status RunFiles::finish(const std::string& end_json, bool failed) {
  State& state = *state_;
  Status status;
  for (auto& [graph, step] : state.open_steps) {
    if (step.is_open && status && !failed) status = state.append_history(graph, step);
  }
  if (status && !failed && state.with_graphs) status = state.graphs.finish();
  state.journal.end(end_json);
  const auto also = [&status](Status next) {
    if (status) status = std::move(next);
  };
  also(state.flush());
  for (StepTable& table : state.tables) also(table.file.close());
  for (auto& [graph, history] : state.histories) also(history.close());
  state.tables.clear();
  state.histories.clear();
  also(state.journal_file.close());
  return status;
}

std::uint64_t RunFiles::rows() const { return state_->rows; }

std::uint64_t RunFiles::row_bytes() const { return state_->row_bytes; }

}  // namespace sonde
