#include "ask/verify/verify.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "ask/verify/rank_calls.h"
#include "dump/formats/pack.h"
#include "dump/formats/tensor_file.h"
#include "dump/journal/journal.h"
#include "dump/journal/live_run.h"
#include "dump/journal/run_json.h"
#include "dump/layout/side_names.h"
#include "dump/run_files/replica_rows.h"
#include "dump/run_files/statistic_csv.h"
#include "ground/base/text.h"
#include "ground/files/brought_files.h"
#include "ground/files/files.h"
#include "ground/files/mapped_file.h"
#include "ground/files/packed_path.h"
#include "ground/stats/narrow_values.h"
#include "read/catalog/catalog.h"
#include "read/catalog/dump_tree.h"
#include "read/catalog/find_dumps.h"
#include "read/catalog/growing_rank.h"
#include "read/catalog/rank_parts.h"
#include "read/catalog/replicas.h"
#include "read/catalog/statistic_table.h"
#include "read/measure/measure.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr double kSumTolerance = 1e-12;  // of the sum of magnitudes: elements may be added in another order

// Of sums that may have been added in another order, or of elements widened in the file. Those of 8- and 16-bit floats
// are floats within groups (docs/format.md).
double tolerance_of(DType dtype) { return is_grouped(dtype) ? 2e-6 : kSumTolerance; }

bool is_near(double a, double b, double allowed) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= allowed;
}

// Empty if the file holds the recorded values.
std::string difference(const Statistics& recorded, const Statistics& found, DType dtype) {
  std::string text;
  const auto compare = [&](const char* what, std::uint64_t was, std::uint64_t is) {
    if (text.empty() && was != is) text = fmt::format("it holds {} {}, {} were recorded", is, what, was);
  };
  compare("elements", recorded.count, found.count);
  constexpr std::array kKinds = {"NaN", "+inf", "-inf", "elements above zero", "elements below zero", "zeros"};
  std::size_t kind = 0;
  for_each_count([&](std::uint64_t was, std::uint64_t is) { compare(kKinds[kind++], was, is); }, recorded, found);
  if (!text.empty()) return text;
  if (recorded.finite_count() == 0) return "";
  if (recorded.max != found.max || recorded.min != found.min) {
    return fmt::format("its values lie in {:g} to {:g}, {:g} to {:g} were recorded", found.min, found.max, recorded.min,
                       recorded.max);
  }
  const double magnitudes = std::sqrt(recorded.sum_squares * static_cast<double>(recorded.count));
  const double tolerance = tolerance_of(dtype);
  if (!is_near(recorded.sum, found.sum, tolerance * magnitudes)) {
    return fmt::format("its sum is {:.17g}, {:.17g} was recorded", found.sum, recorded.sum);
  }
  if (!is_near(recorded.sum_squares, found.sum_squares, tolerance * recorded.sum_squares)) {
    return fmt::format("its sum of squares is {:.17g}, {:.17g} was recorded", found.sum_squares, recorded.sum_squares);
  }
  return "";
}

// An error, unless it is only a remark.
bool is_finding(IssueKind kind) {
  return kind != IssueKind::cut_off && kind != IssueKind::recording && kind != IssueKind::unreadable;
}

Issue issue_of(IssueKind kind, std::optional<std::uint32_t> rank, std::optional<StepId> step, const fs::path& path,
               std::string message) {
  Issue issue;
  issue.kind = kind;
  issue.is_finding = is_finding(kind);
  issue.path = path;
  issue.message = std::move(message);
  issue.rank = rank;
  if (step) issue.graph = step->graph;
  if (step) issue.step = step->number;
  return issue;
}

using StepKey = std::tuple<std::size_t, std::uint32_t, std::uint64_t>;  // run, graph, iteration
using RowKey = std::tuple<std::uint64_t, bool, std::uint32_t>;          // when, side, slot

// One rank with a journal.
class RankVerifier {
 public:
  RankVerifier(const CatalogRank& rank, const VerifyOptions& options, Verification& report)
      : rank_(rank), options_(options), report_(report), live_(is_recording(own_directory_in(rank.metadata))) {}

  VerifiedRank verify() {
    if (Status listed = bring_tree(rank_.directory); !listed) {
      add(IssueKind::unreadable, {}, rank_.directory, "cannot look into it: " + listed.error().message);
    }
    out_.rank = rank_.rank;
    out_.dump = rank_.dump;
    out_.directory = rank_.directory.string();
    out_.has_journal = true;
    const Result<Journal> read = read_journal(journal_in(rank_.metadata));
    if (read) {
      for (std::size_t run = 0; run < read->runs.size(); ++run) check_run(read->runs[run], run);
    }
    if (live_) {
      add(IssueKind::recording, {}, own_directory_in(rank_.metadata) / "owner",
          "a run is recording here at this moment; files that it has not entered yet are not judged");
    }
    check_writers();
    check_rows();
    walk();
    if (!live_) {
      check_histories();
      check_leftovers();
    }
    return std::move(out_);
  }

 private:
  void add(IssueKind kind, std::optional<StepId> step, const fs::path& path, std::string message) {
    report_.issues.push_back(issue_of(kind, rank_.rank, step, path, std::move(message)));
  }

  VerifiedStep& step_of(std::size_t run, StepId id) {
    const auto [at, is_new] = steps_.try_emplace({run, id.graph, id.number}, out_.steps.size());
    if (is_new) {
      VerifiedStep& step = out_.steps.emplace_back();
      step.run = run;
      step.graph = id.graph;
      step.step = id.number;
    }
    return out_.steps[at->second];
  }

  // Directories of ranks that were gathered from several disks may have got wrong names.
  void check_rank(const JournalRun& run, std::size_t number) {
    const std::optional<std::uint32_t> named = rank_in_name(rank_.directory);
    const std::optional<RunHeader> header = parse_run_json(run.header_json);
    if (!named || !header || header->rank == *named) return;
    add(IssueKind::damaged, {}, journal_in(rank_.metadata),
        fmt::format("run {} is of rank {}, and lies in the directory of rank {}", number, header->rank, *named));
  }

  void check_run(const JournalRun& run, std::size_t number) {
    const CatalogRun* known = number < rank_.runs.size() ? &rank_.runs[number] : nullptr;
    const bool is_last = number + 1 == rank_.runs.size();
    if (known != nullptr && !known->error.empty()) {
      add(IssueKind::cut_off, {}, journal_in(rank_.metadata), fmt::format("run {} stopped: {}", number, known->error));
    } else if (known != nullptr && !known->finished && !(live_ && is_last)) {
      add(IssueKind::cut_off, {}, journal_in(rank_.metadata),
          fmt::format("run {} was killed, or could not write its end: its written files are complete", number));
    }
    if (options_.ranks) check_rank(run, number);
    const bool has_rows = known != nullptr && (known->saved_data == "statistic" || known->saved_data == "full") &&
                          known->layout != "acl" && known->layout != "torchair";
    remember_contents(run);
    for (const JournalRecord& record : run.records) {
      if (record.kind == RecordKind::note) continue;
      ++report_.records;
      VerifiedStep& step = step_of(number, record.step);
      if (record.kind == RecordKind::step_end) step.ended = true;
      if (record.kind == RecordKind::op) ++step.ops;
      for (const JournalTensor& slot : record.tensors) {
        if (!slot.file.empty()) check_file(record, slot, step);
        if (slot.wanted && slot.file.empty()) check_replica(run, record, slot);
        if (has_rows && record.op != 0 && has_statistic_row(slot)) expect_row(record, slot, number);
      }
    }
    for (const JournalFile& file : run.lone_files) {
      add(IssueKind::damaged, {}, rank_.directory / file.file, "its record is not in the journal");
    }
  }

  void expect_row(const JournalRecord& record, const JournalTensor& slot, std::size_t run) {
    ++step_of(run, record.step).rows;
    rows_[{slot.timestamp_us, slot.is_input, slot.slot}].emplace_back(run, record.step);
  }

  // A tensor whose file is another rank's: that one has it, where its directory is here.
  void check_replica(const JournalRun& run, const JournalRecord& record, const JournalTensor& slot) {
    const std::optional<std::uint32_t> writer = writer_of(slot.skipped);
    if (!writer) return;
    const auto same = contents_.find(slot.content);
    const std::string& md5 = slot.md5.empty() && same != contents_.end() ? same->second->md5 : slot.md5;
    const fs::path beside = directory_beside(rank_.directory, *writer);
    const std::shared_ptr<const ReplicaTable> table = ReplicaTable::of(beside);
    if (table == nullptr) {
      ++replicas_missing_[*writer];
      return;
    }
    const std::string content = content_key(md5, slot.dtype, slot.shape.values());
    if (!table->file_of(content).empty()) return;
    const auto name = std::ranges::find(run.op_names, record.op, &OpName::id);
    const std::string op = name != run.op_names.end() ? name->op_name : std::string();
    const std::string key = slot_key(slot.is_input, slot.slot);
    // Of several runs nobody knows which of the other rank's belongs to this one.
    const bool differs =
        rank_.runs.size() == 1 && !table->has_written(content) && table->has_other(record.step, op, key);
    const std::string_view what = differs                       ? "whose own is not equal to it"
                                  : table->has_written(content) ? "whose file is gone"
                                                                : "which has written nothing that is equal to it";
    add(differs ? IssueKind::replica : IssueKind::missing, record.step, beside,
        fmt::format("{} of '{}' was left to rank {}, {}", key, op, *writer, what));
  }

  void check_writers() {
    for (const auto& [writer, count] : replicas_missing_) {
      add(IssueKind::missing, {}, directory_beside(rank_.directory, writer),
          fmt::format("{} values are copies of those of rank {}, which is not here", count, writer));
    }
  }

  // Equal tensors were read once, so facts about one are facts about all.
  void remember_contents(const JournalRun& run) {
    contents_.clear();
    for (const JournalRecord& record : run.records) {
      for (const JournalTensor& slot : record.tensors) {
        if (slot.content != 0 && slot.has_statistics) contents_.try_emplace(slot.content, &slot);
      }
    }
  }

  void check_file(const JournalRecord& record, const JournalTensor& slot, VerifiedStep& step) {
    const fs::path relative(slot.file), path = rank_.directory / relative;
    if (relative.is_absolute() || std::ranges::find(relative, "..") != relative.end()) return;  // as in the catalog
    ++step.files;
    struct stat status {};
    int error_number = ::lstat(path.c_str(), &status) != 0 ? errno : 0;
    if (error_number == ENOTDIR || is_brought(path)) error_number = stat_tensor(path, status);  // in a pack
    if (error_number != 0) {
      ++step.files_missing;
      const bool is_gone = error_number == ENOENT;
      add(is_gone ? IssueKind::missing : IssueKind::unreadable, record.step, path,
          is_gone ? "the journal names it, and it is not there" : io_error("look at", path, error_number).message);
      return;
    }
    if (!S_ISREG(status.st_mode)) {
      ++step.files_damaged;
      add(IssueKind::damaged, record.step, path, "it is not a regular file");
      return;
    }
    const bool is_new = inodes_.emplace(status.st_dev, status.st_ino).second;
    if (is_new) {
      ++report_.files;
      report_.bytes += static_cast<std::uint64_t>(status.st_size);
    }
    if (const std::string wrong = wrong_of(path, slot); !wrong.empty()) {
      const bool may_read = ::access(file_of_tensor(path).c_str(), R_OK) == 0;
      ++step.files_damaged;
      add(may_read ? IssueKind::damaged : IssueKind::unreadable, record.step, path, wrong);
    }
  }

  std::string wrong_of(const fs::path& path, const JournalTensor& slot) {
    const TensorEntry& tensor = slot;
    TensorSpec spec;
    spec.is_input = tensor.is_input;
    spec.slot = tensor.slot;
    spec.dtype = tensor.dtype;
    spec.shape.emplace(tensor.shape.values().begin(), tensor.shape.values().end());
    const Result<TensorFile> file = TensorFile::open(path, spec);
    if (!file) return file.error().message;
    std::int64_t elements = 1;
    for (const std::int64_t size : tensor.shape.values()) elements *= size;
    if (file->view().elements() != elements) {
      return fmt::format("it holds {} elements, {} were recorded", file->view().elements(), elements);
    }
    const DTypeInfo &recorded = info(tensor.dtype), &found = info(file->dtype());
    if (found.item_bytes != recorded.file_bytes && found.item_bytes != recorded.item_bytes) {
      return fmt::format("it holds {}, {} was recorded", found.lower, recorded.lower);
    }
    return options_.hashes ? wrong_values(*file, slot) : std::string();
  }

  std::string wrong_values(const TensorFile& file, const JournalTensor& slot) const {
    const JournalTensor* known = &slot;
    if (!slot.has_statistics) {
      const auto same = contents_.find(slot.content);
      if (same == contents_.end()) return "";
      known = same->second;
    }
    const TensorView view = file.view();
    if (info(view.dtype).has_statistics && known->has_statistics) {
      if (std::string wrong = difference(known->statistics, summarize(view), slot.dtype); !wrong.empty()) return wrong;
    }
    if (view.dtype != slot.dtype) return "";  // hashes are of the type in memory
    const bool is_same =
        (known->md5.empty() || md5_hex(view) == known->md5) && (known->sha1.empty() || sha1_hex(view) == known->sha1);
    return is_same ? "" : "its hash is not the one that was recorded";
  }

  // Compares the rows of all tables of the rank with those that the journal requires.
  void check_rows() {
    const Findings found = find_dumps(rank_.directory, false);
    std::vector<fs::path> directories = found.constants;
    for (const fs::path& step : found.steps) {
      if (place_of(step, rank_.directory).metadata == rank_.metadata) directories.push_back(step);
    }
    std::ranges::sort(directories);
    directories.erase(std::unique(directories.begin(), directories.end()), directories.end());
    for (const fs::path& directory : directories) {
      std::error_code ignored;
      if (fs::exists(directory / "statistic.csv", ignored)) check_table(directory / "statistic.csv");
    }
    if (live_) return;
    std::map<StepKey, std::uint64_t> missing;
    for (const auto& [row, steps] : rows_) {
      for (const auto& [run, step] : steps) ++missing[{run, step.graph, step.number}];
    }
    for (const auto& [key, count] : missing) {
      const StepId id{std::get<1>(key), std::get<2>(key)};
      step_of(std::get<0>(key), id).rows_missing = count;
      add(IssueKind::missing, id, rank_.directory,
          fmt::format("{} rows of statistic.csv that the journal lists are missing", count));
    }
  }

  void check_table(const fs::path& file) {
    const Result<StatisticTable> table = read_statistic_table(file);
    if (!table) {
      add(IssueKind::damaged, {}, file, table.error().message);
      return;
    }
    if (!table->problem.empty()) add(IssueKind::damaged, {}, file, table->problem);
    std::uint64_t extra = 0;
    for (const StatisticRow& row : table->rows) {
      ++report_.rows;
      const auto expected = rows_.find({row.timestamp_us, row.is_input, row.slot});
      if (expected == rows_.end()) {
        ++extra;
        continue;
      }
      expected->second.pop_back();
      if (expected->second.empty()) rows_.erase(expected);
    }
    if (extra > 0 && !live_) {
      add(IssueKind::unentered, {}, file, fmt::format("{} rows are not in the journal", extra));
    }
  }

  static bool is_table(const std::string& name) { return name.ends_with(".csv"); }

  // All files below the rank's directory, except those of other ranks that share it.
  void walk() {
    std::error_code error;
    fs::recursive_directory_iterator at(rank_.directory, fs::directory_options::skip_permission_denied, error);
    for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
      const std::string name = at->path().filename();
      struct stat status {};
      if (::lstat(at->path().c_str(), &status) != 0) continue;
      if (name == "partial" || name.starts_with("device_")) at.disable_recursion_pending();
      if (S_ISDIR(status.st_mode) && ::access(at->path().c_str(), R_OK | X_OK) != 0) {
        add(IssueKind::unreadable, {}, at->path(), "its contents cannot be read");
      }
      if (!S_ISLNK(status.st_mode) && (status.st_mode & 0022) != 0) {
        add(IssueKind::permission, {}, at->path(),
            fmt::format("others may write it (mode {:o})", status.st_mode & 0777));
      }
      if (S_ISREG(status.st_mode) && status.st_size > 0 && is_table(name) && !live_) check_end(at->path());
      if (S_ISREG(status.st_mode) && is_pack_name(name) && !live_) check_pack(at->path());
    }
    if (error) add(IssueKind::unreadable, {}, rank_.directory, "cannot look into it: " + error.message());
  }

  // The catalog looks at the heads of packs only if the journal lacks something.
  void check_pack(const fs::path& file) {
    if (std::ranges::find(report_.issues, file, &Issue::path) != report_.issues.end()) return;
    const Result<PackContents> contents = read_pack(file, file.lexically_relative(rank_.directory).native());
    const std::string wrong = contents ? contents->problem : contents.error().message;
    const bool is_tail = contents && contents->is_tail;
    if (!wrong.empty()) add(is_tail ? IssueKind::cut_off : IssueKind::damaged, {}, file, wrong);
  }

  void check_end(const fs::path& file) {
    const Result<std::string> text = read_whole_file(file);
    if (!text) {
      add(IssueKind::unreadable, {}, file, text.error().message);
    } else if (!text->ends_with('\n')) {
      add(IssueKind::torn, {}, file, "its last row breaks off");
    }
  }

  // The place of graph and order files: beside the steps, or with the metadata.
  fs::path side_file(const fs::path& relative) const {
    std::error_code ignored;
    const fs::path beside = rank_.directory / relative;
    return fs::exists(beside, ignored) ? beside : rank_.metadata / relative;
  }

  void expect_file(const fs::path& relative, std::optional<StepId> step) {
    const fs::path path = side_file(relative);
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
      add(IssueKind::missing, step, path, "it is not there");
    } else if (!S_ISREG(status.st_mode) || status.st_size == 0) {
      add(IssueKind::damaged, step, path, "it is empty, or no regular file");
    }
  }

  void check_histories() {
    std::map<std::uint32_t, std::map<std::uint64_t, std::uint64_t>> ended;  // by graph: steps, how often
    for (const VerifiedStep& step : out_.steps) {
      const bool by_host = step.run < rank_.runs.size() && has_host_graphs(rank_.runs[step.run].host);
      if (step.ended && !by_host) ++ended[step.graph][step.step];
    }
    for (const auto& [graph, steps] : ended) {
      check_steps_in(fs::path(kOrderDirectory) / history_name(graph), graph, steps);
      const fs::path table = fs::path(kGraphsDirectory) / graph_steps_name(graph);
      check_steps_in(table, graph, steps);
      if (shows_first_step(table)) {
        expect_file(fs::path(kOrderDirectory) / order_name(graph), {});
        for (const char* end : {".ir", ".pb"}) expect_file(fs::path(kGraphsDirectory) / graph_name(graph, end), {});
      }
      check_graphs_of_steps(table, graph);
    }
  }

  void check_steps_in(const fs::path& relative, std::uint32_t graph, std::map<std::uint64_t, std::uint64_t> steps) {
    const fs::path path = side_file(relative);
    const Result<std::string> text = read_whole_file(path);
    if (!text) {
      add(IssueKind::missing, {}, path, "it is not there, or cannot be read");
      return;
    }
    for (const std::string_view line : split(*text, '\n')) {
      const auto step = steps.find(std::strtoull(std::string(line).c_str(), nullptr, 10));
      if (step != steps.end() && !line.empty() && line[0] >= '0' && line[0] <= '9' && step->second > 0) --step->second;
    }
    for (const auto& [iteration, count] : steps) {
      if (count > 0)
        add(IssueKind::missing, StepId{graph, iteration}, path, fmt::format("step {} is not in it", iteration));
    }
  }

  // False if the first step was too long for graph files.
  bool shows_first_step(const fs::path& table) {
    const Result<std::string> text = read_whole_file(side_file(table));
    if (!text) return true;
    const std::vector<std::string_view> lines = split(*text, '\n');
    return lines.size() < 2 || !lines[1].ends_with(",none");
  }

  // "7,3": the files of step 3 show step 7; those of the first step are the graph's.
  void check_graphs_of_steps(const fs::path& table, std::uint32_t graph) {
    const Result<std::string> text = read_whole_file(side_file(table));
    if (!text) return;
    std::set<std::string> shown;
    for (const std::string_view line : split(*text, '\n')) {
      const std::size_t comma = line.find(',');
      if (comma != std::string::npos && !line.starts_with("step")) shown.emplace(line.substr(comma + 1));
    }
    shown.erase("none");  // the recorder has left it out
    std::set<std::size_t> runs;
    for (const VerifiedStep& step : out_.steps) {
      if (step.graph != graph || !step.ended || !runs.insert(step.run).second) continue;
      shown.erase(std::to_string(step.step));  // the first of its run
    }
    for (const std::string& step : shown) {
      const StepId id{graph, std::strtoull(step.c_str(), nullptr, 10)};
      const fs::path own = fs::path(kGraphsDirectory) / graphs_of_step_name(step);
      for (const char* end : {".ir", ".pb"}) expect_file(own / graph_name(graph, end), id);
      expect_file(own / order_name(graph), id);
    }
  }

  void check_leftovers() {
    std::error_code ignored;
    for (const fs::directory_entry& entry :
         fs::directory_iterator(own_directory_in(rank_.metadata) / "partial", ignored)) {
      add(IssueKind::leftover, {}, entry.path(), "files that a killed run had not finished; they mean nothing");
    }
  }

  const CatalogRank& rank_;
  const VerifyOptions& options_;
  Verification& report_;
  const bool live_;
  VerifiedRank out_;
  std::map<StepKey, std::size_t> steps_;
  std::map<RowKey, std::vector<std::pair<std::size_t, StepId>>> rows_;  // expected
  std::unordered_map<std::uint64_t, const JournalTensor*> contents_;    // of the run that is checked
  std::set<std::pair<std::uint64_t, std::uint64_t>> inodes_;
  std::map<std::uint32_t, std::size_t> replicas_missing_;  // by the rank that has them
};

// A rank without a journal: the only check is that every file can be read.
VerifiedRank verify_tree(const CatalogRank& rank, Verification& report) {
  VerifiedRank out;
  out.rank = rank.rank;
  out.dump = rank.dump;
  out.directory = rank.directory.string();
  std::set<std::pair<std::uint64_t, std::uint64_t>> inodes;
  for (const CatalogStep& from : rank.steps) {
    VerifiedStep& step = out.steps.emplace_back();
    step.run = from.run;
    step.graph = from.id.graph;
    step.step = from.id.number;
    step.ended = from.ended;
    step.ops = from.ops.size();
    for (const CatalogOp& op : from.ops) {
      for (const CatalogTensor& tensor : op.tensors) {
        step.rows += tensor.statistics ? 1 : 0;
        report.rows += tensor.statistics ? 1 : 0;
        if (tensor.file.empty()) continue;
        ++step.files;
        const fs::path path = rank.directory / tensor.file;
        struct stat status {};
        if (stat_tensor(path, status) == 0 && inodes.emplace(status.st_dev, status.st_ino).second) {
          ++report.files;
          report.bytes += static_cast<std::uint64_t>(status.st_size);
        }
        const Result<TensorFile> file = TensorFile::open(path, spec_of(tensor));
        if (file) continue;
        ++step.files_damaged;
        const bool may_read = ::access(file_of_tensor(path).c_str(), R_OK) == 0;
        const IssueKind kind = may_read ? IssueKind::damaged : IssueKind::unreadable;
        report.issues.push_back(issue_of(kind, rank.rank, from.id, path, file.error().message));
      }
    }
  }
  return out;
}

IssueKind kind_of(ProblemKind kind) {
  switch (kind) {
    case ProblemKind::torn:
      return IssueKind::torn;
    case ProblemKind::cut_off:
      return IssueKind::cut_off;
    case ProblemKind::unentered:
      return IssueKind::unentered;
    case ProblemKind::damaged:
    case ProblemKind::elsewhere:
      break;
  }
  return IssueKind::damaged;
}

VerifiedRank verify_one(const CatalogRank& rank, const VerifyOptions& options, Verification& report) {
  VerifiedRank verified = rank.has_journal ? RankVerifier(rank, options, report).verify() : verify_tree(rank, report);
  if (!rank.runs.empty()) {
    verified.sonde_version = rank.runs.back().sonde_version;
    verified.world_size = rank.runs.back().world_size;
  }
  return verified;
}

}  // namespace

void add_problems(const std::vector<CatalogProblem>& problems, Verification& report) {
  for (const CatalogProblem& problem : problems) {
    if (!problem.is_lost && problem.kind == ProblemKind::damaged) continue;  // a remark: a graph of another batch
    const bool is_journal = problem.path.filename() == "journal";            // a torn table is found again, by its end
    const bool may_read = ::access(problem.path.c_str(), R_OK) == 0;
    const bool is_known = is_journal || problem.kind == ProblemKind::cut_off;  // the last section of a pack
    const IssueKind found = is_known ? kind_of(problem.kind) : IssueKind::damaged;
    report.issues.push_back(issue_of(may_read ? found : IssueKind::unreadable, {}, {}, problem.path, problem.message));
  }
}

VerifiedAlone verify_rank(const JournalPlace& place, const VerifyOptions& options) {
  return verify_rank(open_rank(place), options);
}

VerifiedAlone verify_rank(const Catalog& catalog, const VerifyOptions& options) {
  VerifiedAlone alone;
  add_problems(catalog.problems, alone.report);
  alone.problems = alone.report.issues.size();
  for (const CatalogRank& rank : catalog.ranks) {
    if (options.rank && *options.rank != rank.rank) continue;
    alone.report.ranks.push_back(verify_one(rank, options, alone.report));
  }
  return alone;
}

Result<Verification> verify_whole(const fs::path& path, const VerifyOptions& options) {
  const Result<Catalog> catalog = open_catalog(path);
  if (!catalog) return catalog.error();
  Verification report;
  add_problems(catalog->problems, report);
  for (const CatalogRank& rank : catalog->ranks) {
    if (options.rank && *options.rank != rank.rank) continue;
    report.ranks.push_back(verify_one(rank, options, report));
  }
  if (options.ranks) verify_calls_of_ranks(*catalog, report);
  return report;
}

}  // namespace sonde
