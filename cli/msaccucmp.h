// `sonde msaccucmp …`: the command line of CANN's msaccucmp.py, its options, statuses and log lines. One file for each
// of its commands; this header has their common parts. docs/msaccucmp.md.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sonde::msaccucmp {

// The exit statuses of the original; scripts check these.
enum ExitCode : int {
  kDone = 0,
  kUnknown = 1,
  kNothingMatched = 2,
  kInvalidPath = 3,
  kInvalidParameter = 6,
  kCannotOpen = 7,
  kInvalidDump = 11,
  kOutOfRange = 12,
  kInvalidJson = 13,
  kNoUsableFiles = 18,
  kCannotWrite = 19,
  kCannotCompareThese = 20,
  kInvalidType = 21,
  kInvalidFormat = 22,
  kInvalidShape = 23,
  kWrongFileType = 24,
  kConversionFailed = 26,
  kInvalidRules = 29,
  kUnsupportedComparison = 30,
  kUnknownAlgorithm = 31,
  kInvalidNzShape = 34,
  kInvalidOverflowType = 35,
  kInvalidOverflowStatus = 36,
  kInvalidTaskType = 37,
  kSizeMismatch = 39,
  kInvalidSlices = 40,
  kSlicesDoNotMatch = 42,
  kBadName = 48,
};
// Reports arguments that cannot be understood, before any command runs.
inline constexpr int kBadArguments = 2;

struct Option {
  std::vector<std::string_view> names;  // `-d`, `--dump_file`; any of them gives the value
  std::string_view help;
  enum class Takes { value, nothing, values } takes = Takes::value;  // values: one or more words
  bool required = false;
  std::vector<std::string_view> choices = {};  // empty: anything
};

// Parses words as Python's argparse does, because scripts rely on it: long options may be shortened if only one fits
// (also those with one dash), `--out=DIR`, `-dFILE`, and a word that begins with a dash is an option unless it is a
// negative number. The last of several counts.
class Arguments {
 public:
  // `problem` is empty if the words are valid.
  Arguments(std::span<const Option> options, std::span<const std::string> words);

  const std::string& problem() const { return problem_; }
  bool asks_for_help() const { return asks_for_help_; }
  // By any name of the option.
  bool has(std::string_view name) const;
  std::string value(std::string_view name, std::string_view otherwise = "") const;
  std::vector<std::string> values(std::string_view name) const;

 private:
  const Option* find(const std::string& word, std::string& given_value, bool& has_given_value);
  void take_option(const Option& option, bool has_given_value, const std::string& given_value, std::size_t& at);
  bool is_option_word(const std::string& word) const;
  void check();

  std::span<const Option> options_;
  std::span<const std::string> words_;
  std::map<const Option*, std::vector<std::string>> values_;
  std::string problem_;
  bool asks_for_help_ = false;
};

struct Command {
  std::string_view name, help;
  std::span<const Option> options;
  int (*run)(const Arguments& arguments);  // returns an ExitCode
};
// Each defined in its own file, cli/msaccucmp_NAME.cpp, and listed in cli/msaccucmp.cpp.
extern const Command kCompare;
extern const Command kConvert;
extern const Command kFileCompare;
extern const Command kOverflow;

// Runs `sonde msaccucmp WORDS`.
int run(std::span<const std::string> words);

// One line to standard error: `2026-01-31 12:00:00 (4711) - [INFO] text`.
void log_info(std::string_view text);
void log_warning(std::string_view text);
void log_error(std::string_view text);

// Checks the characters of a path: the original allows some, and others end it with kBadArguments. Logs the path.
bool is_allowed_path(std::string_view path);

}  // namespace sonde::msaccucmp
