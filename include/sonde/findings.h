// Findings: the analyses of dumps, and their answers.
//
//   Result<Dump> dump = Dump::open("/data/run7");
//   Result<FirstBad> report = first_bad(*dump);
//   if (!report) fail(report.error().message);
//   if (!report->findings.empty()) say(report->findings.front().why);
//   else if (!report->complete) say("nothing found, and not everything could be examined");
//
// An answer owns its texts: it outlives the dumps. Each has two more forms: text_of(), the page that the command prints, and
// json_text_of(), the document of its --json (docs/json/). A dump that was opened with `only` is analysed as if the rest did not
// exist. An example: examples/cpp/first_bad.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sonde/dtype.h"
#include "sonde/dump.h"
#include "sonde/export.h"
#include "sonde/known_statistics.h"
#include "sonde/result.h"
#include "sonde/step.h"

namespace sonde {

// --- the content of every finding -------------------------------------------------------------------------------------

struct Number {
  std::string name;
  double value = 0;
};

// A tensor that a finding is about or points to.
struct FindingTensor : TensorMeta {
  std::string op_name;  // empty where nothing in the dump made it
  std::string op_type;
  std::string parameter;  // of the parameter, gradient or input data it is
  std::optional<KnownStatistics> statistics;
  std::string tensor_file;  // whole path; empty: no values
};

// A line of the program, with its neighbours where the text is there.
struct FindingCode {
  std::string file, function;
  std::uint32_t line = 0;  // 0: unknown
  struct Line {
    std::uint32_t number = 0;
    std::string text;
  };
  std::vector<Line> lines;
};

enum class Severity : std::uint8_t {
  error,    // exit status 1
  warning,  // exit status 1
  note,     // worth knowing, nothing wrong: exit status 0
};
SONDE_EXPORT std::string_view word_of(Severity severity);

struct Finding {
  std::string kind;  // of the analysis' own list: `overflow`, `bad_input`, …
  Severity severity = Severity::error;
  std::uint32_t rank = 0;
  std::string dump;  // of the rank, if the path holds several dumps
  StepId step;
  Phase phase = Phase::forward;
  FindingTensor tensor;  // the wrong tensor; its `op` is the op that is to blame
  FindingCode code;
  std::vector<std::string> tags;  // further properties: `backward_only`, `one_rank_only`, `uncertain`, …
  std::vector<Number> numbers;
  std::string why;                    // one sentence
  std::vector<std::string> evidence;  // the observed facts, a line each
  std::vector<std::string> limits;    // facts that this dump cannot show, a line each
};

// The part of a dump to analyse.
struct AnalysisOptions {
  std::string steps;  // "3", "0-5", "1|4"; empty: all
  std::optional<std::uint32_t> graph, rank;
  std::size_t threads = 0;  // threads that read files; 0: one for each CPU
};

// --- first_bad: the first operator whose output holds a NaN or an infinity that matters (docs/first-bad.md) -------------

// An infinity that is intended, or does no harm: an op removes it before it reaches a result that matters.
struct HealthyInfinity {
  struct Place {
    std::uint32_t rank = 0;
    std::string dump;  // of the rank, if the path holds several dumps
    std::uint32_t graph = 0;
    std::vector<std::uint64_t> steps;
  };
  FindingTensor tensor;    // where it is first
  std::uint32_t rank = 0;  // the same
  StepId step;
  std::vector<Place> places;  // all of them
  FindingCode code;
  std::string how;                       // "placed", "computed", "from outside"
  std::vector<std::string> absorbed_by;  // full names; empty: no op in the dump reads it
};

// The first tensor whose norm grew far beyond its earlier values.
struct Growth {
  FindingTensor tensor;
  std::uint32_t rank = 0;
  StepId step;
  FindingCode code;
  double before = 0, now = 0;  // norms: of the steps before (the median), and of this one
  bool of_norm = true;         // false: the largest magnitude, where the dump has no norm
  struct Point {
    std::uint64_t step = 0;
    double value = 0;
  };
  std::vector<Point> series;
};

// A rank whose last run did not end the recording itself: its last step may lack operators.
struct UnfinishedRun {
  enum class State : std::uint8_t {
    killed,
    stopped,  // by an error of the recording; the program went on
    running,
  };
  State state = State::killed;
  std::uint32_t rank = 0;
  std::string dump;      // of the rank, if the path holds several
  StepId step;           // the last one
  bool in_step = false;  // false: after its end
  std::string reason;    // the error that stopped the recording; otherwise empty
};

struct FirstBad {
  std::vector<Finding> findings;  // the first is the answer; then others of the same step that it does not cause
  // The first finding of each rank that its own operators caused, the answer's rank first. A rank is left out if all it
  // has came from other ranks: through a collective, or in its parameters.
  std::vector<Finding> by_rank;
  std::vector<Finding> expected;         // findings of a loss scaler, which skipped the step
  std::vector<Finding> asides;           // notes: metrics and numbers that are printed, which no training reads
  std::vector<HealthyInfinity> healthy;  // of the step of the answer, or of all steps where there is none
  std::uint64_t healthy_left_out = 0;
  std::optional<Growth> growth;
  std::vector<std::string> path;          // ops from the answer to where it matters, by full name
  std::string reaches;                    // "the loss", "a gradient", …
  std::vector<std::string> notes;         // the ways in which the search filled gaps of the dump
  std::vector<DumpProblem> problems;      // parts that could not be examined
  bool complete = false;                  // everything recorded was examined: without a finding, nothing in it is wrong
  std::vector<UnfinishedRun> unfinished;  // in the analysed steps
  bool only_overflows = false;            // the dump holds nothing but operators that overflowed
  std::vector<std::string> suspects;      // ops whose tensors would show more, for another run
  // The scope of the analysis.
  std::uint64_t ops_not_recorded = 0;  // of `ops`: only their place in the graph is known
  std::uint64_t ranks = 0, steps = 0, ops = 0, tensors = 0, files_read = 0;
};

// Fails with `invalid_argument` when `options.steps` is not a list of steps, or the dump has none of them.
SONDE_EXPORT Result<FirstBad> first_bad(const Dump& dump, const AnalysisOptions& options = {});
SONDE_EXPORT std::string text_of(const FirstBad& report);
SONDE_EXPORT std::string json_text_of(const FirstBad& report);

// --- stomp: tensors whose memory changed although no operator wrote it --------------------------------------------------

struct StompReport {
  // `memory_overwritten`: the tensor is the overwritten one, as its writer recorded it; numbers are the elements that
  // differ. Per tensor the first change and, of a watcher, each further one.
  std::vector<Finding> findings;
  std::uint64_t findings_left_out = 0;
  std::uint64_t compared = 0;        // reads compared with the written values
  std::uint64_t watched = 0;         // of those, by the watcher
  std::uint64_t not_observable = 0;  // reads that were saved, since no operator had written the memory
  std::uint64_t not_known = 0;       // neither values nor statistics of both sides
  std::vector<DumpProblem> problems;
  bool complete = false;  // every read was compared: without a finding, nothing is wrong
};

SONDE_EXPORT Result<StompReport> stomp(const Dump& dump, const AnalysisOptions& options = {});
SONDE_EXPORT std::string text_of(const StompReport& report);
SONDE_EXPORT std::string json_text_of(const StompReport& report);

// --- compare: the operator that introduces an error beyond its rounding (docs/compare.md) -----------------------------

struct ComparisonOptions {
  std::optional<double> rtol, atol;  // empty: the bound of rounding, for each operator
  std::filesystem::path mapping;     // JSON or CSV: names of golden ops for those of the target; empty: none
  std::string steps;                 // "3", "0-5", "1|4"; empty: all that both have
  std::optional<std::uint32_t> graph, rank;
  // Of the golden dump, if other steps or another graph of it are meant. Steps are then compared in their order.
  std::string golden_steps;
  std::optional<std::uint32_t> golden_graph;
  std::size_t threads = 0;  // 0: one for each CPU; the answer is the same
};

// The first place where the target's run differs.
struct DumpDifference {
  std::string kind;  // `op`, `parameter`, `data`, `inserted`, …: docs/compare.md, "What is found"
  std::uint32_t rank = 0;
  StepId step;
  std::string op, op_type;  // to look at: of the target, of the golden dump where `in_golden`
  std::string source_file;
  std::uint32_t source_line = 0;  // 0: unknown
  bool in_golden = false;
  bool uncertain = false;        // `text` names the evidence that would settle it
  std::optional<double> factor;  // the target's tensor is so many times the golden one; empty: there is no one factor
  std::string text;              // one line for people
};

class Comparison;
// Fails with `not_found` when the two have no step in common, `invalid_argument` when the mapping cannot be read.
SONDE_EXPORT Result<Comparison> compare(const Dump& target, const Dump& golden, const ComparisonOptions& options = {});

// A handle: copies share the comparison, which keeps what it needs of both dumps.
class Comparison {
 public:
  SONDE_EXPORT const std::vector<DumpDifference>& findings() const;  // the earliest difference comes first
  // The number of operators with each verdict: `identical`, `within_tolerance`, `propagated`, `introduced`,
  // `unmatched`, `unknown`.
  SONDE_EXPORT const std::vector<std::pair<std::string, std::size_t>>& summary() const;
  SONDE_EXPORT const std::vector<std::string>& notes() const;  // ranks and steps that only one dump has
  SONDE_EXPORT std::vector<std::string> left_out() const;      // parts that could not be examined
  SONDE_EXPORT std::vector<DumpProblem> problems() const;  // the same, with the files of both dumps that are damaged
  SONDE_EXPORT bool complete() const;                      // without a finding, the two agree

  SONDE_EXPORT std::string text(bool all = false) const;  // the page that the command prints; `all`: as with --all
  SONDE_EXPORT std::string json() const;
  SONDE_EXPORT std::string csv() const;
  SONDE_EXPORT std::string junit() const;

 private:
  friend Result<Comparison> compare(const Dump& target, const Dump& golden, const ComparisonOptions& options);
  struct State;
  std::shared_ptr<const State> state_;
};

// --- watch: tensors that meet a condition (docs/watch.md) ---------------------------------------------------------------

struct WatchSettings {
  std::vector<std::string> conditions;  // "tensor_overflow", "tensor_too_large:abs_mean_gt=10"
  bool recommended = false;             // also those that MindSpore's debugger recommends
  std::string steps;                    // "3", "0-5", "1|4"; empty: all
  DumpSelection selection;              // the tensors to check; `inputs` empty: outputs only
  DumpWatchOptions limits;
};

// A tensor that meets a condition; or one that could not be judged, with the reason.
struct WatchFinding {
  std::string condition;   // its id: `tensor_overflow`
  std::size_t tensor = 0;  // of Dump::tensor
  std::uint32_t rank = 0;
  StepId step;
  std::string op;  // full name
  bool is_input = false;
  std::uint32_t slot = 0;
  std::string detail;  // "The setting for watchpoint is …", or why the tensor could not be judged
  std::vector<DumpWatchParameter> parameters;
  std::optional<std::uint64_t> previous_step;  // of the tensor that it was compared with
};

struct WatchFindings {
  std::vector<WatchFinding> hits;        // by the time at which tensors were written
  std::vector<WatchFinding> not_judged;  // in the order of the dump
  std::vector<std::string> notes;        // conditions without a tensor to watch, and steps without the step before
  std::vector<DumpProblem> problems;     // files that could not be read
  bool complete = false;                 // every tensor was judged: without a hit, no condition is met
};

// Fails with `invalid_argument` on a condition that does not exist and a selection that chooses nothing.
SONDE_EXPORT Result<WatchFindings> watch(const Dump& dump, const WatchSettings& settings);

// --- convert: binary tensor files as .npy, .pt or plain bytes (docs/msaccucmp.md) ----------------------------------------

struct ConversionOptions {
  std::string type = "npy";                    // `npy`, `bin`, `msnpy` (the names that MindSpore gives) or `pt`
  std::string format;                          // `NCHW`, `ND`, …; empty: as they are stored
  std::vector<std::int64_t> shape;             // of the result, where the file's own is not to be used; needs `format`
  std::optional<std::uint32_t> input, output;  // only that slot
};

struct ConvertedFiles {
  struct File {
    std::filesystem::path from, to;
    std::uint64_t bytes = 0;  // of the tensor in it
  };
  std::vector<File> files;
  std::vector<DumpProblem> lost;  // tensors, and files, that could not be converted
  std::vector<std::string> notes;
};

// Each path is a file, or a directory: then every binary tensor file below it. The tree below a directory is kept below `out`.
SONDE_EXPORT Result<ConvertedFiles> convert(std::span<const std::filesystem::path> paths,
                                            const std::filesystem::path& out, const ConversionOptions& options = {});

}  // namespace sonde
