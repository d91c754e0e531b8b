#include "guests/msaccucmp/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "ground/base/text.h"
#include "guests/msaccucmp/comparison.h"

namespace sonde::msaccucmp {
namespace {

namespace fs = std::filesystem;

// Tensors of files larger than this are compared one after the other, each with all threads.
constexpr std::uintmax_t kLargeFile = 8 << 20;

Failure refuse(const Directory& left, const Directory& right, Code code, std::string_view why) {
  return {code, fmt::format("{} ({}) with {} ({}): {}", left.path.string(), name_of(left.kind), right.path.string(),
                            name_of(right.kind), why)};
}

// Checks that these dumps can be compared with these options.
std::optional<Failure> check_combination(const CompareOptions& options, const Directory& left, const Directory& right) {
  const bool f = !options.rules.empty(), q = !options.quant_rules.empty(), cf = !options.unfused_rules.empty();
  const auto no = [&](Code code, std::string_view why) { return refuse(left, right, code, why); };
  constexpr std::string_view kNever = "these cannot be compared";
  if (left.kind == DumpKind::standard) return no(Code::not_comparable, kNever);
  if (left.kind == DumpKind::quant) {
    if (cf || right.kind != DumpKind::standard) return no(Code::not_comparable, kNever);
    if (!q) return no(Code::not_comparable, "-q is needed");
    if (f) return no(Code::not_comparable, "-f is not needed");
    return std::nullopt;
  }
  switch (right.kind) {
    case DumpKind::offline:
      if (left.quantised != right.quantised) return no(Code::not_comparable, "only one of them is quantised");
      if (f && !cf) return no(Code::invalid_parameter, "-cf is needed beside -f");
      if (cf && !f) return no(Code::invalid_parameter, "-f is needed beside -cf");
      if (q) return no(Code::invalid_parameter, "-q is not needed");
      return std::nullopt;
    case DumpKind::standard:
      if (!f) return no(Code::invalid_parameter, "-f is needed");
      if (cf) return no(Code::invalid_parameter, "-cf is not needed");
      if (left.quantised && !q) return no(Code::invalid_parameter, "-q is needed: my output is quantised");
      if (!left.quantised && q) return no(Code::invalid_parameter, "-q is not needed: nothing is quantised");
      return std::nullopt;
    case DumpKind::quant:
      if (!left.quantised) return no(Code::not_comparable, kNever);
      if (!f) return no(Code::invalid_parameter, "-f is needed");
      if (q || cf) return no(Code::invalid_parameter, "-q and -cf are not needed");
      return std::nullopt;
  }
  return std::nullopt;
}

Outcome<Rules> load_rules(const CompareOptions& options) {
  if (options.rules.empty())
    return options.quant_rules.empty() ? Outcome<Rules>(Rules()) : read_rules(options.quant_rules);
  Outcome<Rules> rules = read_rules(options.rules);
  if (!rules) return rules;
  const std::string& second = options.quant_rules.empty() ? options.unfused_rules : options.quant_rules;
  if (second.empty()) return rules;
  const Outcome<Rules> other = read_rules(second);
  if (!other) return other.failure();
  return options.quant_rules.empty() ? against_unfused(*rules, *other) : before_quantisation(std::move(*rules), *other);
}

std::uintmax_t bytes_of(const OpFiles* files) {
  std::uintmax_t bytes = 0;
  if (files == nullptr) return bytes;
  for (const DumpFile& file : files->files) {
    std::error_code problem;
    const std::uintmax_t size = fs::file_size(file.path, problem);
    if (!problem) bytes = std::max(bytes, size);
  }
  return bytes;
}

// Runs `compare` for each of `count` parts. The results come in the order of the parts, on any thread.
template <typename IsLarge, typename Compare>
std::vector<GroupResult> run_parts(const Comparison& comparison, std::size_t count, const IsLarge& is_large,
                                   const Compare& compare) {
  std::vector<GroupResult> results(count);
  std::vector<std::size_t> small, large;
  for (std::size_t i = 0; i < count; ++i) (is_large(i) ? large : small).push_back(i);
  comparison.threads.for_each(small.size(), [&](std::size_t i) { results[small[i]] = compare(small[i], Hands{}); });
  const Hands all{comparison.threads.runner(), static_cast<unsigned>(comparison.threads.count())};
  for (const std::size_t i : large) results[i] = compare(i, all);
  return results;
}

std::vector<GroupResult> run(const Comparison& comparison, const std::vector<const Group*>& groups) {
  if (!comparison.has_rules()) {
    const std::vector<DirectOp> ops = direct_ops(comparison.left, comparison.right);
    return run_parts(
        comparison, ops.size(), [&](std::size_t i) { return bytes_of(ops[i].left) > kLargeFile; },
        [&](std::size_t i, const Hands& hands) { return compare_direct(comparison, ops[i], hands); });
  }
  const auto is_large = [&](std::size_t i) {
    return std::ranges::any_of(groups[i]->ops, [&](std::size_t op) {
      return bytes_of(comparison.left.find(comparison.rules.ops[op].name, std::nullopt)) > kLargeFile;
    });
  };
  return run_parts(comparison, groups.size(), is_large,
                   [&](std::size_t i, const Hands& hands) { return compare_group(comparison, *groups[i], hands); });
}

Code write_comparison(const Comparison& comparison, const std::vector<const Group*>& groups, const fs::path& file) {
  std::vector<GroupResult> results = run(comparison, groups);
  std::vector<Row> rows;
  Code status = Code::ok;
  bool matched = false;
  for (GroupResult& result : results) {
    for (const std::string& warning : result.warnings) comparison.log.warning(warning);
    if (status == Code::ok) status = result.status;
    matched |= result.matched;
    for (Row& row : result.rows) rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(rows, {}, &Row::index);
  take_from_producers(rows);
  if (const Outcome<bool> written = write_result(file, csv_text(comparison.columns, rows)); !written) {
    comparison.log.error(written.failure().reason);
    return written.failure().status;
  }
  if (!matched) {
    comparison.log.error(comparison.options.range || comparison.options.select
                             ? "none of the chosen operators is in the dump"
                             : "the model does not match the dump: not one operator could be compared");
    return Code::no_dump_file;
  }
  comparison.log.info(fmt::format("The comparison result has been written to '{}'.", file.string()));
  if (comparison.options.advisor) advise(comparison, rows);
  return status;
}

Columns columns_of(const CompareOptions& options, const Directory& left, const Directory& right) {
  Columns columns;
  columns.sequence = options.range || options.select;
  columns.left_address = !left.has_npy;
  columns.right_address = !right.has_npy;
  columns.overflow = options.overflow;
  for (const Choice& choice : options.algorithms) columns.algorithms.push_back(choice.name);
  return columns;
}

Outcome<Directory> scan(const fs::path& path, const CompareOptions& options, const Log& log) {
  std::error_code problem;
  if (!fs::is_directory(path, problem)) {
    return Failure{Code::invalid_path, fmt::format("'{}' is not a directory", path.string())};
  }
  return scan_directory(path, {options.keep_slices, !options.rules.empty()}, log.warning);
}

Outcome<bool> check_rule_files(const CompareOptions& options) {
  for (const std::string& file : {options.rules, options.quant_rules, options.unfused_rules}) {
    std::error_code problem;
    if (!file.empty() && !fs::is_regular_file(file, problem)) {
      return Failure{Code::invalid_path, fmt::format("'{}' is not a file", file)};
    }
  }
  return true;
}

Code compare_directories(Comparison& comparison) {
  const CompareOptions& options = comparison.options;
  if (options.single) return compare_single(comparison);
  Outcome<std::vector<const Group*>> groups = chosen_groups(comparison);
  if (!groups) {
    comparison.log.error(groups.failure().reason);
    return groups.failure().status;
  }
  const std::string name = fmt::format("{}_{}.csv", options.mapping ? "mapping" : "result", now_digits());
  const fs::path file = options.output / (options.result_name.empty() ? name : options.result_name);
  return options.mapping ? write_mapping(comparison, *groups, file) : write_comparison(comparison, *groups, file);
}

}  // namespace

Code compare_directories(CompareOptions options, const Log& log) {
  const auto fail = [&](const Failure& failure) {
    log.error(failure.reason);
    return failure.status;
  };
  if (const Outcome<bool> rules = check_rule_files(options); !rules) return fail(rules.failure());
  Outcome<Directory> left = scan(options.left, options, log);
  if (!left) return fail(left.failure());
  Outcome<Directory> right = scan(options.right, options, log);
  if (!right) return fail(right.failure());
  if (std::optional<Failure> problem = check_combination(options, *left, *right); problem) return fail(*problem);
  if (left->has_npy) options.overflow = false;  // a framework's values have more room than float16
  Outcome<Rules> rules = load_rules(options);
  if (!rules) return fail(rules.failure());
  Columns columns = columns_of(options, *left, *right);
  Comparison comparison{options,           log,
                        std::move(*left),  std::move(*right),
                        std::move(*rules), std::move(columns),
                        nullptr,           Threads(options.threads)};
  if (std::ranges::any_of(options.algorithms, [](const Choice& choice) { return !choice.builtin; })) {
    auto custom = CustomAlgorithms::start(options.custom_directory, options.algorithm_options);
    if (!custom) return fail(custom.failure());
    comparison.custom = std::move(*custom);
  }
  return compare_directories(comparison);
}

Outcome<std::vector<Choice>> choose_algorithms(const std::string& names, const std::string& custom_directory,
                                               const Log& log) {
  std::vector<Choice> chosen;
  const auto add = [&](Choice choice) {
    const bool is_known = std::ranges::any_of(chosen, [&](const Choice& c) { return c.name == choice.name; });
    if (!is_known) chosen.push_back(std::move(choice));
  };
  if (lower_case(names) == "all") {
    for (std::size_t i = 0; i < kAlgorithms; ++i) {
      const auto algorithm = static_cast<Algorithm>(i);
      add({algorithm, std::string(name_of(algorithm))});
    }
    return chosen;
  }
  const std::vector<std::string> custom = custom_algorithms(custom_directory);
  for (const std::string_view field : fields_in(names, ',')) {
    std::string name(field);
    while (name.starts_with(' ')) name.erase(0, 1);
    while (name.ends_with(' ')) name.pop_back();
    const bool is_custom = std::ranges::find(custom, name) != custom.end();
    if (const std::optional<Algorithm> builtin = algorithm_from(name); builtin && !is_custom) {
      add({builtin, std::string(name_of(*builtin))});
    } else if (is_custom) {
      add({std::nullopt, name});
    } else if (!name.empty()) {
      log.warning(fmt::format("there is no algorithm '{}'", name));
    }
  }
  if (chosen.empty()) {
    return Failure{Code::unknown_algorithm,
                   fmt::format("'{}' names no algorithm: 0 to 9, their names, or those of -c", names)};
  }
  return chosen;
}

}  // namespace sonde::msaccucmp
