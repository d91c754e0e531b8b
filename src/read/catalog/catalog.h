// Catalog: the contents of a dump of any kind: ranks, runs, steps, ops in order, and the known facts of their tensors.
//
//   Result<Catalog> catalog = open_catalog("/tmp/dump");
//   for (const CatalogRank& rank : catalog->ranks)
//     for (const CatalogStep& step : rank.steps)
//       for (const CatalogOp& op : step.ops) ...
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ground/model/attribute.h"
#include "ground/model/data_name.h"
#include "ground/model/not_read.h"
#include "ground/model/site.h"
#include "ground/model/step_request.h"
#include "ground/stats/statistics.h"
#include "plan/config/dump_settings.h"
#include "sonde/known_statistics.h"
#include "sonde/result.h"
#include "sonde/tensor_meta.h"

namespace sonde {

struct HostGraph;

KnownStatistics known(const Statistics& statistics);

// One slot of one op. Texts live as long as the catalog.
struct CatalogTensor : TensorMeta {
  // The parameter, gradient or state it is; for an input from an op outside the dump, `{full name}:output.0`.
  // Empty: none.
  TensorName parameter;
  // The host's name of the slot if it is not a number: `attn_mask`, `0.1` (of a list), `weight`. Otherwise empty.
  std::string_view key;
  // The part of a distributed tensor that it is: `Shard(0) of (16, 8) on tp=2, from (8, 0)`. Empty: none.
  std::string_view placement;
  ReasonNotRead skipped;       // the reason why it was not read; empty if it was
  std::string_view file;       // relative to the rank's directory (formats/tensor_file.h); empty: no values
  std::string_view md5, sha1;  // md5: for msprobe its CRC-32 (8 digits) or xor (`0x…`), as in the dump
  std::optional<KnownStatistics> statistics;
  bool source_is_likely = false;  // `source` was found by equal checksums or statistics, not in the dump

  // Some of its data can be shown.
  bool recorded() const { return statistics.has_value() || !file.empty(); }
};

// Totals of the ops with one name, in the requested steps.
struct OpSum {
  std::uint64_t times = 0;     // ops
  std::uint64_t recorded = 0;  // tensors of all of them
};

struct CatalogOp {
  bool is_parameter = false;  // a parameter, input data or a constant: one output, no op behind it
  bool is_module = false;     // msprobe, summaries: a whole module; the ops that ran in it have it as their `parent`
  Phase phase = Phase::forward;
  std::string_view op_name;  // `Default/…/conv2d-op0`; with `_` for `/` if known from file names only
  std::string_view op_type;
  // msprobe: modules around it (`layers/0/attn-Attention`), and the record of the innermost one. Otherwise empty: the
  // full name contains the scope.
  std::string_view scope, parent;
  // The innermost line of the user's program; else of the host's bundled code. Empty: unknown.
  std::string_view source_file;
  std::uint32_t line = 0;
  std::string_view function;
  // That line, its callees in the host's own sources, and its callers, innermost first; null: unknown.
  const std::vector<SourceLine>* trace = nullptr;
  const std::vector<Attribute>* attributes = nullptr;  // null: it has none, or the dump does not say
  std::uint64_t sequence = 0;                          // order within its run
  std::uint64_t timestamp_us = 0;
  std::uint64_t call_number = 0;  // of a collective: among the calls of its group, from 1; 0: unknown
  std::uint16_t thread = 0;
  bool failed = false;                 // it threw
  std::vector<CatalogTensor> tensors;  // inputs first, by slot
  // Known only if the catalog has one op of each name (CatalogQuery::first_of_name).
  std::optional<OpSum> sum;
};

// Totals of the ops of a step.
struct StepSum {
  std::uint64_t ops = 0, parameters = 0;
  std::uint64_t tensors = 0, files = 0;  // recorded; a file of several tensors in a row counts once
  std::uint64_t bytes = 0;               // on disk; a file with several names counts once
  std::uint64_t new_bytes = 0;           // the same, less files of earlier steps of the catalog
};

// The facts about a step that need no file of a tensor.
struct StepHealth {
  std::uint64_t known = 0;         // tensors for which the dump says whether they are finite
  std::uint64_t not_recorded = 0;  // ops that have tensors, none of them recorded
  // No tensor holds a NaN or an infinity, and no file must be read to know this.
  bool is_fine = false;
};

struct CatalogStep {
  StepId id;
  std::size_t run = 0;                         // index into the rank's runs
  std::uint64_t started_us = 0, ended_us = 0;  // 0: unknown
  bool ended = false;                          // false: the run was cut off inside it
  // Some of its ops come from file names and tables, since the journal lacks them: their inputs are unknown.
  bool is_mended = false;
  std::string_view directory;         // relative to the rank's directory; empty: its file names say the step
  std::vector<StepRequest> requests;  // of an engine's step, by their rows
  std::vector<CatalogOp> ops;         // in the order in which they began
  // Known without `ops` if the catalog comes from a saved index (index/index.h); these are then only the requested
  // ones.
  std::optional<StepSum> sum;
  std::optional<StepHealth> health;  // as `sum`
};

struct CatalogRun {
  bool finished = false;         // it closed the dump itself
  std::string sonde_version;     // that recorded it; empty: unknown
  std::uint32_t world_size = 0;  // processes of the program; 0: unknown
  std::string host, command, layout, saved_data, net_name;
  DumpSettings settings;
  std::string error;  // the error that stopped the recording, if any
  std::uint64_t pid = 0;
  std::uint64_t started_us = 0, ended_us = 0;
  std::uint64_t bytes_read = 0, bytes_written = 0;  // from tensors of the program, into files; 0 until it has ended
  std::vector<std::string> notes;
  // Data that the ops of the run point to.
  std::shared_ptr<const std::vector<Site>> sites;
  std::shared_ptr<const std::vector<Attributes>> attributes;
};

// Begins the note of a recording that an error stopped.
inline constexpr std::string_view kRecordingStopped = "recording stopped: ";
// The error that stopped the recording of the run: `error`, or the note about it where no more fitted on the disk. Empty:
// no error did.
std::string_view failure_of(const CatalogRun& run);

// The writer of the dump.
enum class DumpKind : std::uint8_t {
  journal,  // Sonde
  tree,     // MindSpore, CANN or TorchAir: names of directories and files, tables
  msprobe,  // stepN/rankN/dump.json
  files,    // tensors in files with names of any kind
  summary,  // Sonde's saved_data "summary"
};

struct CatalogRank {
  std::uint32_t rank = 0;
  DumpKind kind = DumpKind::journal;
  // The dump it belongs to, relative to the catalog's path, if that contains several; else empty. Ranks of several
  // dumps may have equal numbers.
  std::string dump;
  std::filesystem::path directory;  // base of the file paths; in the layout `o2` ranks share it
  std::filesystem::path metadata;   // …/.dump_metadata, whether it is there or not
  bool has_journal = false;         // false: read from file names and statistic.csv
  std::vector<CatalogRun> runs;     // one without a name where there is no journal
  std::vector<CatalogStep> steps;   // in the order of the run
  // Facts from graph files of the host itself (catalog/host_graphs.h); ops point into them.
  std::vector<std::shared_ptr<const HostGraph>> host_graphs;
  bool has_host_data_flow = false;
};

// Over all its runs.
DumpSettings settings_of(const CatalogRank& rank);

// One file that could not be read, or only in part; the rest of the dump is available.
enum class ProblemKind : std::uint8_t {
  damaged,
  torn,       // the last row or entry is incomplete: the run was killed or is still writing
  cut_off,    // entries of an earlier run are incomplete, or a run ended before its first entry
  unentered,  // complete files or rows that the journal lacks
  elsewhere,  // values are with another rank, whose directory is not here
};

struct CatalogProblem {
  std::filesystem::path path;
  std::string message;  // with the line or the byte
  // A part of the dump could not be read, so a missing finding proves nothing. False: only a remark, and all recorded
  // data is available.
  bool is_lost = true;
  ProblemKind kind = ProblemKind::damaged;
};

// Keeps one copy of each text; views of it stay valid wherever the pool is moved.
class TextPool {
 public:
  std::string_view keep(std::string_view text);
  // For texts that are all different, such as file names: does not check for an existing copy.
  std::string_view keep_unique(std::string_view text);

 private:
  static constexpr std::size_t kBlock = 1 << 16;
  std::deque<std::unique_ptr<char[]>> blocks_;
  char* free_ = nullptr;  // in the last block
  std::size_t left_ = 0;
  std::unordered_set<std::string_view> known_;
};

struct Catalog {
  std::filesystem::path path;      // as given
  std::vector<CatalogRank> ranks;  // by number
  std::vector<CatalogProblem> problems;
  bool has_lost() const;  // some of it could not be read
  std::unique_ptr<TextPool> texts = std::make_unique<TextPool>();
  std::shared_ptr<const void> owner;  // owns other data that its views and pointers refer to
};

// `path`: a dump, one rank's directory, any directory inside one (then only its contents), or a directory above several
// dumps, of one kind or of several, whose ranks are then distinguished by CatalogRank::dump. The
// journal is preferred; without one the tree is read by MindSpore's names and tables. Fails with
// `not_found`, `io`, or, if it is not a dump, `corrupt`.
Result<Catalog> open_catalog(const std::filesystem::path& path);

// The op with this name in this step; null if there is none. The first of several.
const CatalogOp* find_op(const CatalogStep& step, std::string_view op_name);

}  // namespace sonde
