// Catalog: what a dump holds, whoever wrote it: ranks, runs, steps, ops in order, and what is known of their tensors.
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

#include "config/dump_settings.h"
#include "model/attribute.h"
#include "model/site.h"
#include "sonde/known_statistics.h"
#include "sonde/result.h"
#include "sonde/tensor_meta.h"
#include "stats/statistics.h"

namespace sonde {

struct HostGraph;

KnownStatistics known(const Statistics& statistics);

// One slot of one op. Texts live as long as the catalog.
struct CatalogTensor : TensorMeta {
  // Of the parameter, gradient or state it is; of an input from an op that the dump does not hold, `{full name}:output.0`.
  // Empty: none.
  std::string_view parameter;
  // Where the host names a slot otherwise than by its number: `attn_mask`, `0.1` (of a list), `weight`. Else empty.
  std::string_view key;
  std::string_view skipped;    // why it was not read; empty when it was
  std::string_view file;       // relative to the rank's directory (formats/tensor_file.h); empty: no values
  std::string_view md5, sha1;  // md5: of msprobe its CRC-32 (8 digits) or xor (`0x…`), as the dump has it
  std::optional<KnownStatistics> statistics;
  bool source_is_likely = false;  // `source` was found by equal checksums or statistics; the dump does not say it

  // Something of it can be shown.
  bool recorded() const { return statistics.has_value() || !file.empty(); }
};

struct CatalogOp {
  bool is_parameter = false;  // a parameter, input data or a constant: one output, no op behind it
  bool is_module = false;     // msprobe: a module as a whole; the ops that ran in it have it as their `parent`
  Phase phase = Phase::forward;
  std::string_view op_name;  // `Default/…/conv2d-op0`; with `_` for `/` where only file names tell it
  std::string_view op_type;
  // msprobe: modules around it (`layers/0/attn-Attention`), and the record of the innermost one. Elsewhere empty: the full
  // name holds the scope.
  std::string_view scope, parent;
  // The innermost line of the user's program; else of what the host brings along. Empty: unknown.
  std::string_view source_file;
  std::uint32_t line = 0;
  std::string_view function;
  // That line, what it called in the host's own sources, and who called it, innermost first; null: unknown.
  const std::vector<SourceLine>* trace = nullptr;
  const std::vector<Attribute>* attributes = nullptr;  // null: it has none, or the dump does not say
  std::uint64_t sequence = 0;                          // order within its run
  std::uint64_t timestamp_us = 0;
  std::uint16_t thread = 0;
  bool failed = false;                 // it threw
  std::vector<CatalogTensor> tensors;  // inputs first, by slot
};

// What the ops of a step come to.
struct StepSum {
  std::uint64_t ops = 0, parameters = 0;
  std::uint64_t tensors = 0, files = 0;  // recorded; a file of several tensors in a row counts once
  std::uint64_t bytes = 0;               // on disk; a file with several names counts once
  std::uint64_t new_bytes = 0;           // the same, less files of earlier steps of the catalog
};

struct CatalogStep {
  StepId id;
  std::size_t run = 0;                         // index into the rank's runs
  std::uint64_t started_us = 0, ended_us = 0;  // 0: unknown
  bool ended = false;                          // false: the run was cut off inside it
  // Some of its ops come from file names and tables, since the journal lacks them: it is not known what they read.
  bool is_mended = false;
  std::string_view directory;  // relative to the rank's directory; empty: its files name it
  std::vector<CatalogOp> ops;  // in the order in which they began
  // Known without `ops` where the catalog comes from a saved index (index/index.h); these are then only those asked for.
  std::optional<StepSum> sum;
};

struct CatalogRun {
  bool finished = false;  // it closed the dump itself
  std::string host, command, layout, saved_data, net_name;
  DumpSettings settings;
  std::string error;  // what stopped the recording, if something did
  std::uint64_t pid = 0;
  std::uint64_t started_us = 0, ended_us = 0;
  std::uint64_t bytes_read = 0, bytes_written = 0;  // from tensors of the program, into files; 0 until it has ended
  std::vector<std::string> notes;
  // What ops of the run point to.
  std::shared_ptr<const std::vector<Site>> sites;
  std::shared_ptr<const std::vector<Attributes>> attributes;
};

// Who wrote it.
enum class DumpKind : std::uint8_t {
  journal,  // Sonde
  tree,     // MindSpore, CANN or TorchAir: names of directories and files, tables
  msprobe,  // stepN/rankN/dump.json
  files,    // tensors in files with names of any kind
};

struct CatalogRank {
  std::uint32_t rank = 0;
  DumpKind kind = DumpKind::journal;
  // Which dump it is of, relative to the catalog's path, where that holds several; else empty. Several may have ranks of one
  // number.
  std::string dump;
  std::filesystem::path directory;  // what files are relative to; in the layout `o2` ranks share it
  std::filesystem::path metadata;   // …/.dump_metadata, whether it is there or not
  bool has_journal = false;         // false: read from file names and statistic.csv
  std::vector<CatalogRun> runs;     // one without a name where there is no journal
  std::vector<CatalogStep> steps;   // in the order of the run
  // What graph files of the host itself say (catalog/host_graphs.h); ops point into them.
  std::vector<std::shared_ptr<const HostGraph>> host_graphs;
  bool host_tells_data_flow = false;
};

// Of all its runs.
DumpSettings settings_of(const CatalogRank& rank);

// One file that could not be read, or not wholly; the rest of the dump is there all the same.
enum class ProblemKind : std::uint8_t {
  damaged,
  torn,       // the last row or entry breaks off: of a killed run, or of one that still writes
  cut_off,    // what an earlier run had entered breaks off, or a run ended before it had entered anything
  unentered,  // whole files or rows that the journal lacks
};

struct CatalogProblem {
  std::filesystem::path path;
  std::string message;  // with the line or the byte
  // Something of the dump could not be looked at: nobody may say that nothing is wrong. False: worth knowing, and all that
  // was recorded is there.
  bool is_lost = true;
  ProblemKind kind = ProblemKind::damaged;
};

// Keeps one copy of each text; views of it stay valid wherever the pool is moved.
class TextPool {
 public:
  std::string_view keep(std::string_view text);
  // Of texts that are all different, such as names of files: without looking whether it is there.
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
  bool has_lost() const;  // something of it could not be looked at
  std::unique_ptr<TextPool> texts = std::make_unique<TextPool>();
  std::shared_ptr<const void> owner;  // of what else its views and pointers lead to
};

// `path`: a dump, one rank's directory, or any directory inside one: then only what lies there; or one above several dumps, of
// one kind or of several, whose ranks are then told apart by CatalogRank::dump. The
// journal is preferred; without one the tree is read by MindSpore's names and tables. Fails with
// `not_found`, `io`, or `corrupt` when it is not a dump.
Result<Catalog> open_catalog(const std::filesystem::path& path);

// The op with this name in this step; null when there is none. The first of several.
const CatalogOp* find_op(const CatalogStep& step, std::string_view op_name);

}  // namespace sonde
