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

#include <filesystem>
#include <memory>
#include <span>
#include <string>
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
// The same of ranks that were searched apart (`sonde first-bad DUMP --dir RANK --out parts`); others are searched here. Fails
// with `not_found` where the dump cannot be read rank by rank.
SONDE_EXPORT Result<FirstBad> first_bad_of_parts(const std::filesystem::path& dump, const std::filesystem::path& parts,
                                                 const FirstBadQuestion& question = {});
SONDE_EXPORT std::string text_of(const FirstBad& report);
SONDE_EXPORT std::string json_text_of(const FirstBad& report);

// --- stomp: tensors whose memory changed although no operator wrote it --------------------------------------------------

SONDE_EXPORT Result<StompReport> stomp(const Dump& dump, const Part& part = {});
SONDE_EXPORT std::string text_of(const StompReport& report);
SONDE_EXPORT std::string json_text_of(const StompReport& report);

// --- headroom: how near tensors are to the largest number of a type (docs/first-bad.md) ---------------------------------

// Fails with `invalid_argument` on a type, side or part that does not exist.
SONDE_EXPORT Result<HeadroomReport> headroom(const Dump& dump, const HeadroomQuestion& question = {});
SONDE_EXPORT std::string text_of(const HeadroomReport& report);
SONDE_EXPORT std::string json_text_of(const HeadroomReport& report);

// --- compare: the operator that introduces an error beyond its rounding (docs/compare.md) -----------------------------

class ComparedDumps;
// Fails with `not_found` when the two have no step in common, `invalid_argument` when the mapping cannot be read.
SONDE_EXPORT Result<ComparedDumps> compare(const Dump& target, const Dump& golden,
                                           const CompareQuestion& question = {});
SONDE_EXPORT std::string json_text_of(const Comparison& comparison);

// A handle: copies share the answer, and what its pages need of both dumps.
class ComparedDumps {
 public:
  SONDE_EXPORT const Comparison& answer() const;
  SONDE_EXPORT std::vector<std::string> left_out() const;  // parts that could not be examined

  SONDE_EXPORT std::string text(bool all = false) const;  // the page that the command prints; `all`: as with --all
  SONDE_EXPORT std::string csv() const;
  SONDE_EXPORT std::string junit() const;

 private:
  friend Result<ComparedDumps> compare(const Dump& target, const Dump& golden, const CompareQuestion& question);
  struct State;
  std::shared_ptr<const State> state_;
};

// --- watch: tensors that meet a condition (docs/watch.md) ---------------------------------------------------------------

// Fails with `invalid_argument` on a condition that does not exist and a selection that chooses nothing.
SONDE_EXPORT Result<WatchFindings> watch(const Dump& dump, const WatchQuestion& question,
                                         const DumpWatchOptions& limits = {});
SONDE_EXPORT std::string json_text_of(const WatchFindings& findings);

// --- convert: binary tensor files as .npy, .pt or plain bytes (docs/msaccucmp.md) ----------------------------------------

// Each path is a file, or a directory: then every binary tensor file below it. The tree below a directory is kept below `out`.
SONDE_EXPORT Result<ConvertedFiles> convert(std::span<const std::filesystem::path> paths,
                                            const std::filesystem::path& out, const ConvertQuestion& question = {});
SONDE_EXPORT std::string json_text_of(const ConvertedFiles& conversion);

}  // namespace sonde
