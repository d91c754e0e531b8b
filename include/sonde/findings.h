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

#include "sonde/answers.h"
#include "sonde/dump.h"
#include "sonde/export.h"
#include "sonde/questions.h"
#include "sonde/result.h"
#include "sonde/step.h"

namespace sonde {

// --- first_bad: the first operator whose output holds a NaN or an infinity that matters (docs/first-bad.md) -------------

// Fails with `invalid_argument` when `question.step` is not a list of steps, or the dump has none of them.
SONDE_EXPORT Result<FirstBad> first_bad(const Dump& dump, const FirstBadQuestion& question = {});
SONDE_EXPORT std::string text_of(const FirstBad& report);
SONDE_EXPORT std::string json_text_of(const FirstBad& report);

// --- stomp: tensors whose memory changed although no operator wrote it --------------------------------------------------

SONDE_EXPORT Result<StompReport> stomp(const Dump& dump, const Part& part = {});
SONDE_EXPORT std::string text_of(const StompReport& report);
SONDE_EXPORT std::string json_text_of(const StompReport& report);

// --- compare: the operator that introduces an error beyond its rounding (docs/compare.md) -----------------------------

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
SONDE_EXPORT Result<Comparison> compare(const Dump& target, const Dump& golden, const CompareQuestion& question = {});

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
  friend Result<Comparison> compare(const Dump& target, const Dump& golden, const CompareQuestion& question);
  struct State;
  std::shared_ptr<const State> state_;
};

// --- watch: tensors that meet a condition (docs/watch.md) ---------------------------------------------------------------

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
SONDE_EXPORT Result<WatchFindings> watch(const Dump& dump, const WatchQuestion& question,
                                         const DumpWatchOptions& limits = {});

// --- convert: binary tensor files as .npy, .pt or plain bytes (docs/msaccucmp.md) ----------------------------------------

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
                                            const std::filesystem::path& out, const ConvertQuestion& question = {});

}  // namespace sonde
