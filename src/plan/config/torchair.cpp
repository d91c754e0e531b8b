// TorchAir's CompilerConfig.dump_config as a file: {"dump_config": {"enable_dump": true, "dump_path": "/d", ...}}.
// python/sonde/torchair.py makes the same checks where the options are set, with the same words.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/config/acl.h"
#include "plan/config/diagnostics.h"
#include "plan/config/dialect.h"
#include "plan/config/printable.h"

namespace sonde {
namespace {

constexpr std::string_view kDumpConfig = "dump_config";
constexpr std::array<std::string_view, 9> kOptions = {"enable_dump",    "dump_path",        "dump_mode",
                                                      "quant_dumpable", "dump_step",        "dump_layer",
                                                      "dump_data",      "dump_config_path", "data_dump_stage"};
constexpr const char* kStepsPattern = R"(^(((\d+)|(\d+-{0,1}\d+))\|{0,1})*$)";
// TorchAir's expression, and `-`, which Sonde's names of operators contain.
constexpr const char* kLayers = R"(^[0-9a-zA-Z_" "/\\.-]*$)";

// As Python shows a value and its type in a message.
std::string spelled_in_python(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::null:
      return "None";
    case JsonValue::Kind::boolean:
      return value.boolean ? "True" : "False";
    case JsonValue::Kind::string:
      return fmt::format("'{}'", printable(value.text, 60));
    default:
      return spelled(value);
  }
}

std::string_view type_in_python(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::null:
      return "NoneType";
    case JsonValue::Kind::boolean:
      return "bool";
    case JsonValue::Kind::unsigned_integer:
    case JsonValue::Kind::negative_integer:
      return "int";
    case JsonValue::Kind::floating:
      return "float";
    case JsonValue::Kind::string:
      return "str";
    case JsonValue::Kind::array:
      return "list";
    case JsonValue::Kind::object:
      return "dict";
  }
  return "";
}

// The exceptions of the original, in front of their texts.
class OptionReader {
 public:
  OptionReader(const JsonValue& object, Diagnostics& diagnostics) : object_(object), diagnostics_(diagnostics) {}

  void refuse_unknown() {
    for (const JsonMember& member : object_.members) {
      if (std::ranges::find(kOptions, member.key) != kOptions.end()) continue;
      error(member, "ValueError",
            fmt::format("_DataDumpConfig has no option {}, all options [{}]", printable(member.key, 60),
                        fmt::join(quoted({kOptions.begin(), kOptions.end()}), ", ")));
    }
  }

  bool flag(std::string_view key) {
    const JsonMember* member = object_.find(key);
    if (member == nullptr) return false;
    if (member->value.is(JsonValue::Kind::boolean)) return member->value.boolean;
    not_listed(*member, "False, True", "bool");
    return false;
  }

  std::string word(std::string_view key, std::vector<std::string_view> words) {
    const JsonMember* member = object_.find(key);
    if (member == nullptr) return "";
    const bool is_one =
        member->value.is(JsonValue::Kind::string) && std::ranges::find(words, member->value.text) != words.end();
    if (is_one) return member->value.text;
    not_listed(*member, fmt::format("{}", fmt::join(quoted(words), ", ")), "str");
    return "";
  }

  std::string matching(std::string_view key, const char* expression, std::string_view example) {
    const JsonMember* member = object_.find(key);
    if (member == nullptr) return "";
    const bool legal = member->value.is(JsonValue::Kind::string) && RE2::FullMatch(member->value.text, expression);
    if (legal) return member->value.text;
    const std::string shown = member->value.is(JsonValue::Kind::string) ? printable(member->value.text, 60)
                                                                        : spelled_in_python(member->value);
    error(*member, "ValueError",
          fmt::format("Please set legal regex value format match {}, {} is Illegal format, correct example:{}.",
                      expression, shown, example));
    return "";
  }

  // An existing directory; "" when it is missing or wrong.
  std::string directory(std::string_view key) {
    const JsonMember* member = object_.find(key);
    if (member == nullptr) return "";
    if (diagnostics_.is_of_a_record()) return member->value.text;
    struct stat status = {};
    const std::string& path = member->value.text;
    const bool exists = member->value.is(JsonValue::Kind::string) && path.find('\0') == path.npos &&
                        ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    if (exists) return path;
    error(*member, "FileNotFoundError",
          fmt::format("Please set legal dir path, {} is not found or is not a file directory!", printable(path, 200)));
    return "";
  }

  // An existing file; "" when it is missing or wrong. The contents of a file that a recorded configuration names are
  // unknown.
  std::string json_file(std::string_view key) {
    const JsonMember* member = object_.find(key);
    if (member == nullptr || diagnostics_.is_of_a_record()) return "";
    struct stat status = {};
    const std::string& path = member->value.text;
    if (member->value.is(JsonValue::Kind::string) && path.empty()) {
      error(*member, "ValueError", "File path cannot be empty!");
      return "";
    }
    const bool exists = member->value.is(JsonValue::Kind::string) && path.find('\0') == path.npos &&
                        path.ends_with(".json") && ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
    if (exists) return path;
    error(*member, "FileNotFoundError",
          fmt::format("Please set legal file path, {} is not found or is not '.json' file!", printable(path, 200)));
    return "";
  }

  bool has(std::string_view key) const { return object_.find(key) != nullptr; }
  std::size_t line(std::string_view key) const { return has(key) ? object_.find(key)->value.line : object_.line; }
  void warning(std::string_view key, std::string message) {
    diagnostics_.warning(line(key), fmt::format("{}.{}", kDumpConfig, key), std::move(message));
  }

 private:
  static std::vector<std::string> quoted(const std::vector<std::string_view>& words) {
    std::vector<std::string> result;
    for (const std::string_view word : words) result.push_back(fmt::format("'{}'", word));
    return result;
  }

  void not_listed(const JsonMember& member, std::string_view listed, std::string_view type) {
    error(member, "ValueError",
          fmt::format("Value {} (type: <class '{}'>) not in optional list [{}] (type: <class '{}'>).",
                      spelled_in_python(member.value), type_in_python(member.value), listed, type));
  }

  void error(const JsonMember& member, std::string_view exception, const std::string& message) {
    diagnostics_.error(member.value.line, fmt::format("{}.{}", kDumpConfig, printable(member.key, 60)),
                       fmt::format("{}: {}", exception, message));
  }

  const JsonValue& object_;
  Diagnostics& diagnostics_;
};

struct DumpOptions {
  bool enabled = false, quant_dumpable = false;
  std::string path, mode, step, data, config_path, stage;
  std::vector<std::string> layers;
};

DumpOptions read_options(OptionReader& reader) {
  DumpOptions options;
  reader.refuse_unknown();
  options.enabled = reader.flag("enable_dump");
  options.path = reader.directory("dump_path");
  options.mode = reader.word("dump_mode", {"input", "output", "all"});
  options.quant_dumpable = reader.flag("quant_dumpable");
  options.step = reader.matching("dump_step", kStepsPattern, "0|1|2-5|6");
  std::istringstream layers(reader.matching("dump_layer", kLayers, "Mul_1 Add1 Conv2D_1"));
  for (std::string layer; layers >> layer;) options.layers.push_back(layer);
  options.data = reader.word("dump_data", {"tensor", "stats"});
  options.config_path = reader.json_file("dump_config_path");
  options.stage = reader.word("data_dump_stage", {"original", "optimized"});
  return options;
}

// Reads the acl.json named by dump_config_path as `plan`. Errors in it are reported with its own lines.
void read_named_file(const std::string& path, std::size_t line, const OwnSettings& own, Plan& plan,
                     Diagnostics& diagnostics) {
  Diagnostics inner;
  const std::filesystem::path outer = std::exchange(plan.source, path);
  if (const Result<std::string> text = read_configuration_file(path); !text) {
    inner.error(0, "", text.error().message);
  } else if (const auto root = parse_json(*text, inner)) {
    if (root->is(JsonValue::Kind::object)) {
      read_acl(*root, own, plan, inner);
    } else {
      inner.error(root->line, "", fmt::format("found {} at the top of the file; allowed: an object", spelled(*root)));
    }
  }
  plan.source = outer;
  const std::string key = fmt::format("{}.dump_config_path", kDumpConfig);
  for (const Diagnostic& one : inner.take()) {
    const std::string message = text_of(one, path);
    one.is_error ? diagnostics.error(line, key, message) : diagnostics.warning(line, key, message);
  }
}

// TorchAir's regular expression accepts more than TorchAir can run.
void take_step(std::string step, OptionReader& reader, Plan& plan, Diagnostics& diagnostics) {
  if (step.ends_with('|')) step.pop_back();
  if (step.empty()) return;
  AclComplaints complaints(plan.source.string(), diagnostics);
  check_dump_step(step, reader.line("dump_step"), complaints);
  plan.iteration = StepSet::parse(step);
}

}  // namespace

void read_torchair(const JsonValue& root, const OwnSettings& own, Plan& plan, Diagnostics& diagnostics) {
  const JsonMember* member = root.find(kDumpConfig);
  if (!member->value.is(JsonValue::Kind::object)) {
    diagnostics.error(member->value.line, std::string(kDumpConfig),
                      fmt::format("found {}; allowed: an object", spelled(member->value)));
    return;
  }
  OptionReader reader(member->value, diagnostics);
  const DumpOptions options = read_options(reader);
  if (!options.config_path.empty()) {
    read_named_file(options.config_path, reader.line("dump_config_path"), own, plan, diagnostics);
  }
  plan.dialect = "torchair";
  plan.every_device = true;
  plan.net_name = "Net";  // for a layout that has such a directory
  plan.acl.in_use = true;
  plan.file_format = FileFormat::bin;
  if (options.stage == "original") {
    reader.warning("data_dump_stage", "no effect: the original program always runs here");
  }
  if (!options.enabled) {  // then TorchAir passes on the file alone, and its dump_path as it is
    if (!options.config_path.empty()) return;
    if (!own.layout) plan.sonde.layout = LayoutKind::torchair;
    plan.nothing = "enable_dump is False and no dump_config_path is given";
    if (!diagnostics.has_errors()) reader.warning("enable_dump", plan.nothing + ": nothing is recorded");
    return;
  }
  const bool has_file = !options.config_path.empty();
  plan.nothing.clear();
  plan.acl.anywhere = true;
  if (!own.layout) plan.sonde.layout = LayoutKind::torchair;
  if (!has_file || !options.path.empty()) plan.path = absolute_directory(options.path.empty() ? "." : options.path);
  if (!has_file || !options.mode.empty()) {
    plan.input_output = options.mode == "input"    ? Sides::inputs
                        : options.mode == "output" ? Sides::outputs
                                                   : Sides::both;
  }
  if (options.data == "tensor") plan.saved_data = SavedData::tensor;
  if (options.data == "stats" && plan.saved_data != SavedData::statistic) {
    plan.saved_data = SavedData::statistic;
    plan.statistic_category = default_acl_statistics();
  }
  plan.acl.quantised = options.quant_dumpable;
  take_step(options.step, reader, plan, diagnostics);
  if (!options.layers.empty()) {
    plan.acl.dump_list = {
        DumpListEntry{.layer = options.layers, .layer_key = fmt::format("{}.dump_layer", kDumpConfig)}};
  }
  if (plan.acl.dump_list.empty()) plan.acl.single_ops = true;  // no layer: every operator
}

}  // namespace sonde
