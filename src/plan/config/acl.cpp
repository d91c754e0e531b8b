// CANN's acl.json, read in CANN's order: types of all items, then values, then conflicts between items. If a kind
// of check finds an error, the later kinds are skipped; within one kind all errors are reported.
#include "plan/config/acl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "contract/setting_keys.h"
#include "plan/config/diagnostics.h"
#include "plan/config/dialect.h"
#include "plan/config/printable.h"

namespace sonde {
namespace {

constexpr std::string_view kEmpty = "The configuration item value is empty";
constexpr int kMostNested = 10;
constexpr std::size_t kLongestPath = 512;
constexpr std::size_t kMostSteps = 100;

constexpr std::array<std::string_view, 10> kTexts = {
    keys::dump_path, keys::dump_mode, keys::dump_op_switch, keys::dump_debug,       keys::dump_level,
    keys::dump_data, keys::dump_step, keys::dump_scene,     keys::dump_kernel_data, keys::quant_dumpable};

struct Options {
  std::string_view item;
  std::vector<std::string_view> values;
};
std::span<const Options> all_options() {
  static const std::vector<Options> options = {
      {keys::dump_mode, {"input", "output", "all"}},
      {keys::dump_op_switch, {"on", "off"}},
      {keys::dump_debug, {"on", "off"}},
      {keys::dump_level, {"op", "kernel", "all"}},
      {keys::dump_data, {"tensor", "stats"}},
      {keys::dump_scene,
       {"lite_exception", "aic_err_brief_dump", "aic_err_norm_dump", "aic_err_detail_dump", "watcher"}},
      {keys::quant_dumpable, {"0", "1"}},
  };
  return options;
}
constexpr std::array<std::string_view, 5> kKernelData = {"all", "printf", "tensor", "assert", "timestamp"};

// In the order in which CANN writes them, whatever the order of the file.
constexpr std::array<std::string_view, 7> kStatistics = {"Max",          "Min",          "Avg",   "Nan",
                                                         "Negative Inf", "Positive Inf", "L2norm"};

Category category_of(std::string_view statistic) {
  const std::optional<Category> value = category_from_title(statistic);
  return value ? *value : *category_from_title(std::string(statistic) + " count");
}

std::optional<Scene> scene_from(std::string_view word) {
  if (word == "watcher") return Scene::watcher;
  if (word == "lite_exception" || word == "aic_err_brief_dump") return Scene::exception_brief;
  if (word == "aic_err_norm_dump") return Scene::exception_norm;
  if (word == "aic_err_detail_dump") return Scene::exception_detail;
  return std::nullopt;
}

// How deep objects, and how deep arrays, lie in each other.
std::pair<int, int> nesting(const JsonValue& value) {
  std::pair<int, int> deepest = {0, 0};
  const auto look = [&](const JsonValue& inner) {
    const auto [objects, arrays] = nesting(inner);
    deepest = {std::max(deepest.first, objects), std::max(deepest.second, arrays)};
  };
  for (const JsonValue& item : value.items) look(item);
  for (const JsonMember& member : value.members) look(member.value);
  deepest.first += value.is(JsonValue::Kind::object) ? 1 : 0;
  deepest.second += value.is(JsonValue::Kind::array) ? 1 : 0;
  return deepest;
}

class AclReader {
 public:
  AclReader(const JsonValue& dump, Plan& plan, Diagnostics& diagnostics)
      : dump_(dump), plan_(plan), diagnostics_(diagnostics), complaints_(plan.source.string(), diagnostics) {}

  void read() {
    check_types();
    if (diagnostics_.has_errors()) return;
    check_values();
    if (diagnostics_.has_errors()) return;
    take_values();
    check_scene();
    if (diagnostics_.has_errors()) return;
    if (plan_.exception_only()) return take_exception_path();
    check_path();
    if (diagnostics_.has_errors()) return;
    check_debug();
    if (diagnostics_.has_errors() || plan_.overflow_only()) return;
    check_rest();
    if (!diagnostics_.has_errors()) warn_if_nothing_is_recorded();
  }

 private:
  std::string text(std::string_view item) const {
    const JsonMember* member = dump_.find(item);
    return member != nullptr ? member->value.text : "";
  }
  std::string environment(const char* name) const {
    const char* value = diagnostics_.is_of_a_record() ? nullptr : std::getenv(name);
    return value != nullptr ? value : "";
  }
  std::size_t line(std::string_view item) const {
    const JsonMember* member = dump_.find(item);
    return member != nullptr ? member->value.line : dump_.line;
  }

  void check_types() {
    for (const std::string_view item : kTexts) {
      const JsonMember* member = dump_.find(item);
      if (member != nullptr && !member->value.is(JsonValue::Kind::string)) {
        complaints_.content(member->value.line, std::string(item), "must be string");
      }
    }
    for (const std::string_view item : {keys::dump_stats, keys::dump_list}) {
      const JsonMember* member = dump_.find(item);
      if (member != nullptr && !member->value.is(JsonValue::Kind::array)) {
        complaints_.content(member->value.line, std::string(item), "must be array");
      }
    }
    const JsonMember* stats = dump_.find(keys::dump_stats);
    for (std::size_t i = 0; stats != nullptr && i < stats->value.items.size(); ++i) {
      const JsonValue& one = stats->value.items[i];
      if (one.is(JsonValue::Kind::string)) continue;
      complaints_.content(one.line, fmt::format("dump_stats[{}]", i), "array member must be string");
    }
    const JsonMember* list = dump_.find(keys::dump_list);
    if (list == nullptr) return;
    plan_.acl.dump_list = read_dump_list(list->value, complaints_);
    for (const JsonValue& entry : list->value.items) warn_of_unknown_keys(entry, "dump.dump_list", diagnostics_);
  }

  void check_values() {
    for (const Options& options : all_options()) {
      const JsonMember* member = dump_.find(options.item);
      if (member != nullptr) check_word(member->value, std::string(options.item), member->value.text, options.values);
    }
    const JsonMember* stats = dump_.find(keys::dump_stats);
    std::vector<std::string_view> words;
    words.insert(words.end(), kStatistics.begin(), kStatistics.end());
    for (std::size_t i = 0; stats != nullptr && i < stats->value.items.size(); ++i) {
      const JsonValue& one = stats->value.items[i];
      check_word(one, fmt::format("dump_stats[{}]", i), one.text, words);
    }
    const JsonMember* kernel_data = dump_.find(keys::dump_kernel_data);
    if (kernel_data == nullptr) return;
    std::string_view rest = kernel_data->value.text;
    while (true) {
      const std::string_view word = rest.substr(0, rest.find(','));
      check_word(kernel_data->value, keys::dump_kernel_data, word, {kKernelData.begin(), kKernelData.end()});
      if (word.size() == rest.size()) break;
      rest.remove_prefix(word.size() + 1);
    }
  }

  void check_word(const JsonValue& at, const std::string& item, std::string_view word,
                  std::vector<std::string_view> options) {
    if (word.empty()) return complaints_.content(at.line, item, kEmpty);
    if (std::ranges::find(options, word) != options.end()) return;
    complaints_.not_among(at.line, item, word, std::move(options));
  }

  void take_values() {
    const std::string mode = text(keys::dump_mode);
    plan_.input_output = mode == "all" ? Sides::both : mode == "input" ? Sides::inputs : Sides::outputs;
    plan_.acl.single_ops = text(keys::dump_op_switch) == "on";
    if (const std::string level = text(keys::dump_level); !level.empty()) plan_.acl.dump_level = level;
    plan_.acl.scene = scene_from(text(keys::dump_scene)).value_or(Scene::none);
    take_scene_of_environment();
    if (plan_.acl.is_exception_scene()) plan_.op_debug_mode = 4;
    take_statistics();
    if (dump_.find(keys::dump_kernel_data) != nullptr) {
      complaints_.warning(line(keys::dump_kernel_data), keys::dump_kernel_data,
                          "no effect: it keeps the output of kernels on an NPU, and kernels of a CPU print nothing");
    }
    if (text(keys::quant_dumpable) == "1") {
      complaints_.warning(line(keys::quant_dumpable), keys::quant_dumpable,
                          "no effect: nothing is fused here, and the inputs of a quantisation are recorded anyway");
    }
  }

  void take_statistics() {
    if (text(keys::dump_data) != "stats") return;
    plan_.saved_data = SavedData::statistic;
    const JsonMember* stats = dump_.find(keys::dump_stats);
    const bool all = stats == nullptr || stats->value.items.empty();
    plan_.statistic_category = all ? default_acl_statistics() : std::vector<Category>();
    for (const std::string_view statistic : kStatistics) {
      const auto is_it = [&](const JsonValue& word) { return word.text == statistic; };
      if (!all && std::ranges::any_of(stats->value.items, is_it)) {
        plan_.statistic_category.push_back(category_of(statistic));
      }
    }
  }

  // ASCEND_DUMP_SCENE sets the scene if the file asks for nothing at all.
  void take_scene_of_environment() {
    const std::string word = environment("ASCEND_DUMP_SCENE");
    if (word.empty() || plan_.acl.scene != Scene::none) return;
    const bool asks = !plan_.acl.dump_list.empty() || plan_.acl.single_ops || text(keys::dump_debug) == "on";
    const std::optional<Scene> scene = scene_from(word);
    if (asks || !scene || scene == Scene::watcher) {
      diagnostics_.warning(0, "ASCEND_DUMP_SCENE",
                           fmt::format("found {}; not used: {}", in_quotes(word),
                                       asks ? "the file asks for another kind of dump"
                                            : "allowed: aic_err_brief_dump, aic_err_norm_dump, aic_err_detail_dump"));
      return;
    }
    plan_.acl.scene = *scene;
  }

  void cannot_be(std::string_view item, std::string_view value, std::string_view when, std::string_view is) {
    complaints_.conflict(line(item), std::string(item),
                         fmt::format("When configuration item {} is set to {}, configuration item {} cannot be set "
                                     "to {}",
                                     when, is, item, value));
  }
  void cannot_be_configured(std::string_view item, std::string_view when, std::string_view is) {
    complaints_.conflict(
        line(item), std::string(item),
        fmt::format("When configuration item {} is set to {}, configuration item {} cannot be configured", when, is,
                    item));
  }

  void check_scene() {
    if (plan_.acl.scene == Scene::none) return;
    const std::string scene = text(keys::dump_scene);
    if (text(keys::dump_debug) == "on") cannot_be(keys::dump_debug, "on", keys::dump_scene, scene);
    if (plan_.acl.single_ops) cannot_be(keys::dump_op_switch, "on", keys::dump_scene, scene);
    if (plan_.acl.scene == Scene::watcher && plan_.input_output != Sides::outputs) {
      cannot_be(keys::dump_mode, text(keys::dump_mode), keys::dump_scene, scene);
    }
  }

  void take_exception_path() {
    plan_.input_output = Sides::both;
    plan_.acl.dump_list.clear();  // every operator may fail
    std::string path;
    for (const char* name : {"NPU_COLLECT_PATH", "ASCEND_DUMP_PATH", "ASCEND_WORK_PATH"}) {
      if (path.empty()) path = environment(name);
    }
    if (path.empty()) path = text(keys::dump_path);
    plan_.path = absolute_directory(path.empty() ? "." : path);
  }

  void check_path() {
    const JsonMember* member = dump_.find(keys::dump_path);
    const std::string item = "dump_path";
    if (member == nullptr) return complaints_.content(dump_.line, item, "item not found");
    const std::string& path = member->value.text;
    const std::size_t at = member->value.line;
    if (path.empty()) return complaints_.content(at, item, kEmpty);
    if (path.size() > kLongestPath) {
      return complaints_.value(at, item, printable(path, 60),
                               "The length of the value exceeds the maximum limit of 512");
    }
    if (path.find('\0') != path.npos)
      return complaints_.value(at, item, printable(path, 60), "The path does not exist");
    if (path.ends_with(':')) return complaints_.value(at, item, path, "The value is an invalid path");
    if (is_remote(path)) {
      diagnostics_.error(at, "dump.dump_path",
                         fmt::format("found {}; allowed: a directory of this machine; there is no remote storage here",
                                     in_quotes(path)));
      return;
    }
    if (diagnostics_.is_of_a_record()) {
      plan_.path = path;
      return;
    }
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) return complaints_.value(at, item, path, "The path does not exist");
    if (!S_ISDIR(status.st_mode)) return complaints_.value(at, item, path, "The path is not a directory path");
    if (::access(path.c_str(), R_OK | W_OK) != 0) {
      return complaints_.value(at, item, path, "The value is a path without read and write permissions");
    }
    plan_.path = absolute_directory(path);
  }

  // "172.16.0.1:/data": a directory of another machine.
  static bool is_remote(std::string_view path) {
    const std::string_view address = path.substr(0, path.find(':'));
    return address.size() < path.size() && std::ranges::count(address, '.') == 3 &&
           std::ranges::all_of(address, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
  }

  // The user's documents forbid a dump_list here; CANN itself looks only at dump_op_switch.
  void check_debug() {
    if (text(keys::dump_debug) != "on") return;
    plan_.op_debug_mode = 3;
    plan_.input_output = Sides::both;
    if (plan_.acl.single_ops) cannot_be(keys::dump_op_switch, "on", keys::dump_debug, "on");
    if (!plan_.acl.dump_list.empty()) cannot_be_configured(keys::dump_list, keys::dump_debug, "on");
    if (!text(keys::dump_step).empty()) {
      complaints_.warning(line(keys::dump_step), keys::dump_step,
                          "not read with dump_debug on: every step is examined");
    }
  }

  void check_rest() {
    check_dump_step(text(keys::dump_step), line(keys::dump_step), complaints_);
    if (const std::string steps = text(keys::dump_step); !steps.empty()) plan_.iteration = StepSet::parse(steps);
    if (const JsonMember* list = dump_.find(keys::dump_list)) check_dump_list(list->value, plan_, complaints_);
    const JsonMember* stats = dump_.find(keys::dump_stats);
    if (stats != nullptr && !stats->value.items.empty() && plan_.saved_data == SavedData::tensor) {
      cannot_be_configured(keys::dump_stats, keys::dump_data, "tensor");
    }
    if (plan_.acl.scene == Scene::watcher && plan_.acl.dump_list.empty()) {
      diagnostics_.error(line(keys::dump_list), "dump.dump_list", "E10001: Dump list is empty.");
    }
  }

  void warn_if_nothing_is_recorded() {
    if (!plan_.acl.dump_list.empty() || plan_.acl.single_ops || plan_.acl.scene != Scene::none) return;
    plan_.nothing = "dump_list is empty, and neither dump_op_switch, dump_debug nor dump_scene asks for anything";
    diagnostics_.warning(dump_.line, "dump", plan_.nothing + ": nothing is recorded, as with CANN");
  }

  const JsonValue& dump_;
  Plan& plan_;
  Diagnostics& diagnostics_;
  AclComplaints complaints_;
};

// Nullopt when the piece is not a number.
std::optional<std::uint64_t> step_from(std::string_view piece) {
  std::uint64_t step = 0;
  const auto [end, error] = std::from_chars(piece.data(), piece.data() + piece.size(), step);
  return error == std::errc() && end == piece.data() + piece.size() ? std::optional(step) : std::nullopt;
}

// The error in one part of dump_step; empty: none.
std::string_view wrong_with_step(std::string_view part) {
  const std::size_t dash = part.find('-');
  if (std::ranges::count(part, '-') > 1) return "The value has invalid format, expected format: 5-10";
  const auto start = step_from(part.substr(0, dash));
  const auto end = dash == part.npos ? start : step_from(part.substr(dash + 1));
  if (!start || !end) return "The value contains non-digit characters,  expected format: 1 or 5-10";
  if (*start > *end) {
    return "The value has invalid format, start step must not exceed end step, expected format: 5-10";
  }
  return "";
}

}  // namespace

void AclComplaints::content(std::size_t line, const std::string& item, std::string_view reason) {
  diagnostics_.error(
      line, "dump." + item,
      fmt::format("EP0001: The content of configuration item {} in configuration file {} is invalid. Reason: {}.", item,
                  file_, reason));
}

void AclComplaints::not_among(std::size_t line, const std::string& item, std::string_view value,
                              std::vector<std::string_view> options) {
  std::ranges::sort(options);
  diagnostics_.error(line, "dump." + item,
                     fmt::format("EP0002: Value {} for configuration item {} in configuration file {} is invalid. "
                                 "Expected value: {}.",
                                 printable(value, 60), item, file_, fmt::join(options, "/")));
}

void AclComplaints::value(std::size_t line, const std::string& item, std::string_view value, std::string_view reason) {
  diagnostics_.error(
      line, "dump." + item,
      fmt::format("EP0003: Value {} for configuration item {} in configuration file {} is invalid. Reason: {}.",
                  printable(value, 60), item, file_, reason));
}

void AclComplaints::unparsable(std::size_t line, std::string_view reason) {
  diagnostics_.error(line, "", fmt::format("EP0004: configuration file {} cannot be parsed: {}", file_, reason));
}

void AclComplaints::conflict(std::size_t line, const std::string& item, std::string_view reason) {
  diagnostics_.error(
      line, "dump." + item,
      fmt::format("EP0005: Conflict of configuration items in configuration file {}. Reason: {}.", file_, reason));
}

void AclComplaints::warning(std::size_t line, const std::string& item, std::string message) {
  diagnostics_.warning(line, "dump." + item, std::move(message));
}

void check_dump_step(std::string_view text, std::size_t line, AclComplaints& complaints) {
  if (text.empty()) return;
  if (static_cast<std::size_t>(std::ranges::count(text, '|')) >= kMostSteps) {
    return complaints.value(line, keys::dump_step, text, "The value exceeds the maximum limit of 100 intervals");
  }
  for (std::size_t i = 0;; ++i) {
    const std::string_view part = text.substr(0, text.find('|'));
    if (const std::string_view wrong = wrong_with_step(part); !wrong.empty()) {
      complaints.value(line, fmt::format("dump_step[{}]", i), part, wrong);
    }
    if (part.size() == text.size()) return;
    text.remove_prefix(part.size() + 1);
  }
}

std::vector<Category> default_acl_statistics() {
  std::vector<Category> categories;
  for (const std::string_view statistic : kStatistics) {
    const Category category = category_of(statistic);
    if (category != Category::l2norm) categories.push_back(category);
  }
  return categories;
}

std::filesystem::path absolute_directory(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path result = std::filesystem::absolute(path, ignored).lexically_normal();
  if (!result.is_absolute()) result = "/" / result;  // the working directory has gone
  return result.has_filename() || result == result.root_path() ? result : result.parent_path();
}

void read_acl(const JsonValue& root, const OwnSettings& own, Plan& plan, Diagnostics& diagnostics) {
  plan.dialect = "acl";
  plan.every_device = true;
  plan.net_name = "Net";  // for a layout that has such a directory
  plan.acl.in_use = true;
  plan.file_format = FileFormat::bin;
  plan.input_output = Sides::outputs;
  if (!own.layout) plan.sonde.layout = LayoutKind::acl;
  AclComplaints complaints(plan.source.string(), diagnostics);
  if (const auto [objects, arrays] = nesting(root); objects > kMostNested || arrays > kMostNested) {
    return complaints.unparsable(root.line, "objects or arrays are nested deeper than 10");
  }
  const JsonMember* dump = root.find("dump");
  if (dump == nullptr || (dump->value.is(JsonValue::Kind::object) && dump->value.members.empty())) {
    plan.nothing = "the file has no object 'dump', or an empty one";
    diagnostics.warning(root.line, "dump", plan.nothing + ": nothing is recorded, as with CANN");
    return;
  }
  if (!dump->value.is(JsonValue::Kind::object)) {
    return complaints.content(dump->value.line, "dump", "must be object type");
  }
  warn_of_unknown_keys(dump->value, "dump", diagnostics);
  AclReader(dump->value, plan, diagnostics).read();
}

}  // namespace sonde
