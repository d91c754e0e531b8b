// msaccucmp.py compare and file_compare.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "answer.h"
#include "guests/msaccucmp/compare.h"
#include "msaccucmp.h"

namespace sonde::msaccucmp {
namespace {

namespace fs = std::filesystem;
using Takes = Option::Takes;

const Option kCompareOptions[] = {
    {{"-m", "--my_dump_path"}, "my output: a directory of dump files, or one file", Takes::value, true},
    {{"-g", "--golden_dump_path"}, "the output to compare it with", Takes::value, true},
    {{"-f", "--fusion_rule_file"}, "the rule file of the compiled model, or a directory of them"},
    {{"-q", "--quant_fusion_rule_file"}, "the rule file of the quantisation"},
    {{"-cf", "--close_fusion_rule_file"}, "the rule file of the model compiled without fusion"},
    {{"-out", "--output"}, "the directory for the results (default: the current one)"},
    {{"-c", "--custom_script_path"}, "directory with algorithm/alg_<Name>.py"},
    {{"-a", "--algorithm_options"}, "'Name:key=value,key=value;Name2:…' for algorithms"},
    {{"-alg", "--algorithm"}, "names and numbers 0 to 9 with commas (or numbers with blanks), or all", Takes::values},
    {{"-map", "--mapping"}, "only write the pairs of files to compare", Takes::nothing},
    {{"-overflow_detection"}, "a column OverFlow: float16 that reached its largest value", Takes::nothing},
    {{"-r", "--range"}, "start,end,step: only operators of these ids; needs -f"},
    {{"-s", "--select"}, "i,j,…: only operators of these ids; needs -f"},
    {{"-p", "--post_process"}, "for HDF5 files only", Takes::value, false, {"0", "1"}},
    {{"-max", "--max_cmp_size"}, "compare only the first N elements (0: all)"},
    {{"-advisor"}, "name the operators to look at first; implies -overflow_detection", Takes::nothing},
    {{"-v", "--version"}, "ignored", Takes::value, false, {"1", "2"}},
    {{"-op", "--op_name"}, "one operator, element by element"},
    {{"-o", "--output_tensor"}, "its output of this number (default: 0); needs -op"},
    {{"-i", "--input_tensor"}, "its input of this number; needs -op"},
    {{"--ignore_single_op_result"}, "no file of elements; needs -op", Takes::nothing},
    {{"-n", "--topn"}, "number of the largest errors to write, 1 to 10000 (default: 20); needs -op"},
    {{"-ml", "--max_line"}, "lines of a file of elements, 10000 to 1000000; needs -op"},
    {{"-ffts"}, "do not put the slices of FFTS+ together", Takes::nothing},
};

const Option kFileCompareOptions[] = {
    {{"-m", "--my_dump_path"}, "my output, a .npy file", Takes::value, true},
    {{"-g", "--golden_dump_path"}, "the .npy file that it is compared with", Takes::value, true},
    {{"-out", "--output"}, "the directory for file_result_<time>.txt", Takes::value, true},
};

Log make_log() {
  return {log_info, log_warning, log_error, [](std::string_view text) { print_text(text); }};
}

// The commands end with their duration, as the original does.
class Ending {
 public:
  int operator()(int status) const {
    const auto took = std::chrono::steady_clock::now() - began_;
    log_info(fmt::format("The command was completed and took {} seconds.",
                         std::chrono::duration_cast<std::chrono::seconds>(took).count()));
    return status;
  }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

int refuse(std::string_view why) {
  log_error(why);
  return kInvalidParameter;
}

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Arguments that are refused before any file is read. 0: none.
int check_words(const Arguments& arguments) {
  for (const std::string_view name : {"-m", "-g", "-f", "-q", "-cf", "-out", "-c"}) {
    if (!is_allowed_path(arguments.value(name))) {
      log_error(fmt::format("argument {}: '{}' has characters other than A-Z a-z 0-9 _ / . , -", name,
                            arguments.value(name)));
      return kBadArguments;
    }
  }
  for (const std::string_view name : {"-max", "-n", "-ml"}) {
    if (arguments.has(name) && !whole_number(arguments.value(name))) {
      log_error(fmt::format("argument {}: invalid number: '{}'", name, arguments.value(name)));
      return kBadArguments;
    }
  }
  // One word; or, if the second is a digit, numbers only.
  const std::vector<std::string> algorithms = arguments.values("-alg");
  const auto is_digit = [](const std::string& word) { return word.size() == 1 && word[0] >= '0' && word[0] <= '9'; };
  if (algorithms.size() > 1 && !std::ranges::all_of(algorithms, is_digit)) {
    log_error(fmt::format("argument -alg: not all of '{}' are numbers 0 to 9; names are joined by commas",
                          fmt::join(algorithms, " ")));
    return kBadArguments;
  }
  if (arguments.has("-o") && arguments.has("-i")) {
    log_error("argument -i: not allowed with argument -o");
    return kBadArguments;
  }
  return kDone;
}

// Combinations that are contradictory. 0: none.
int check_combination(const Arguments& arguments) {
  const bool has_rules = !arguments.value("-f").empty();
  const bool has_op = arguments.has("-op");
  for (const std::string_view name : {"-r", "-s"}) {
    if (!arguments.has(name)) continue;
    if (!has_rules) return refuse(fmt::format("{} needs -f", name));
    if (has_op) return refuse(fmt::format("{} is not possible with -op", name));
  }
  if (arguments.has("-r") && arguments.has("-s")) return refuse("-r and -s are not possible together");
  if (whole_number(arguments.value("-max", "0")) < 0) return refuse("-max has to be 0 or more");
  if (arguments.has("-map")) {
    if (has_op || arguments.has("-o") || arguments.has("-i")) return refuse("-map is not possible with -op, -o or -i");
    if (!has_rules && arguments.value("-q").empty()) return refuse("-map needs -f or -q");
    return kDone;
  }
  for (const std::string_view name : {"-o", "-i", "-n", "-ml", "--ignore_single_op_result"}) {
    if (arguments.has(name) && !has_op) return refuse(fmt::format("{} needs -op", name));
  }
  for (const std::string_view name : {"-m", "-g"}) {
    std::error_code problem;
    if (fs::exists(arguments.value(name), problem)) continue;
    log_error(fmt::format("'{}' does not exist", arguments.value(name)));
    return kInvalidPath;
  }
  return kDone;
}

std::optional<std::string> optional_value(const Arguments& arguments, std::string_view name) {
  return arguments.has(name) ? std::optional(arguments.value(name)) : std::nullopt;
}

std::optional<SingleOperator> single_operator(const Arguments& arguments) {
  if (!arguments.has("-op") || arguments.value("-op").empty()) return std::nullopt;
  SingleOperator single;
  single.op_name = arguments.value("-op");
  single.is_input = arguments.has("-i");
  single.index = arguments.value(single.is_input ? "-i" : "-o", "0");
  if (single.index.empty()) single.index = "0";
  single.top = whole_number(arguments.value("-n", "20")).value_or(20);
  single.most_lines = whole_number(arguments.value("-ml", "1000000")).value_or(1000000);
  single.without_elements = arguments.has("--ignore_single_op_result");
  return single;
}

// "0,2", "all"; `-alg 0 2 4` arrives as three words.
std::string algorithm_names(const Arguments& arguments) {
  if (!arguments.has("-alg")) return "all";
  return fmt::format("{}", fmt::join(arguments.values("-alg"), ","));
}

// The path in reasons and tables: absolute, links followed.
fs::path real_path(const std::string& path) {
  std::error_code problem;
  const fs::path real = fs::weakly_canonical(path, problem);
  return problem ? fs::path(path) : real;
}

CompareOptions options_of(const Arguments& arguments) {
  CompareOptions options;
  options.left = real_path(arguments.value("-m"));
  options.right = real_path(arguments.value("-g"));
  options.output = fs::absolute(arguments.value("-out", "."));
  options.rules = arguments.value("-f");
  options.quant_rules = arguments.value("-q");
  options.unfused_rules = arguments.value("-cf");
  options.custom_directory = arguments.value("-c");
  options.algorithm_options = arguments.value("-a");
  options.most_elements = whole_number(arguments.value("-max", "0")).value_or(0);
  options.mapping = arguments.has("-map");
  options.overflow = arguments.has("-overflow_detection");
  options.advisor = arguments.has("-advisor");
  options.keep_slices = arguments.has("-ffts");
  options.range = optional_value(arguments, "-r");
  options.select = optional_value(arguments, "-s");
  options.single = single_operator(arguments);
  return options;
}

void settle_advisor(const Arguments& arguments, CompareOptions& options) {
  if (!options.advisor) return;
  for (const std::string_view name : {"-r", "-s", "-op"}) {
    if (!arguments.has(name)) continue;
    log_warning(fmt::format("-advisor has no effect with {}", name));
    options.advisor = false;
    return;
  }
  options.overflow = true;
}

bool is_file(const fs::path& path) {
  std::error_code problem;
  return fs::is_regular_file(path, problem);
}

Code start(const Arguments& arguments, CompareOptions options, const Log& log) {
  if (is_file(options.left) && is_file(options.right) && !options.mapping) {
    if (options.left.extension() == ".h5" && options.right.extension() == ".h5") {
      log.error("HDF5 files are not supported");
      return Code::unsupported_comparison;
    }
    return compare_files(options, false, log);
  }
  std::error_code problem;
  if (!options.mapping && !options.rules.empty() && fs::is_directory(options.rules, problem)) {
    return compare_batch(options, log);
  }
  settle_advisor(arguments, options);
  return compare_directories(std::move(options), log);
}

int run_compare(const Arguments& arguments) {
  if (const int status = check_words(arguments); status != kDone) return status;
  const Ending ending;
  if (const int status = check_combination(arguments); status != kDone) return ending(status);
  CompareOptions options = options_of(arguments);
  const bool are_files = is_file(options.left) && is_file(options.right);
  const bool are_hdf5 = are_files && options.left.extension() == ".h5" && options.right.extension() == ".h5";
  if (arguments.has("-p") && !are_hdf5) return ending(refuse("-p is for HDF5 files only"));
  const Log log = make_log();
  Outcome<std::vector<Choice>> algorithms =
      choose_algorithms(algorithm_names(arguments), options.custom_directory, log);
  if (!algorithms) {
    log_error(algorithms.failure().reason);
    return ending(static_cast<int>(algorithms.failure().status));
  }
  options.algorithms = std::move(*algorithms);
  return ending(static_cast<int>(start(arguments, std::move(options), log)));
}

int run_file_compare(const Arguments& arguments) {
  for (const std::string_view name : {"-m", "-g", "-out"}) {
    if (is_allowed_path(arguments.value(name))) continue;
    log_error(
        fmt::format("argument {}: '{}' has characters other than A-Z a-z 0-9 _ / . , -", name, arguments.value(name)));
    return kBadArguments;
  }
  const Ending ending;
  for (const std::string_view name : {"-m", "-g"}) {
    const std::string file = arguments.value(name);
    if (!file.ends_with(".npy")) {
      log_error(fmt::format("'{}' is not an .npy file", file));
      return ending(kWrongFileType);
    }
    if (!is_file(file)) {
      log_error(fmt::format("'{}' is not a file", file));
      return ending(kInvalidPath);
    }
  }
  CompareOptions options;
  options.left = real_path(arguments.value("-m"));
  options.right = real_path(arguments.value("-g"));
  options.output = fs::absolute(arguments.value("-out"));
  const Log log = make_log();
  options.algorithms = *choose_algorithms("0,1,2,3,6,7,8,9", "", log);
  return ending(static_cast<int>(compare_files(options, true, log)));
}

}  // namespace

const Command kCompare = {"compare", "Compare the dumps of a model, or one operator of them.", kCompareOptions,
                          run_compare};
const Command kFileCompare = {"file_compare", "Compare two .npy files.", kFileCompareOptions, run_file_compare};

}  // namespace sonde::msaccucmp
