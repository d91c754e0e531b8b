// compare: compares two directories (or files) as `msaccucmp.py compare` does. docs/msaccucmp.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "guests/msaccucmp/algorithms.h"
#include "guests/msaccucmp/outcome.h"

namespace sonde::msaccucmp {

// Receives messages and the text for standard output. Called from one thread at a time.
struct Log {
  std::function<void(std::string_view)> info, warning, error, print;
};

// The columns of values: the built-in algorithms and those of -c, in the requested order.
struct Choice {
  std::optional<Algorithm> builtin;
  std::string name;
};

struct SingleOperator {
  std::string op_name;
  bool is_input = false;
  std::string index = "0";
  std::int64_t top = 20, most_lines = 1000000;
  bool without_elements = false;  // --ignore_single_op_result
};

struct CompareOptions {
  std::filesystem::path left, right, output;
  std::string rules, quant_rules, unfused_rules;  // -f, -q, -cf; empty: none
  std::vector<Choice> algorithms;
  std::string custom_directory;    // -c
  std::string algorithm_options;   // -a
  std::int64_t most_elements = 0;  // -max; 0: all
  bool mapping = false, overflow = false, advisor = false, keep_slices = false;
  std::optional<std::string> range, select;
  std::optional<SingleOperator> single;
  std::string result_name;  // of the CSV; empty: result_<time>.csv, mapping_<time>.csv
  std::size_t threads = 0;  // 0: as many as there are CPUs
};

// "all", or names and numbers between commas, of built-in algorithms and of those in `custom_directory`. Unknown ones
// are reported and skipped; if none is left: unknown_algorithm.
Outcome<std::vector<Choice>> choose_algorithms(const std::string& names, const std::string& custom_directory,
                                               const Log& log);

// Compares two directories. Returns the exit status of the program.
Code compare_directories(CompareOptions options, const Log& log);
// -f is a directory: one comparison for each of its models that was dumped.
Code compare_batch(const CompareOptions& options, const Log& log);
// Compares two .npy or .txt files. The values go to the log and, with `save`, to file_result_<time>.txt.
Code compare_files(const CompareOptions& options, bool save, const Log& log);

}  // namespace sonde::msaccucmp
